"""One file for many threads and processes: shared commits, honest answers, and nobody left waiting."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast import Conflict, Holdfast, Job, Key, StoreUnavailable
from holdfast.store import browse, commits
from holdfast.store.migrate import migrations
from holdfast.store.op import Moment, Op, Refused, Statement
from holdfast.store.sqlite import driver
from holdfast.store.sqlite.schema import PACKAGE
from tests.store.inside import sqlite_store

SPAWN = multiprocessing.get_context("spawn")
SECONDS = 20.0


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.db")


@pytest.fixture
def app(path: str) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{path}") as app:
        app.task(name="double")(double)
        yield app


def double(number: int) -> int:
    return number * 2


class Gate:
    """Holds the first leader at one of its steps until so many callers wait behind it."""

    def __init__(self, app: Holdfast, callers: int, at: str = "begin") -> None:
        self._left, self._at = callers, at
        self._full = threading.Event()
        self._lock = threading.Lock()
        self.told: list[str] = []
        queue = sqlite_store(app).commits
        self._join = queue.join
        queue.join = self._count_joined  # type: ignore[method-assign]
        self._is_alone = queue.is_alone
        queue.is_alone = self._count_alone  # type: ignore[method-assign]
        app.store.probe = self._probe

    def _count_joined(self, entry: Any) -> bool:
        leads = self._join(entry)
        self._count()
        return leads

    def _count_alone(self) -> bool:
        alone = self._is_alone()
        if alone:
            self._count()
        return alone

    def _count(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._full.set()

    def _probe(self, what: str) -> None:
        if what == self._at and self.told.count(what) == 0:
            assert self._full.wait(SECONDS)
        self.told.append(what)

    @property
    def commits(self) -> int:
        return self.told.count("committed")


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Each call in a thread of its own; what it returned or raised."""
    answers: list[Any] = [None] * len(calls)

    def run(index: int) -> None:
        try:
            answers[index] = calls[index]()
        except BaseException as error:
            answers[index] = error

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in threads), "somebody waits for ever"
    return answers


def count(path: str, table: str = "holdfast_job") -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


# Shared commits


def test_threads_that_write_at_the_same_time_share_a_commit(app: Holdfast, path: str) -> None:
    app.migrate()
    task = app.task_named("double")
    gate = Gate(app, callers=40)
    jobs = at_once([lambda number=number: task.enqueue(number) for number in range(40)])  # type: ignore[misc]
    assert len({job.id for job in jobs}) == 40
    assert gate.commits <= 2
    assert count(path) == 40


