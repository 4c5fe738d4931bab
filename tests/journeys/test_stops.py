"""Workers that stop, block or cannot reach the store: nobody else's work is touched, and their code is told."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from holdfast import Job, State
from tests.journeys import tasks
from tests.journeys.scene import AnyTask, Player, Scene
from tests.until import until

LEASE = 0.6
STEADY = 1.0
"""Where a job must not be taken: long enough for a busy machine."""


@pytest.mark.parametrize(("task", "told"), [(tasks.polite, "LeaseLost"), (tasks.awaiting, "CancelledError")])
def test_a_stopped_worker_cannot_write_a_byte_and_its_code_is_told(scene: Scene, task: AnyTask, told: str) -> None:
    stopped = scene.worker("stopped", lease=LEASE)
    job = scene.enqueue(task, "work", 60.0, later=0.5)
    scene.await_line("start", "work")
    scene.stop(stopped)
    stopped_at = time.monotonic()
    scene.worker("other", lease=LEASE, concurrency=1)
    ended = scene.app.wait(job.id, timeout=20)
    assert (ended.state, ended.result, ended.attempt) == (State.SUCCEEDED, 2, 2)
    until(lambda: time.monotonic() - stopped_at > 3 * LEASE, "three leases have passed")
    before = scene.written(job)
    stopped.signal(signal.SIGCONT)
    line = scene.await_line("told", "work")
    assert (line.pid, line.token, line.error) == (stopped.pid, 1, told)
    following = scene.enqueue(tasks.quick, "following")
    scene.app.wait(following.id, timeout=10)
    scene.await_beats(stopped, 3)
    assert scene.written(job) == before
    assert scene.lines("end", "work")[0].token == 2
    assert len(scene.lines("end", "work")) == 1


def _lose_and_take_back(scene: Scene, worker: Player, job: Job) -> None:
    """The only worker is stopped until its lease has run out, and woken: it claims the job again."""
    scene.await_line("start", "work")
    scene.stop(worker)
    until(lambda: scene.app.claim(queues=["none"]) or "expired" in scene.kinds(job), "its lease runs out")
    worker.signal(signal.SIGCONT)
    assert scene.await_line("start", "work", count=2).pid == worker.pid


def test_a_worker_may_take_back_the_job_that_it_lost_while_its_old_code_still_runs(scene: Scene) -> None:
    """The old run, left behind, and the new one are two runs of one job in one worker."""
    worker = scene.worker("alone", lease=LEASE)
    job = scene.enqueue(tasks.deaf, "work", 4.0)
    _lose_and_take_back(scene, worker, job)
    ended = scene.app.wait(job.id, timeout=20)
    assert (ended.state, ended.result, ended.attempt) == (State.SUCCEEDED, 2, 2)
    again = scene.enqueue(tasks.quick, "again")
    assert scene.app.wait(again.id, timeout=10).state is State.SUCCEEDED
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_job_that_was_taken_back_can_still_be_cancelled(scene: Scene) -> None:
    worker = scene.worker("alone", lease=LEASE)
    job = scene.enqueue(tasks.deaf_at_first, "work", 6.0)
    _lose_and_take_back(scene, worker, job)
    until(lambda: "left behind" in worker.log, "the old run is given up")
    scene.await_beats(worker, 2)
    scene.app.cancel(job.id)
    assert scene.await_line("told", "work", seconds=5.0).token == 2


def test_a_blocked_event_loop_does_not_stop_the_heartbeat(scene: Scene) -> None:
    scene.worker("blocked", lease=STEADY)
    job = scene.enqueue(tasks.blocking, "work", 5 * STEADY)
    scene.await_line("start", "work")
    scene.worker("idle", lease=STEADY)
    ended = scene.app.wait(job.id, timeout=20)
    assert (ended.state, ended.attempt, ended.token) == (State.SUCCEEDED, 1, 1)
    assert len(scene.lines("start", "work")) == 1
    assert scene.kinds(job) == ["enqueued", "started", "succeeded"]


def test_a_process_that_holds_the_interpreter_lock_is_not_claimed_again(scene: Scene) -> None:
    scene.worker("holder", lease=STEADY)
    job = scene.enqueue(tasks.greedy_apart, "work", 3)
    scene.await_line("start", "work")
    scene.worker("idle", lease=STEADY)
    ended = scene.app.wait(job.id, timeout=20)
    assert (ended.state, ended.attempt, ended.token) == (State.SUCCEEDED, 1, 1)
    assert len(scene.lines("start", "work")) == 1


def test_a_thread_that_holds_the_interpreter_lock_may_be_claimed_again_but_not_committed(scene: Scene) -> None:
    holder = scene.worker("holder", lease=LEASE)
    job = scene.enqueue(tasks.greedy, "work", 2)
    scene.await_line("start", "work")
    scene.worker("other", lease=LEASE)
    ended = scene.app.wait(job.id, timeout=20)
    assert ended.state is State.SUCCEEDED
    assert ended.result == ended.token
    until(lambda: len(scene.lines("end", "work")) == len(scene.lines("start", "work")), "all code has ended")
    scene.await_beats(holder, 2)
    assert scene.kinds(job).count("succeeded") == 1
    assert scene.job(job).token == ended.token


@pytest.mark.parametrize("task", [tasks.awaiting, tasks.deaf])
def test_a_job_longer_than_ten_leases_runs_once(scene: Scene, task: AnyTask) -> None:
    scene.worker("one", lease=0.8)
    scene.worker("two", lease=0.8)
    job = scene.enqueue(task, "work", 8.5)
    ended = scene.app.wait(job.id, timeout=25)
    assert (ended.state, ended.attempt, ended.token) == (State.SUCCEEDED, 1, 1)
    assert len(scene.lines("start", "work")) == 1


def test_a_job_for_much_later_runs_once_and_on_time(scene: Scene) -> None:
    """kombu #337: what waits for its time is held by nobody."""
    for number in range(4):
        scene.start("worker", name=f"worker-{number}", lease=0.3)
    until(lambda: len(scene.registered()) == 4, "four workers")
    job = scene.enqueue(tasks.quick, "later", run_after=3.0)
    ended = scene.app.wait(job.id, timeout=20)
    assert (ended.state, ended.attempt, ended.token) == (State.SUCCEEDED, 1, 1)
    assert ended.started_at is not None
    assert ended.run_after is not None
    assert 0 <= (ended.started_at - ended.run_after).total_seconds() < 1.5
    assert scene.kinds(job) == ["scheduled", "promoted", "started", "succeeded"]


