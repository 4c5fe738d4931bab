"""A worker's own life: how it starts, what it does with code that misbehaves, and that it always comes to an end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Holdfast, Job, LeaseLost, RetryAfter, SettingError, Task, Worker
from holdfast.domain.outcome import Failed, JobError, Outcome, Released, Succeeded
from holdfast.store import browse
from holdfast.testing import ManualClock, run_to_empty
from holdfast.worker.desk import Desk, Run
from holdfast.worker.loops import LoopPool
from holdfast.worker.threads import Daemons, ThreadPool
from holdfast.worker.watchdog import Watchdog

LONG = 30.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(tmp_path: Path, clock: ManualClock) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{tmp_path}/jobs.db", clock=clock) as app:
        yield app


class Working(threading.Thread):
    """A worker in a thread; what its `run()` raised is kept."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self.worker = worker
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        """In a hurry."""
        self.worker.stop()
        self.worker.stop()
        self.join(LONG)
        assert not self.is_alive()


@contextmanager
def working(worker: Worker) -> Iterator[Working]:
    thread = Working(worker)
    thread.start()
    try:
        yield thread
    finally:
        thread.end()


def read(app: Holdfast, job: Job) -> Job:
    found = app.get(job.id)
    assert found is not None
    return found


def kinds(app: Holdfast, job: Job) -> list[str]:
    return [event.kind for event in app.events(job.id)]


def run_of(app: Holdfast) -> Run:
    """Of a job that no worker holds."""

    @app.task(name="made_up")
    async def made_up() -> str:
        raise AssertionError("its code must not start")

    made_up.enqueue()
    lease = app.claim()
    assert lease is not None
    claimed: Any = lease.job
    return Run(claimed, app.task_named("made_up"), "default", lease=10_000_000)


# What a stopped run says

HANDED_BACK = Released("its worker stopped")
TIMED_OUT = Failed(JobError("TimeoutError", "too long"))
DONE = Succeeded("1")


@pytest.mark.parametrize(
    ("verdict", "outcome", "kept"),
    [
        (None, DONE, DONE),
        (HANDED_BACK, DONE, DONE),
        (HANDED_BACK, TIMED_OUT, HANDED_BACK),
        (HANDED_BACK, Released("stopped"), HANDED_BACK),
        (TIMED_OUT, DONE, TIMED_OUT),
    ],
)
def test_a_result_counts_more_than_handing_back(app: Holdfast, verdict: Outcome | None, outcome: Outcome, kept: Outcome) -> None:
    desk, run = Desk(1), run_of(app)
    run.verdict = verdict
    desk.add([run])
    desk.end(run, outcome)
    assert list(desk.outcomes) == [(run, kept)]


def test_a_job_that_finishes_although_its_worker_stops_has_finished(app: Holdfast) -> None:
    begun = threading.Event()

    @app.task
    async def stubborn() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "all the same"
        return ""

    job = stubborn.enqueue()
    with working(app.worker()):
        assert begun.wait(LONG)
    job = read(app, job)
    assert (job.state, job.result) == ("succeeded", "all the same")
    assert kinds(app, job) == ["enqueued", "started", "succeeded"]


# Code that misbehaves


class Busy(RetryAfter):
    def __init__(self, text: str) -> None:
        Exception.__init__(self, text)


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit("no words")


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Busy("no seconds"), "AttributeError: 'Busy' object has no attribute 'seconds'"),
        (Mute(), "SystemExit: no words"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit("out"), "GeneratorExit: out"),
    ],
    ids=["ending without seconds", "mute", "exit", "interrupt", "generator exit"],
)
def test_whatever_is_raised_the_run_ends(app: Holdfast, kind: str, error: BaseException, told: str) -> None:
    @app.task(name="thread")
    def in_thread() -> None:
        raise error

    @app.task(name="coroutine")
    async def in_loop() -> None:
        raise error

    job = app.task_named(kind).enqueue()
    following = app.task_named(kind).enqueue()
    run_to_empty(app, concurrency=1, seconds=LONG)
    assert [(each.state, each.attempt, each.error) for each in (read(app, job), read(app, following))] == [
        ("failed", 1, told)
    ] * 2


_refusing = False


@dataclass
class Page:
    number: int

    def __post_init__(self) -> None:
        if _refusing:
            raise SystemExit("not this page")


