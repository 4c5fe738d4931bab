"""Process tasks through a real worker on a real file: how their runs end in the store, and how they are stopped."""

from __future__ import annotations

import importlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.worker import process_tasks as tasks
from tests.worker.test_processes import LONG, linux_only, wait_until_gone

from holdfast import Event, Holdfast, Job, Task, Worker
from holdfast.testing.clock import ManualClock
from holdfast.testing.drain import run_to_empty
from holdfast.testing.elsewhere import elsewhere


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(path: Path, clock: ManualClock) -> Iterator[Holdfast]:
    with elsewhere(tasks.app, f"sqlite:///{path}", clock) as app:
        yield app


@contextmanager
def working(app: Holdfast, concurrency: int = 2, **settings: Any) -> Iterator[Worker]:
    """A worker in a thread of its own; stopped in a hurry at the end."""
    worker = app.worker(concurrency=concurrency, **settings)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        worker.stop()
        thread.join(LONG)
        assert not thread.is_alive()


def read(app: Holdfast, job: Job) -> Job:
    found = app.get(job.id)
    assert found is not None
    return found


def kinds(app: Holdfast, job: Job) -> list[str]:
    return [event.kind for event in app.events(job.id)]


def next_event(app: Holdfast, job: Job, kind: str, after: int = 0) -> Event:
    """The first event of that kind after number `after`, once it is there."""
    for event in app.events(job.id, after=after, follow=True):
        if event.kind == kind:
            return event
    raise AssertionError(f"{read(app, job)} ended without an event {kind!r}: {read(app, job).error}")


# What comes back


def test_results_come_back(app: Holdfast) -> None:
    plain, later = tasks.add.enqueue(2, second=3), tasks.add_later.enqueue(2, 4)
    who = tasks.whoami.enqueue()
    run_to_empty(app)
    assert [read(app, job).result for job in (plain, later)] == [5, 6]
    assert kinds(app, plain) == ["enqueued", "started", "succeeded"]
    assert read(app, who).result[0] != os.getpid()


def test_what_a_job_says_is_kept_in_order(app: Holdfast) -> None:
    job = tasks.talk.enqueue(40)
    run_to_empty(app)
    job = read(app, job)
    assert job.result == [1, 1, job.id]
    assert job.progress == {"done": 40, "total": 40, "engine": "tesseract", "fraction": 1.0}
    assert job.meter == {"seconds": 2.5, "pages": 40.0}
    events = list(app.events(job.id))
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert [event.data["n"] for event in events if event.kind == "page"] == list(range(1, 41))
    assert [event.kind for event in events if event.kind != "page"][-2:] == ["progress", "succeeded"]


def test_what_a_job_says_is_kept_while_it_runs(app: Holdfast) -> None:
    job = tasks.wait_for_ever.enqueue()
    with working(app):
        assert next_event(app, job, "waiting").data != os.getpid()
        assert read(app, job).state == "running"


def test_a_job_knows_itself_as_it_would_in_the_worker(app: Holdfast) -> None:
    job = tasks.describe.using(tags=["eu"], meta={"a": 1}, attempts=7, queue="ocr").enqueue(tasks.Page(3, "text"))
    run_to_empty(app)
    name = f"{tasks.__name__}.describe"
    assert read(app, job).result == [name, "ocr", "Page", 3, ["eu"], {"a": 1}, 7]


def test_a_retry_goes_on_from_what_was_said(app: Holdfast, clock: ManualClock) -> None:
    job = tasks.resume.enqueue()
    run_to_empty(app, clock)
    job = read(app, job)
    assert (job.state, job.attempt) == ("succeeded", 2)
    assert job.progress == {"done": 4, "total": 4, "note": "first", "fraction": 1.0}
    assert job.meter == {"rounds": 2.0}


def test_printing_goes_through(app: Holdfast, capfd: pytest.CaptureFixture[str]) -> None:
    tasks.show.enqueue("hello from the child")
    run_to_empty(app)
    assert capfd.readouterr().out == "hello from the child\n"


# How a run ends


@pytest.mark.parametrize(
    ("name", "attempts"), [("value", 2), ("odd", 2), ("odder", 1), ("key", 1)], ids=["on", "subclass", "never", "other"]
)
def test_the_policy_is_applied_to_real_classes(app: Holdfast, clock: ManualClock, name: str, attempts: int) -> None:
    job = tasks.choosy.enqueue(name)
    run_to_empty(app, clock)
    job = read(app, job)
    assert (job.state, job.attempt, len(job.errors)) == ("failed", attempts, attempts)
    assert "raise {" in job.errors[0].traceback