@pytest.mark.parametrize("sign", [1, -1])
def test_setting_the_wall_clock_does_not_end_a_lease(scene: Scene, tmp_path: Path, sign: int) -> None:
    switch = tmp_path / "switch"
    holder = scene.worker("holder", lease=STEADY, jump=(str(switch), 0))
    job = scene.enqueue(tasks.awaiting, "work", 4.0)
    scene.await_line("start", "work")
    other = scene.worker("other", lease=STEADY, jump=(str(switch), sign))
    switch.touch()
    scene.await_beats(other, 3)
    scene.await_beats(holder, 3)
    ended = scene.app.wait(job.id, timeout=20)
    assert (ended.state, ended.attempt, ended.token) == (State.SUCCEEDED, 1, 1)


@pytest.mark.parametrize("task", [tasks.polite, tasks.awaiting])
def test_a_worker_that_cannot_renew_stops_its_job_before_the_lease_can_be_taken(scene: Scene, task: AnyTask) -> None:
    lease = 1.5
    worker = scene.worker("cut-off", lease=lease)
    job = scene.enqueue(task, "work", 3.0)
    scene.await_line("start", "work")
    scene.start("lock", seconds=3 * lease)
    locked = scene.await_line("locked", "lock")
    told = scene.await_line("told", "work")
    assert (told.at - locked.at) / 1e9 < lease
    scene.await_line("unlocked", "lock")
    ended = scene.app.wait(job.id, timeout=20)
    assert worker.alive
    assert (ended.state, ended.attempt, ended.token) == (State.SUCCEEDED, 1, 2)
    assert scene.kinds(job) == ["enqueued", "started", "released", "started", "succeeded"]