@pytest.mark.parametrize("kind", ["thread", "coroutine"])
def test_arguments_that_end_the_program_end_the_run(app: Holdfast, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    @app.task(name="thread")
    def in_thread(page: Page) -> None: ...

    @app.task(name="coroutine")
    async def in_loop(page: Page) -> None: ...

    job = app.task_named(kind).enqueue(Page(1))
    monkeypatch.setitem(globals(), "_refusing", True)
    run_to_empty(app, seconds=LONG)
    assert (read(app, job).state, read(app, job).error) == ("failed", "SystemExit: not this page")


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("error", [SystemExit(4), KeyboardInterrupt()])
def test_m11_an_exit_in_a_task_of_a_job_is_that_jobs_failure(app: Holdfast, waits: bool, error: BaseException) -> None:
    begun = threading.Event()

    @app.task
    async def careless() -> None:
        async def leave() -> None:
            begun.set()
            raise error

        started = asyncio.create_task(leave())
        if waits:
            await asyncio.gather(started)
        await asyncio.Event().wait()

    @app.task
    async def innocent() -> str:
        while not begun.is_set():
            await asyncio.sleep(0.005)  # blocks on purpose: it runs while the other exits
        return "done"

    other, job = innocent.enqueue(), careless.enqueue()
    with working(app.worker()) as thread:
        found = app.wait(job.id, timeout=LONG)
        assert app.wait(other.id, timeout=LONG).result == "done"
        assert app.wait(innocent.enqueue().id, timeout=LONG).result == "done"
    assert thread.error is None
    assert (found.state, found.attempt, (found.error or "").split(":")[0]) == ("failed", 1, type(error).__name__)
    assert (kinds(app, other), registered(app)) == (["enqueued", "started", "succeeded"], 0)


def test_m11_an_exit_in_a_task_that_a_job_left_behind_is_logged(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    ended, raising = threading.Event(), threading.Event()

    @app.task
    async def careless() -> str:
        async def leave() -> None:
            while not ended.is_set():
                await asyncio.sleep(0.005)  # blocks on purpose: until its job has ended
            raising.set()
            raise SystemExit(4)

        left.append(asyncio.create_task(leave()))
        return "done"

    @app.task
    async def fine() -> str:
        return "fine"

    left: list[asyncio.Task[None]] = []
    job = careless.enqueue()
    with working(app.worker()) as thread:
        assert app.wait(job.id, timeout=LONG).result == "done"
        ended.set()
        assert raising.wait(LONG)
        assert app.wait(fine.enqueue().id, timeout=LONG).result == "fine"
    assert thread.error is None
    assert (
        f"job {job.id} ({job.task}), which has ended, left a task behind that raised SystemExit(4); the worker goes on"
        in caplog.messages
    )


def registered(app: Holdfast) -> int:
    return len(list(app.store.read(lambda _: browse.workers())))


# Starting


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("pool", [LoopPool, ThreadPool])
def test_a_run_that_was_stopped_on_its_way_does_not_start(app: Holdfast, pool: type[Any], ended: bool) -> None:
    desk, run = Desk(1), run_of(app)
    desk.add([run])
    begun: list[Run] = []
    run.stopping = 1
    if ended:
        desk.end(run, HANDED_BACK)

    async def main() -> None:
        made = pool(desk, lambda _: None, begun.append)
        if pool is LoopPool:
            made.open(asyncio.get_running_loop())
            made._start(run)
        else:
            made._run(run)

    asyncio.run(main())
    assert (begun, run.handle, run.ended, len(desk.outcomes)) == ([], None, True, 1)


def test_a_job_that_is_cancelled_while_the_loop_is_blocked_never_starts(app: Holdfast) -> None:
    blocking, told, ran = threading.Event(), threading.Event(), []

    @app.task
    async def block() -> None:
        blocking.set()
        assert told.wait(LONG)

    @app.task
    async def second() -> None:
        ran.append(1)

    worker = app.worker(concurrency=2)
    stop_run = worker._stop_run

    def stop(run: Run, why: str) -> None:
        stop_run(run, why)
        told.set()

    worker._stop_run = stop  # type: ignore[method-assign]
    first = block.enqueue()
    with working(worker):
        assert blocking.wait(LONG)
        job = second.enqueue()
        next(event for event in app.events(job.id, follow=True) if event.kind == "started")
        app.cancel(job.id)
        assert app.wait(first.id, timeout=LONG).state == "succeeded"
    assert (ran, kinds(app, job)) == ([], ["enqueued", "started", "cancelled"])


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="from Python 3.12 on a job takes its first step at once")
def test_a_task_that_is_cancelled_before_its_first_step_ends_its_run(app: Holdfast) -> None:
    @app.task
    async def work() -> str:
        return "done"

    async def main() -> None:
        worker, first = app.worker(), [True]
        begin = worker._begin

        def cancelled_at_first(run: Run) -> None:
            begin(run)
            if first:
                first.clear()
                asyncio.get_running_loop().call_soon(lambda: run.handle.cancel())

        worker._begin = cancelled_at_first  # type: ignore[method-assign]
        async with asyncio.timeout(LONG):
            await worker.arun_until_empty()

    job = work.enqueue()
    asyncio.run(main())
    assert kinds(app, job) == ["enqueued", "started", "released", "started", "succeeded"]


def test_stop_may_come_while_the_worker_starts(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, watcher = app.worker(), app.store.watcher

    def stopped(follows: bool) -> Any:
        worker.stop()
        return watcher(follows)

    monkeypatch.setattr(app.store, "watcher", stopped)
    worker.run()
    assert registered(app) == 0


def test_a_worker_that_ran_until_empty_may_run_for_good(app: Holdfast) -> None:
    @app.task
    def work() -> int:
        return 1

    worker = app.worker()
    work.enqueue()
    worker.run_until_empty()
    with working(worker):
        for _ in range(3):
            assert app.wait(work.enqueue().id, timeout=LONG).result == 1


@pytest.mark.parametrize("name", ["run", "run_until_empty"])
def test_run_in_a_running_loop_names_its_twin(app: Holdfast, name: str) -> None:
    async def main() -> None:
        getattr(app.worker(), name)()

    with pytest.raises(SettingError, match=rf"use: await worker\.a{name}\(\)"):
        asyncio.run(main())


def test_a_worker_says_what_it_is(app: Holdfast) -> None:
    assert repr(app.worker(name="w1")) == "<Worker w1 on all queues, 10 at a time>"
    assert repr(app.worker(["a", "b"], 3, "w2")) == "<Worker w2 on a, b, 3 at a time>"


# Ending


def deaf(app: Holdfast, gate: threading.Event, begun: threading.Event) -> Task[Callable[[], None]]:
    @app.task(name="deaf")
    def wait() -> None:
        begun.set()
        gate.wait(LONG)

    return wait


def test_cancelling_twice_is_waited_for_too(app: Holdfast) -> None:
    gate, begun = threading.Event(), threading.Event()
    job = deaf(app, gate, begun).enqueue()

    async def main() -> None:
        worker = app.worker(grace=LONG)
        task = asyncio.create_task(worker.arun())
        await asyncio.to_thread(begun.wait, LONG)
        for _ in range(5):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (read(app, job).state, registered(app), worker._stops) == ("ready", 0, 0)

    try:
        asyncio.run(main())
    finally:
        gate.set()


def test_when_the_clerk_fails_the_code_is_told_and_run_raises(app: Holdfast) -> None:
    begun, told = threading.Event(), threading.Event()

    @app.task
    def polite(ctx: Context) -> None:
        begun.set()
        try:
            while True:
                ctx.check()
                threading.Event().wait(0.005)  # blocks on purpose: code that looks up now and then
        except LeaseLost:
            told.set()

    def fail(verb: str) -> None:
        if verb == "claim_jobs" and begun.is_set():
            raise RuntimeError("a bug")

    polite.enqueue()
    app.store.probe = fail
    with working(app.worker(concurrency=2)) as thread:
        assert begun.wait(LONG)
        polite.enqueue()
        thread.join(LONG)
        assert told.wait(LONG)
    assert isinstance(thread.error, RuntimeError)
    assert registered(app) == 1  # what it held expires by its row


def test_a_coroutine_that_swallows_its_cancellation_is_left_behind(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    begun = threading.Event()

    @app.task
    async def never() -> None:
        while True:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                continue

    job = never.enqueue()
    with working(app.worker()):
        assert begun.wait(LONG)
    assert f"job {job.id} ({job.task}) did not stop when it was cancelled; it is left behind" in caplog.messages
    assert "destroyed" not in caplog.text
    assert read(app, job).state == "ready"


def test_a_call_in_a_thread_does_not_hold_up_the_end(app: Holdfast) -> None:
    gate, begun = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def call() -> None:
        threads.append(threading.current_thread())
        begun.set()
        gate.wait(LONG)

    @app.task
    async def work() -> None:
        await asyncio.to_thread(call)

    job = work.enqueue()
    with working(app.worker()):
        assert begun.wait(LONG)
    assert (read(app, job).state, threads[0].is_alive(), threads[0].daemon) == ("ready", True, True)
    gate.set()


def test_the_threads_for_calls_are_used_again_and_closed() -> None:
    calls = Daemons()
    threads = {calls.submit(threading.current_thread).result(LONG) for _ in range(50)}
    assert len(threads) <= 2  # one may not have come back yet when the next call is made
    with pytest.raises(ZeroDivisionError):
        calls.submit(divmod, 1, 0).result(LONG)
    calls.shutdown()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    with pytest.raises(RuntimeError):
        calls.submit(int)


# Signals


@pytest.fixture
def handler() -> Iterator[Callable[..., None]]:
    """The program's own handler of SIGTERM and SIGINT."""

    def own(*_: Any) -> None: ...

    before = {number: signal.signal(number, own) for number in (signal.SIGTERM, signal.SIGINT)}
    yield own
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_heard_while_a_job_blocks_the_loop(
    app: Holdfast, handler: Callable[..., None], number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    heard = threading.Event()
    worker = app.worker(grace=LONG)
    stop = worker.stop
    worker.stop = lambda: (stop(), heard.set())[0]  # type: ignore[method-assign, func-returns-value]

    @app.task
    async def block() -> None:
        os.kill(os.getpid(), number)
        assert heard.wait(LONG)

    job = block.enqueue()
    with caplog.at_level(logging.INFO, "holdfast.worker"):
        worker.run()
    assert f"{number.name}: finishing 1 job, for at most 30 s; once more hands them back" in caplog.messages
    assert read(app, job).state == "succeeded"
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == [handler, handler]


def test_arun_leaves_signals_to_the_program(app: Holdfast, handler: Callable[..., None]) -> None:
    @app.task
    async def look() -> bool:
        return signal.getsignal(signal.SIGTERM) is handler

    async def main() -> None:
        await app.worker().arun_until_empty()

    job = look.enqueue()
    asyncio.run(main())
    assert read(app, job).result is True
    assert signal.getsignal(signal.SIGTERM) is handler


# A machine that slept


class Clerk:
    def __init__(self, clock: ManualClock) -> None:
        self.beat_tick = clock.tick()
        self.nudged = 0

    def nudge(self) -> None:
        self.nudged += 1


def test_after_a_sleep_the_clerk_is_asked_before_a_lease_is_given_up(app: Holdfast, clock: ManualClock) -> None:
    desk, run, clerk = Desk(1), run_of(app), Clerk(clock)
    desk.add([run])
    warden = Watchdog(desk, clock, clerk)
    clock.advance(0.5)
    assert not warden._was_frozen(clock.tick())
    clock.advance(3600)
    assert warden._was_frozen(clock.tick())
    assert clerk.nudged == 1
    assert not warden._was_frozen(clock.tick())
    warden._judge(run, clock.tick())
    assert run.stopping is None
    warden._patient_until = 0.0
    warden._judge(run, clock.tick())
    assert run.verdict == Released("its lease could not be renewed in time")


def test_a_run_that_begins_while_the_warden_goes_to_sleep_is_watched(app: Holdfast, clock: ManualClock) -> None:
    run, stopped = run_of(app), threading.Event()
    run.lease = 0

    class Stopper:
        def stop(self, run: Run) -> None:
            stopped.set()

    class LateDesk(Desk):
        def running(self) -> list[Run]:
            runs = super().running()
            if not runs and not run.ended:
                self.add([run])
                run.pool = Stopper()
                warden.begin(run)
            return runs

    warden = Watchdog(LateDesk(1), clock, Clerk(clock))
    warden._wake.set()
    warden.open()
    assert stopped.wait(LONG)
    warden.close()


def test_a_job_goes_on_after_the_machine_slept(app: Holdfast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.worker.watchdog.FROZEN_PATIENCE_SECONDS", LONG)
    begun, awake = threading.Event(), threading.Event()
    beats: list[int] = []

    @app.task
    async def work() -> str:
        begun.set()
        while not awake.is_set():
            await asyncio.sleep(0.005)  # blocks on purpose: code that can be cancelled
        return "done"

    def watch(verb: str) -> None:
        if verb == "committed" and beats and clock.tick() >= beats[0]:
            awake.set()

    job = work.enqueue()
    with working(app.worker(lease=15)):
        assert begun.wait(LONG)
        app.store.probe = watch
        beats.append(clock.tick() + 3_600_000_000)
        clock.advance(3600)
        assert app.wait(job.id, timeout=LONG).result == "done"
    assert kinds(app, job) == ["enqueued", "started", "succeeded"]