def test_a_batch_has_a_bound(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    app.migrate()
    monkeypatch.setattr(commits, "BATCH_MAX", 8)
    gate = Gate(app, callers=40)
    task = app.task_named("double")
    at_once([lambda: task.enqueue(1)] * 40)
    assert 5 <= gate.commits <= 40
    assert app.stats() == {"double": {"ready": 40}}


def test_gathered_async_enqueues_share_commits(app: Holdfast) -> None:
    app.migrate()
    task = app.task_named("double")
    gate = Gate(app, callers=200)

    async def body() -> list[Job]:
        return await asyncio.gather(*(task.aenqueue(number) for number in range(200)))

    jobs = asyncio.run(body())
    assert len({job.id for job in jobs}) == 200
    assert gate.commits <= 3
    assert app.stats() == {"double": {"ready": 200}}


def test_each_caller_is_answered_only_after_the_commit_that_holds_its_work(app: Holdfast, path: str) -> None:
    app.migrate()
    task = app.task_named("double")
    committed = threading.Event()
    app.store.probe = lambda what: committed.set() if what == "committed" else None

    def enqueue() -> bool:
        job = task.enqueue(1)
        with closing(sqlite3.connect(path)) as other:
            there = other.execute("SELECT 1 FROM holdfast_job WHERE id = ?", (job.id,)).fetchone()
        return committed.is_set() and there is not None

    assert all(at_once([enqueue] * 16))


# One bad caller among many


def test_one_failing_caller_does_not_fail_the_others(app: Holdfast) -> None:
    app.migrate()
    task = app.task_named("double")
    task.using(key=Key("held")).enqueue(0)
    gate = Gate(app, callers=20)
    good: list[Callable[[], Any]] = [lambda: task.enqueue(1)] * 10
    bad: list[Callable[[], Any]] = [lambda: task.using(key=Key("held", conflict="raise")).enqueue(2)] * 10
    answers = at_once([call for pair in zip(good, bad, strict=True) for call in pair])
    assert [type(answer) for answer in answers] == [Job, Conflict] * 10
    assert gate.commits <= 2
    assert app.stats() == {"double": {"ready": 11}}


def test_a_caller_whose_statement_is_refused_does_not_fail_the_others(app: Holdfast, path: str) -> None:
    app.migrate()
    task = app.task_named("double")

    def wrong(_: Moment) -> Op[None]:
        yield Statement("schedule_jobs", {"seqs": object()})

    gate = Gate(app, callers=6)
    good: list[Callable[[], Any]] = [lambda: task.enqueue(1)] * 5
    answers = at_once([*good, lambda: app.store.write(wrong)])
    assert [type(answer) for answer in answers] == [Job] * 5 + [Refused]
    assert "\n" not in str(answers[-1])
    assert gate.commits <= 2
    assert count(path) == 5


def test_an_operation_that_raises_anything_leaves_nothing_behind(app: Holdfast, path: str) -> None:
    app.migrate()

    def half(moment: Moment) -> Op[None]:
        yield Statement("add_lane", {"queue": "q", "task": "t"})
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        app.store.write(half)
    assert count(path, "holdfast_lane") == 0
    app.task_named("double").enqueue(1)
    assert count(path) == 1


# Interrupted


@pytest.mark.parametrize("step", ["begin", "add_alike_specs", "commit"])
def test_a_leader_that_is_interrupted_acknowledges_nobody(app: Holdfast, path: str, step: str) -> None:
    app.migrate()
    task = app.task_named("double")
    gate = Gate(app, callers=8, at="begin")
    hold = app.store.probe
    assert hold is not None

    def interrupt(what: str) -> None:
        hold(what)
        if what == step and gate.told.count(step) == (2 if step == "begin" else 1):
            raise KeyboardInterrupt

    app.store.probe = interrupt
    answers = at_once([lambda: task.enqueue(1)] * 8)
    accepted = [answer for answer in answers if isinstance(answer, Job)]
    refused = [answer for answer in answers if isinstance(answer, StoreUnavailable)]
    assert [type(answer) for answer in answers].count(KeyboardInterrupt) == 1
    assert len(accepted) + len(refused) == 7
    assert all("interrupted" in str(answer) for answer in refused)
    assert count(path) == len(accepted)
    assert {job.id for job in accepted} == {job.id for job in app.jobs()}
    app.store.probe = None
    assert task.enqueue(2).created


def test_an_interrupt_after_the_commit_does_not_tell_the_others_that_nothing_was_kept(app: Holdfast, path: str) -> None:
    app.migrate()
    task = app.task_named("double")
    gate = Gate(app, callers=8)
    hold = app.store.probe
    assert hold is not None

    def interrupt(what: str) -> None:
        hold(what)
        if what == "committed" and gate.commits == 2:
            raise KeyboardInterrupt

    app.store.probe = interrupt
    answers = at_once([lambda: task.enqueue(1)] * 8)
    assert sorted(type(answer).__name__ for answer in answers) == ["Job"] * 7 + ["KeyboardInterrupt"]
    assert count(path) == 8


class InterruptedAfterCommit:
    """A connection on which a signal comes while COMMIT syncs: Python raises it as soon as COMMIT has returned."""

    def __init__(self, raw: sqlite3.Connection, number: int) -> None:
        self._raw, self._left = raw, number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def execute(self, sql: str, *given: Any) -> Any:
        cursor = self._raw.execute(sql, *given)
        if sql == "COMMIT":
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt
        return cursor


def test_an_interrupt_while_the_commit_syncs_is_judged_by_what_was_kept(app: Holdfast, path: str) -> None:
    app.migrate()
    task = app.task_named("double")
    writer = sqlite_store(app)._writing()
    writer.raw = InterruptedAfterCommit(writer.raw, number=2)  # type: ignore[assignment]
    Gate(app, callers=8)
    answers = at_once([lambda: task.enqueue(1)] * 8)
    assert sorted(type(answer).__name__ for answer in answers) == ["Job"] * 7 + ["KeyboardInterrupt"]
    assert count(path) == 8
    assert task.enqueue(2).created


def test_a_caller_that_is_interrupted_while_it_waits_does_not_take_the_lead_with_it(app: Holdfast, path: str) -> None:
    """Ctrl-C in the main thread, while another thread leads: the next to lead would be one who has gone."""
    app.migrate()
    task = app.task_named("double")
    task.enqueue(0)  # makes its lane
    gate = Gate(app, callers=3, at="commit")
    hold = app.store.probe
    assert hold is not None
    leading, waiting, gone = threading.Event(), threading.Event(), threading.Event()
    main = threading.get_ident()
    answers: list[Any] = []
    leader, behind = (threading.Thread(target=lambda: answers.append(task.enqueue(1))) for _ in range(2))

    def probe(what: str) -> None:
        leading.set()
        if what == "commit" and gate.commits == 0:
            assert waiting.wait(SECONDS)
            behind.start()
            hold(what)
            signal.pthread_kill(main, signal.SIGINT)
            assert gone.wait(SECONDS)
        else:
            hold(what)

    app.store.probe = probe
    leader.start()
    assert leading.wait(SECONDS)
    queue = sqlite_store(app).commits
    joined, abandoned = queue.join, queue._abandon

    def join(entry: Any) -> bool:
        leads = joined(entry)
        waiting.set()
        return leads

    def abandon(entry: Any) -> None:
        abandoned(entry)
        gone.set()

    queue._abandon = abandon  # type: ignore[method-assign]
    queue.join = join  # type: ignore[method-assign]
    own = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            task.enqueue(2)
    finally:
        signal.signal(signal.SIGINT, own)
    for thread in (leader, behind):
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert len(answers) == 2
    assert task.enqueue(4).created


def test_a_loop_that_closed_meanwhile_does_not_keep_others_from_their_answer(app: Holdfast) -> None:
    app.migrate()
    task = app.task_named("double")
    gate = Gate(app, callers=3, at="commit")

    async def abandon() -> None:
        enqueuing = asyncio.ensure_future(task.aenqueue(1))
        await asyncio.sleep(0)
        enqueuing.cancel()

    asyncio.run(abandon())
    answers = at_once([lambda: task.enqueue(2), lambda: task.enqueue(3)])
    assert [type(answer) for answer in answers] == [Job, Job]
    assert gate.commits >= 1
    assert task.enqueue(4).created


def test_an_async_enqueue_that_is_cancelled_does_not_disturb_the_others(app: Holdfast) -> None:
    app.migrate()
    task = app.task_named("double")

    async def body() -> list[Any]:
        tasks = [asyncio.ensure_future(task.aenqueue(number)) for number in range(20)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[7].cancel()
        ended: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
        return ended

    answers = asyncio.run(body())
    assert [type(answer) for answer in answers].count(Job) == 18


def test_a_lead_that_no_thread_can_be_had_for_is_taken_where_the_caller_is(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = app.task_named("double")

    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    async def body() -> list[Job]:
        await task.aenqueue(0)
        monkeypatch.setattr(sqlite_store(app)._threads._executor, "submit", refuse)
        return await asyncio.gather(*(task.aenqueue(number) for number in range(20)))

    assert len(asyncio.run(body())) == 20
    assert at_once([lambda: task.enqueue(1)])[0].created


# Busy


def test_a_writer_waits_its_turn_while_another_process_writes(app: Holdfast, path: str) -> None:
    app.migrate()
    task = app.task_named("double")
    trying = threading.Event()
    app.store.probe = lambda what: trying.set() if what == "begin" else None
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(task.enqueue(1)))
        thread.start()
        assert trying.wait(SECONDS)
        assert answers == []
        other.execute("COMMIT")
        thread.join(SECONDS)
    assert [type(answer) for answer in answers] == [Job]


def test_a_lock_that_is_never_given_back_ends_in_one_line(app: Holdfast, path: str) -> None:
    app.migrate()
    sqlite_store(app).busy_seconds = 0.02
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=r"is locked by another process .*; try again") as caught:
            app.task_named("double").enqueue(1)
        assert "\n" not in str(caught.value)
        other.execute("ROLLBACK")
    assert app.task_named("double").enqueue(1).created


def test_readers_do_not_wait_for_a_writer(app: Holdfast, path: str) -> None:
    job = app.task_named("double").enqueue(1)
    sqlite_store(app).busy_seconds = 0.0
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert app.get(job.id) is not None
        other.execute("ROLLBACK")


# The log


def write_until(path: str, told: Any, stop: Any) -> None:
    app = Holdfast(f"sqlite:///{path}")
    task = app.task(name="double")(double)
    done = 0
    while not stop.is_set():
        task.enqueue(done)
        done += 1
        if done == 20:
            told.set()
    app.close()


def test_checkpoints_while_another_process_writes_leave_the_file_whole_and_the_log_short(path: str, app: Holdfast) -> None:
    app.migrate()
    told, stop = SPAWN.Event(), SPAWN.Event()
    other = SPAWN.Process(target=write_until, args=(path, told, stop))
    other.start()
    task = app.task_named("double")
    try:
        assert told.wait(SECONDS)
        largest = 0
        for number in range(60):
            app.enqueue_many(task.bind(each) for each in range(200))
            if number % 3 == 0:
                sqlite_store(app).checkpoint()
            largest = max(largest, os.path.getsize(f"{path}-wal"))
    finally:
        stop.set()
        other.join(SECONDS)
    sqlite_store(app).checkpoint()
    task.enqueue(1)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        written = int(connection.execute("SELECT count(*) FROM holdfast_job").fetchone()[0])
    assert other.exitcode == 0
    assert written >= 12_000
    assert largest < 8 * 1024 * 1024  # 22 MB without checkpoints


def test_the_log_stays_bounded_by_itself(path: str, app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CHECKPOINT_BYTES", 64 * 1024)
    task = app.task_named("double")
    for _ in range(30):
        app.enqueue_many(task.bind(each) for each in range(500))
    assert os.path.getsize(f"{path}-wal") < os.path.getsize(path) / 2


def test_nobody_waits_for_a_checkpoint_but_the_one_who_leads(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    app.migrate()
    monkeypatch.setattr(driver, "CHECKPOINT_BYTES", 1)
    store, task = sqlite_store(app), app.task_named("double")
    gate = Gate(app, callers=4)
    answered = threading.Semaphore(0)
    heard: list[bool] = []

    def checkpoint() -> None:
        if gate.commits == 2:
            heard.extend(answered.acquire(timeout=SECONDS) for _ in range(3))  # the first to lead, and two of the second batch

    def enqueue() -> None:
        task.enqueue(1)
        answered.release()

    monkeypatch.setattr(store, "_checkpoint", checkpoint)
    at_once([enqueue] * 4)
    assert heard == [True] * 3


def test_a_checkpoint_that_cannot_be_made_does_not_fail_the_write_before_it(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.migrate()
    monkeypatch.setattr(driver, "CHECKPOINT_BYTES", 1)

    def refuse() -> Any:
        raise sqlite3.OperationalError("unable to open database file")

    app.task_named("double").enqueue(1)
    sqlite_store(app)._checkpointer = None
    monkeypatch.setattr(app.store, "_connect", refuse)
    assert app.task_named("double").enqueue(1).created


# Versions


def test_many_processes_may_start_on_an_empty_file_at_once(path: str) -> None:
    ready, go = SPAWN.Semaphore(0), SPAWN.Event()
    answers = SPAWN.Queue()
    others = [SPAWN.Process(target=start, args=(path, ready, go, answers)) for _ in range(8)]
    for other in others:
        other.start()
    for _ in others:
        assert ready.acquire(timeout=SECONDS)
    go.set()
    for other in others:
        other.join(SECONDS)
    assert [other.exitcode for other in others] == [0] * 8
    applied = [answers.get(timeout=SECONDS) for _ in others]
    names = [f"{each.version:04d}_{each.name}" for each in migrations(PACKAGE)]
    assert sorted(applied) == [[]] * 7 + [names]
    assert count(path) == 8
    assert count(path, "holdfast_migration") == len(names)
    assert os.stat(path).st_mode & 0o777 == 0o600


def start(path: str, ready: Any, go: Any, answers: Any) -> None:
    app = Holdfast(f"sqlite:///{path}")
    task = app.task(name="double")(double)
    ready.release()
    go.wait(SECONDS)
    answers.put(app.migrate())
    task.enqueue(1)
    app.close()


def test_a_file_of_a_newer_version_is_refused_and_not_touched(app: Holdfast, path: str) -> None:
    app.migrate()
    app.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO holdfast_migration VALUES (9999, 0)")
    for call in (lambda: app.task_named("double").enqueue(1), lambda: app.jobs(), lambda: app.migrate()):
        with pytest.raises(
            StoreUnavailable, match=r"is at schema version 9999, this Holdfast knows .*upgrade Holdfast"
        ) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert count(path) == 0


def test_asking_for_the_version_of_a_missing_file_does_not_create_it(app: Holdfast, path: str) -> None:
    assert app.store.version() == 0
    assert not os.path.exists(path)


def test_a_migration_that_fails_half_way_leaves_nothing(app: Holdfast, path: str) -> None:
    steps: list[str] = []

    def probe(what: str) -> None:
        steps.append(what)
        if steps.count("migrate") == 5:
            raise KeyboardInterrupt

    app.store.probe = probe
    with pytest.raises(KeyboardInterrupt):
        app.migrate()
    app.store.probe = None
    assert app.store.version() == 0
    assert app.migrate() != []
    assert app.task_named("double").enqueue(1).created


# Fork


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_opens_its_own_connections_and_the_parents_stay_good(path: str) -> None:
    """In a process of its own: forking a test runner with threads is asking for trouble."""
    answer = subprocess.run([sys.executable, "-c", FORKING, path], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == ["child", "3", "parent", "4"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


FORKING = """
import os, sys
from holdfast import Holdfast
app = Holdfast(f"sqlite:///{sys.argv[1]}")
@app.task(name="double")
def double(number: int) -> int:
    return number * 2
double.enqueue(1)
app.jobs()
child = os.fork()
if child == 0:
    double.enqueue(2)
    double.enqueue(3)
    print("child", len(app.jobs()), flush=True)
    app.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
double.enqueue(4)
print("parent", len(app.jobs()), flush=True)
"""


# Reading and closing


def test_reads_from_many_threads_do_not_pile_up_connections(app: Holdfast) -> None:
    job = app.task_named("double").enqueue(1)
    assert {answer.id for answer in at_once([lambda: app.get(job.id)] * 40)} == {job.id}
    assert len(sqlite_store(app)._readers.kept) <= driver.READERS_MAX


def test_an_error_in_a_read_does_not_lose_the_connection(app: Holdfast) -> None:
    app.migrate()
    for _ in range(20):
        with pytest.raises(LookupError):
            app.store.read(lambda _: browse.demand("nobody", app.registry.decoders))
    assert len(sqlite_store(app)._readers.kept) <= driver.READERS_MAX


def test_a_closed_app_can_be_used_again(app: Holdfast) -> None:
    task = app.task_named("double")
    task.enqueue(1)
    app.close()
    app.close()
    task.enqueue(2)
    assert len(app.jobs()) == 2


def test_closing_waits_for_the_commit_that_goes_on(app: Holdfast, path: str) -> None:
    app.migrate()
    task = app.task_named("double")
    closer = threading.Thread(target=app.close)
    waited: list[bool] = []

    def probe(what: str) -> None:
        if what == "commit" and not waited:
            closer.start()
            closer.join(0.2)  # blocks on purpose
            waited.append(closer.is_alive())

    app.store.probe = probe
    assert task.enqueue(1).created
    closer.join(SECONDS)
    assert waited == [True]
    assert task.enqueue(2).created
    assert count(path) == 2


@pytest.mark.parametrize("step", ["begin", "add_bodies", "commit", "committed"])
def test_a_signal_handler_may_close_in_the_middle_of_a_commit(app: Holdfast, path: str, step: str) -> None:
    """It runs in the thread that leads, and would wait for itself."""
    app.migrate()
    task = app.task_named("double")
    app.store.probe = lambda what: app.close() if what == step else None
    assert [type(answer) for answer in at_once([lambda: task.enqueue(1)] * 3)] == [Job] * 3
    assert count(path) == 3


def test_closing_leaves_a_read_that_goes_on_its_connection(app: Holdfast) -> None:
    app.task_named("double").enqueue(1)
    app.jobs()

    def read(_: Moment) -> Op[int]:
        before = yield Statement("lane_names")
        app.close()
        after = yield Statement("lane_names")
        return len(before) + len(after)

    assert app.store.read(read) == 2
    assert sqlite_store(app)._readers.kept == []


def test_closing_while_others_write_and_read_crashes_nothing(path: str) -> None:
    """In a process of its own: what this is about is a crash of the interpreter."""
    answer = subprocess.run([sys.executable, "-c", CLOSING, path], capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.split() == ["errors", "[]"]


CLOSING = """
import asyncio, sys, threading
from holdfast import Holdfast
app = Holdfast(f"sqlite:///{sys.argv[1]}")
@app.task(name="double")
def double(number: int) -> int:
    return number * 2
errors, answered, done = [], threading.Event(), threading.Event()
def keep(call):
    while not done.is_set():
        try:
            call()
        except Exception as error:
            errors.append(error)
        answered.set()
async def several():
    await asyncio.gather(*(double.aenqueue(number) for number in range(4)), app.ajobs(limit=1))
calls = [lambda: double.enqueue(1), lambda: double.enqueue(2), lambda: app.jobs(limit=1), lambda: asyncio.run(several())]
threads = [threading.Thread(target=keep, args=(call,)) for call in calls]
for thread in threads:
    thread.start()
for _ in range(300):
    answered.wait()
    answered.clear()
    app.close()
done.set()
for thread in threads:
    thread.join()
print("errors", errors)
"""