@pytest.mark.parametrize(
    ("name", "state", "attempt", "delay"),
    [
        ("retry", "scheduled", 1, 7.5),
        ("snooze", "scheduled", 0, 60),
        ("snooze-surrogate", "scheduled", 0, 60),
        ("skip", "skipped", 1, None),
        ("skip-error", "skipped", 1, None),
        ("fatal", "failed", 1, None),
        ("cancelled", "cancelled", 1, None),
    ],
)
def test_a_job_ends_its_run_on_purpose(
    app: Holdfast, clock: ManualClock, name: str, state: str, attempt: int, delay: float | None
) -> None:
    job = tasks.fail.enqueue(name)
    run_to_empty(app)
    job = read(app, job)
    assert (job.state, job.attempt) == (state, attempt)
    if delay is not None:
        assert job.run_after is not None
        assert (job.run_after - clock.moment).total_seconds() == delay


def test_a_result_that_cannot_be_stored_ends_the_job(app: Holdfast) -> None:
    job = tasks.unstorable.enqueue()
    run_to_empty(app)
    job = read(app, job)
    assert (job.state, job.attempt, job.errors[0].kind) == ("failed", 1, "holdfast.errors.PayloadError")


def test_finishing_inside_a_transaction_is_refused(app: Holdfast, path: Path) -> None:
    jobs = [task.using(attempts=1).enqueue(str(path)) for task in (tasks.finish_itself, tasks.finish_itself_later)]
    run_to_empty(app)
    for job in jobs:
        job = read(app, job)
        assert job.state == "failed"
        assert "ctx.finish(on=...) needs the worker's own process; declare the task without process=True" in str(job.error)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("exit", "the process that ran it exited with code 7"),
        ("kill", "the process that ran it was ended by signal 9 (Killed)"),
        ("segfault", "the process that ran it was ended by signal 11 (Segmentation fault)"),
    ],
)
def test_a_death_is_a_failed_attempt(app: Holdfast, clock: ManualClock, how: str, reason: str) -> None:
    job = tasks.die_the_first_time.enqueue(how)
    run_to_empty(app, clock)
    job = read(app, job)
    assert (job.state, job.attempt, job.result) == ("succeeded", 2, 2)
    assert [(error.attempt, error.kind, error.message) for error in job.errors] == [(1, "ProcessDied", reason)]


def test_a_job_that_always_dies_fails(app: Holdfast, clock: ManualClock) -> None:
    job = tasks.exit_hard.enqueue(0)
    run_to_empty(app, clock)
    job = read(app, job)
    assert (job.state, job.attempt, job.error) == ("failed", 3, "ProcessDied: the process that ran it exited with code 0")


def test_a_child_that_cannot_be_started_is_a_failed_attempt(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    job = tasks.add.enqueue(1)
    run_to_empty(app)
    job = read(app, job)
    assert job.state == "scheduled"
    assert "ProcessDied: the process that ran it could not be started" in str(job.error)


# How a run is stopped


@linux_only
def test_a_timeout_kills_the_process(app: Holdfast, clock: ManualClock) -> None:
    job = tasks.wait_too_long.enqueue()
    with working(app, lease=3600):
        pid = next_event(app, job, "waiting").data
        clock.advance(31)
        wait_until_gone(pid)
        next_event(app, job, "backed_off")
        clock.advance(6)
        job = app.wait(job.id, timeout=LONG)
    assert (job.state, job.result) == ("succeeded", 2)
    assert [(error.kind, error.message) for error in job.errors] == [("TimeoutError", "it ran longer than its timeout of 30 s")]


SLOW_MODULE = """
import os
from tests.worker.process_tasks import app
if gate := os.environ.get("HOLDFAST_TEST_GATE"):
    open(gate).read()

@app.task(process=True, timeout=30, name="slow_to_load")
def work() -> str:
    return "done"
"""


@pytest.fixture
def slow_to_load(app: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Task[Callable[[], str]]]:
    """A task whose module is loaded in a child only when somebody has written to `gate`."""
    (tmp_path / "slow_module.py").write_text(SLOW_MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield importlib.import_module("slow_module").work
    del sys.modules["slow_module"]
    del app.registry.tasks["slow_to_load"]


@pytest.mark.parametrize(("seconds", "stopped"), [(31, False), (331, True)])
def test_the_timeout_counts_from_when_the_task_is_loaded(
    app: Holdfast,
    clock: ManualClock,
    slow_to_load: Task[Callable[[], str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seconds: int,
    stopped: bool,
) -> None:
    os.mkfifo(tmp_path / "gate")
    monkeypatch.setenv("HOLDFAST_TEST_GATE", str(tmp_path / "gate"))
    job = slow_to_load.using(attempts=1).enqueue()
    with working(app, lease=3600) as worker:
        with open(tmp_path / "gate", "w"):  # the child loads the module
            (run,) = worker.desk.running()
            clock.advance(seconds)
            worker._watchdog._judge(run, clock.tick())
            assert (run.stopping is not None) is stopped
        job = app.wait(job.id, timeout=LONG)
    assert (job.state, job.result) == (("failed", None) if stopped else ("succeeded", "done"))


@linux_only
@pytest.mark.parametrize("task", [tasks.wait_for_ever, tasks.wait_for_ever_in_a_loop], ids=["function", "coroutine"])
def test_cancelling_kills_the_process(app: Holdfast, task: Any) -> None:
    job = task.enqueue()
    with working(app, concurrency=1):
        pid = next_event(app, job, "waiting").data
        app.cancel(job.id, "no longer needed")
        wait_until_gone(pid)
        following = tasks.add.enqueue(1)
        assert app.wait(following.id, timeout=LONG).result == 2
    job = read(app, job)
    assert (job.state, job.error, job.errors) == ("cancelled", "no longer needed", ())
    assert kinds(app, job)[-1] == "cancelled"


@linux_only
def test_a_job_that_comes_back_before_its_old_process_is_gone_runs_again(app: Holdfast, path: Path) -> None:
    job = tasks.wait_twice.enqueue()
    with working(app, concurrency=2):
        first = next_event(app, job, "waiting")
        cancel_and_retry(app, path, job)
        wait_until_gone(first.data)
        second = next_event(app, job, "waiting", after=first.number)
        cancel_and_retry(app, path, job)  # the worker must still know the second run by now
        wait_until_gone(second.data)
        job = app.wait(job.id, timeout=LONG)
    assert (job.state, job.result, job.token) == ("succeeded", 3, 3)


def cancel_and_retry(app: Holdfast, path: Path, job: Job) -> None:
    """In one transaction, so that a worker hears of both in the same turn."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    client = app.on(connection)
    client.cancel(job.id)
    client.retry(job.id)
    connection.execute("COMMIT")
    connection.close()


def test_a_process_that_outlives_its_kill_does_not_hold_up_the_others(
    app: Holdfast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = threading.Event()
    stuck = tasks.wait_for_ever.enqueue()
    with working(app, concurrency=1, lease=3600), monkeypatch.context() as patched:
        pid = next_event(app, stuck, "waiting").data
        patched.setattr("holdfast.worker.processes._Child.kill", lambda child: killed.set())
        app.cancel(stuck.id)
        assert killed.wait(LONG)
        clock.advance(3)
        following = [tasks.add.enqueue(number) for number in range(3)]
        assert [app.wait(job.id, timeout=LONG).result for job in following] == [1, 2, 3]
        os.kill(pid, signal.SIGKILL)


def test_more_jobs_than_slots_all_run_and_share_the_processes(app: Holdfast) -> None:
    jobs = [tasks.whoami.enqueue() for _ in range(30)]
    run_to_empty(app, concurrency=2)
    pids = [read(app, job).result[0] for job in jobs]
    assert len(pids) == 30
    assert 1 <= len(set(pids)) <= 2


def test_all_kinds_of_tasks_share_the_slots(app: Holdfast) -> None:
    jobs = [task.enqueue(number) for number in range(10) for task in (tasks.add, tasks.add_in_a_thread, tasks.add_in_the_loop)]
    run_to_empty(app, concurrency=3)
    assert [read(app, job).result for job in jobs] == [number + 1 for number in range(10) for _ in range(3)]


# How a worker stops

WORKER = """
import logging, sys
from holdfast.testing.elsewhere import elsewhere
from tests.worker import process_tasks
logging.basicConfig(level="INFO")
with elsewhere(process_tasks.app, sys.argv[1]) as app:
    app.worker(concurrency=1, grace=float(sys.argv[2])).run()
"""


@contextmanager
def worker_process(app: Holdfast, grace_seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", WORKER, app.url, str(grace_seconds)]
    worker = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    assert worker.stderr
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()
        worker.stderr.close()


def terminate(worker: subprocess.Popen[bytes]) -> None:
    """Returns when the signal has arrived: two that are sent at once can be one when they do."""
    assert worker.stderr
    worker.send_signal(signal.SIGTERM)
    assert any(b"SIGTERM: " in line for line in iter(worker.stderr.readline, b""))


@linux_only
@pytest.mark.parametrize(("grace_seconds", "signals"), [(0.0, 1), (LONG, 2)], ids=["grace is over", "asked twice"])
def test_a_worker_that_is_terminated_hands_the_job_back(path: Path, grace_seconds: float, signals: int) -> None:
    with elsewhere(tasks.app, f"sqlite:///{path}") as app, worker_process(app, grace_seconds) as worker:
        job = tasks.wait_the_first_time.enqueue()
        waiting = next_event(app, job, "waiting")
        for _ in range(signals):
            terminate(worker)
        assert worker.wait(LONG) == 0
        wait_until_gone(waiting.data)
        job = read(app, job)
        assert (job.state, job.attempt, job.errors) == ("ready", 0, ())
        assert kinds(app, job)[-1] == "released"
        run_to_empty(app)
        job = read(app, job)
        assert (job.state, job.attempt, job.result) == ("succeeded", 1, 2)


@linux_only
def test_a_worker_that_is_terminated_lets_the_job_end_in_its_grace(path: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with elsewhere(tasks.app, f"sqlite:///{path}") as app, worker_process(app, LONG) as worker:
        job = tasks.wait_for_a_word.enqueue(str(gate))
        next_event(app, job, "waiting")
        terminate(worker)
        gate.write_text("go on")
        assert worker.wait(LONG) == 0
        assert read(app, job).result == "go on"


@linux_only
def test_a_worker_that_is_killed_takes_its_processes_along(path: Path) -> None:
    with elsewhere(tasks.app, f"sqlite:///{path}") as app, worker_process(app, LONG) as worker:
        job = tasks.hold_the_lock.enqueue(600)
        pid = next_event(app, job, "holding").data
        worker.kill()
        worker.wait()
        wait_until_gone(pid)


def test_a_job_in_a_process_can_enqueue_others(path: Path) -> None:
    with elsewhere(tasks.app, f"sqlite:///{path}") as app:
        job = tasks.enqueue_another.enqueue(app.url)
        run_to_empty(app)
        child = app.get(read(app, job).result)
        assert child is not None
        assert (child.parent, child.result) == (job.id, 2)


def test_a_script_that_enqueues_when_it_is_loaded_does_not_do_so_again_in_its_child(tmp_path: Path) -> None:
    script = tmp_path / "careless.py"
    script.write_text(
        "from holdfast import Holdfast, Retry\n"
        f"app = Holdfast('sqlite:///{tmp_path}/careless.db')\n"
        "@app.task(process=True, retry=Retry(1))\n"
        "def work() -> str: return 'done'\n"
        "job = work.enqueue()\n"
        "if __name__ == '__main__':\n"
        "    app.worker().run_until_empty()\n"
        "    print(len(app.jobs()), app.wait(job).error)\n"
    )
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.startswith("1 "), ran.stdout
    assert "enqueues when it is loaded: put that under `if __name__" in ran.stdout


@pytest.mark.parametrize("name", ["fork_and_return", "fork_in_thread"])
def test_l13_a_fork_that_returns_ends(app: Holdfast, tmp_path: Path, name: str) -> None:
    """Whatever pool it came from: it waits for nothing, and runs no other job."""
    job = getattr(tasks, name).enqueue(str(tmp_path / "pid"))
    others = [tasks.app.task_named(job.task).enqueue(str(tmp_path / f"pid{number}")) for number in range(3)]
    with working(app, concurrency=1):
        assert [app.wait(each.id, timeout=LONG).result for each in (job, *others)] == [0] * 4
    assert [len([event for event in app.events(each.id) if event.kind == "started"]) for each in others] == [1] * 3


def test_h2_events_of_a_process_beyond_all_memory_fail_their_job(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.context.EVENTS_WAITING_BYTES_MAX", 1_000_000)
    with working(app):
        job = tasks.emit_without_end.using(attempts=1).enqueue()
        job = app.wait(job.id, timeout=LONG)
    assert (job.state, (job.error or "").startswith("holdfast.errors.PayloadError: event 'chunk'")) == ("failed", True)


@pytest.mark.parametrize("column", ["progress", "meter"])
def test_l4_a_damaged_row_fails_its_own_job_only(app: Holdfast, path: Path, column: str) -> None:
    bad = tasks.resume.using(run_after=60).enqueue()
    app.retry(app.cancel(bad.id).id)
    with sqlite3.connect(path) as file:
        file.execute(f"UPDATE holdfast_job_state SET {column} = '{{'")
    file.close()
    with working(app):
        last = next(event for event in app.events(bad.id, follow=True) if event.kind in ("failed", "backed_off"))
        assert app.wait(tasks.add.enqueue(1).id, timeout=LONG).result == 2
    assert (last.kind, last.data["kind"]) == ("failed", "holdfast.errors.PayloadError")
