"""A worker: some slots, three kinds of pools, a clerk and a watchdog."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from holdfast.domain.bounds import CONCURRENCY_MAX, LEASE_SECONDS_MIN
from holdfast.domain.callback import CALLBACK_QUEUE
from holdfast.domain.event import check_name
from holdfast.domain.outcome import Released
from holdfast.domain.retry import Duration, seconds_of
from holdfast.errors import SettingError
from holdfast.registry import Registry
from holdfast.settings import CONCURRENCY, GRACE_SECONDS, LEASE_SECONDS
from holdfast.store.browse import Left
from holdfast.store.store import Store
from holdfast.worker.clerk import Clerk
from holdfast.worker.config import WorkerConfig
from holdfast.worker.context import Context
from holdfast.worker.context_link import RunLink, new_context
from holdfast.worker.desk import Desk, Run
from holdfast.worker.hooked import Hooked
from holdfast.worker.import_guard import refuse_while_importing
from holdfast.worker.loops import LoopPool, drive
from holdfast.worker.process_runs import ProcessRuns
from holdfast.worker.runner import acall, call, raised
from holdfast.worker.threads import ThreadPool, in_thread
from holdfast.worker.timing import ANSWER_SECONDS_MIN, EXIT_SECONDS, STOPPING_SECONDS
from holdfast.worker.watchdog import Watchdog

log = logging.getLogger("holdfast.worker")


class Worker:
    """`app.worker(queues=["llm"], concurrency=4).run()`: works until it is stopped."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int = CONCURRENCY,
        name: str | None = None,
        lease: Duration = LEASE_SECONDS,
        grace: Duration = GRACE_SECONDS,
        retention_seconds: float | None = None,
        callbacks: bool = True,
    ) -> None:
        if isinstance(concurrency, bool) or not isinstance(concurrency, int) or not 1 <= concurrency <= CONCURRENCY_MAX:
            raise SettingError(f"concurrency {concurrency!r} must be a whole number from 1 to {CONCURRENCY_MAX}")
        self._store, self._registry = store, registry
        self.queues = None if queues is None else tuple(check_name("queue", queue) for queue in _listed(queues))
        self.concurrency = concurrency
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.lease_seconds = check_lease(lease)
        self.grace_seconds = seconds_of("grace", grace)
        self._retention_seconds, self._callbacks = retention_seconds, callbacks
        self._stops = 0
        self._until_empty = self._retries = False
        self._patient = True
        """It also waits for queues that are closed for a time, when it runs until nothing is left."""
        self._interrupted = False
        self._left: Left | None = None
        self._clerk: Clerk | None = None
        self._hurry = threading.Event()
        self._filed = threading.Event()
        """Set when the clerk has ended: all outcomes are in the database."""
        self._pid = os.getpid()

    # Its life

    def run(self) -> None:
        """Work until SIGTERM, SIGINT or `stop()`; then finish what runs, for at most `grace` seconds.

        It has an event loop of its own, which does not wait for what jobs leave behind: not for coroutines that swallow
        their cancellation, and not for `asyncio.to_thread`, whose threads are daemons here.
        """
        self._drive("arun")

    def run_until_empty(self, *, retries: bool = False) -> Left:
        """Work until nothing is ready or running; how many jobs are left, for example for later.

        A queue that lets nothing start for a time (a rate, a gap) is waited for; one that is paused until it is resumed is not.

        Ctrl-C lets running jobs finish, for at most `grace` seconds; a second one hands them back. KeyboardInterrupt follows.

        retries  Also wait for jobs that back off, until each has succeeded or failed for good.
        """
        self._drive("arun_until_empty", retries=retries)
        if self._interrupted:
            raise KeyboardInterrupt
        assert self._left is not None
        return self._left

    async def arun(self) -> None:
        """The same inside an event loop that is running already: coroutine functions run in it.

        Signals are left to the program: it ends this by `stop()`, or by cancelling it, which is waited for as `stop()` is.
        """
        refuse_while_importing()
        loop = asyncio.get_running_loop()
        self._open(loop)
        self._filed.clear()
        atexit.register(self._hand_back)
        try:
            await self._patiently(in_thread(loop, "holdfast-clerk", self._work))
        finally:
            try:
                await self._patiently(loop.create_task(self._close(loop)))
            finally:
                self._stops = 0
                if self._filed.is_set():  # else its loop was given up, and the clerk is still at work
                    atexit.unregister(self._hand_back)

    def _hand_back(self) -> None:
        """At the end of a program that did not wait for its worker: an interrupt ended its event loop, or `sys.exit`."""
        if not self._filed.is_set() and os.getpid() == self._pid:
            self.stop()
            self.stop()
            self._filed.wait(EXIT_SECONDS)

    async def arun_until_empty(self, *, retries: bool = False) -> Left:
        """`run_until_empty()` inside an event loop that is running already."""
        self._until_empty, self._retries = True, retries
        try:
            await self.arun()
        finally:
            self._until_empty = False
        assert self._left is not None
        return self._left

    def stop(self) -> None:
        """From any thread: once to drain, twice to hand everything back at once."""
        self._stops += 1
        if self._stops > 1:
            self._hurry.set()
        clerk = self._clerk
        if clerk is not None:
            clerk.nudge()

    def _drive(self, name: str, **options: bool) -> None:
        _refuse_in_loop(name)
        self._interrupted = False
        drive(partial(getattr(self, name), **options), self._strayed, self._signalled)

    async def _patiently(self, working: asyncio.Future[None]) -> None:
        """To its end, however often this is cancelled meanwhile: a clerk that nobody waits for would go on claiming."""
        cancelled: asyncio.CancelledError | None = None
        while not working.done():
            try:
                await asyncio.wait([working])
            except asyncio.CancelledError as error:
                cancelled = error
                self.stop()
        working.result()
        if cancelled is not None:
            raise cancelled

    def _work(self) -> None:
        """The clerk's thread."""
        clerk = self._clerk
        assert clerk is not None
        try:
            clerk.work(self._finished)
            if self._until_empty:
                self._left = clerk.left()
                log.info("worker %s: %s", self.name, self._left)
        except BaseException:
            # Nobody renews the leases any more: others will run the jobs, so here they must end.
            self.desk.close()
            for run in self.desk.running():
                self._stop_run(run, "its worker failed")
            raise
        finally:
            self._filed.set()

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._hurry.clear()
        self.desk = desk = Desk(self.concurrency)
        desk.start = self._start
        hooked = Hooked(self._registry) if self._registry.hooks else None
        self._loops = LoopPool(desk, self._context, self._begin, hooked.acall if hooked else acall)
        self._loops.open(loop)
        self._threads = ThreadPool(desk, self._context, self._begin, hooked.call if hooked else call)
        self._processes = ProcessRuns(desk, self._context, self._begin, hooked)
        config = WorkerConfig(
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=self._served(),
            callbacks=self._callbacks,
            lease_seconds=self.lease_seconds,
            retention_seconds=self._retention_seconds,
        )
        self._store.answer_within(max(ANSWER_SECONDS_MIN, self.lease_seconds * 2 / 3))
        clerk = Clerk(self._store, self._registry, desk, config, self._start, self._stop_run)
        self._watchdog = Watchdog(desk, self._store.clock, clerk)
        clerk.open(follows=self._until_empty)
        self._clerk = clerk  # from here on `stop()` can nudge it
        self._watchdog.open()
        self._drain: threading.Thread | None = None
        log.info("worker %s works on %s, %d at a time", self.name, self._queue_text(), self.concurrency)

    async def _close(self, loop: asyncio.AbstractEventLoop) -> None:
        self._hurry.set()
        self._watchdog.close()
        await self._loops.close(1.0)
        self._threads.close()
        # Not by asyncio.to_thread: calls of jobs that were left behind may have taken all its threads.
        await in_thread(loop, "holdfast-closing", lambda: self._processes.close(1.0))
        self._clerk = None
        log.info("worker %s has stopped", self.name)

    def _strayed(self, run: Run | None, error: BaseException) -> None:
        """From the loop: what would end a program was raised in a task that a job started and did not wait for."""
        if run is None or run.ended:
            whose = "some job" if run is None else f"job {run.claimed.id} ({run.task.name}), which has ended,"
            log.error("%s left a task behind that raised %r; the worker goes on", whose, error)
            return
        run.verdict = run.verdict or raised(error, run)
        self._stop_run(run, f"a task that it started raised {type(error).__name__}")

    def _signalled(self, number: signal.Signals) -> None:
        running = len(self.desk.running()) if self._clerk is not None else 0
        jobs = "1 job" if running == 1 else f"{running} jobs"
        self._interrupted = self._interrupted or number == signal.SIGINT
        if not running:
            _say(f"{number.name}: nothing runs here; stopping")
        elif self._stops:
            _say(f"{number.name}: handing back {jobs}")
        else:
            _say(f"{number.name}: finishing {jobs}, for at most {self.grace_seconds:g} s; once more hands them back")
        self.stop()

    def _finished(self) -> bool:
        """Asked by the clerk between turns."""
        if self._stops:
            self._begin_draining()
            return True
        clerk = self._clerk
        if (
            self._until_empty
            and clerk is not None
            and self.desk.held() == 0
            and clerk.idle()
            and clerk.check_empty(self._retries, self._patient)
        ):
            self._stops = 1
            return True
        return False

    def _begin_draining(self) -> None:
        if self._drain is not None:
            return
        for run in self.desk.close():
            self.desk.outcomes.append((run, Released("its worker stopped before it was started")))
        self._drain = threading.Thread(target=self._let_finish, args=(self.desk,), name="holdfast-drain", daemon=True)
        try:
            self._drain.start()
        except RuntimeError:  # the interpreter is about to end, and starts no thread any more
            self._let_finish(self.desk)

    def _let_finish(self, desk: Desk) -> None:
        """What still runs when the time is up, or when asked to hurry, is stopped and handed back."""
        self._hurry.wait(self.grace_seconds)
        for run in desk.running():
            run.verdict = run.verdict or Released("its worker stopped before it was finished")
            self._stop_run(run, "its worker is stopping")
        desk.emptied.wait(STOPPING_SECONDS)
        for run in desk.running():
            desk.end(run, run.verdict or Released("its worker stopped before it was finished"))

    @property
    def quiet_seconds(self) -> float | None:
        """How long ago its last sign of life was committed; None: it is not at work."""
        clerk = self._clerk
        return None if clerk is None else max(0, self._store.clock.tick() - clerk.beat_tick) / 1e6

    # Its runs

    def _start(self, runs: list[Run]) -> None:
        """To the pool of each run's kind. From the clerk, or from a pool that took a run of another kind."""
        if not runs:
            return
        for pool in (self._loops, self._threads, self._processes):
            chosen = [run for run in runs if self._pool(run) is pool]
            if chosen:
                pool.start(chosen)

    def _pool(self, run: Run) -> Any:
        if run.task.process:
            return self._processes
        return self._loops if run.task.is_async else self._threads

    def _begin(self, run: Run) -> None:
        self._watchdog.begin(run)

    def _stop_run(self, run: Run, why: str) -> None:
        self._watchdog.stop(run, why)

    def _context(self, run: Run) -> Context:
        clerk = self._clerk
        assert clerk is not None
        return new_context(run, RunLink(run, self._registry, clerk.has_news, self._store, clerk.worker))

    def _served(self) -> tuple[str, ...] | None:
        """Its queues, and the one that is nobody's in particular."""
        if self.queues is None or not self._callbacks:
            return self.queues
        return tuple(dict.fromkeys((*self.queues, CALLBACK_QUEUE)))

    def _queue_text(self) -> str:
        return "all queues" if self.queues is None else ", ".join(self.queues)

    def __repr__(self) -> str:
        return f"<Worker {self.name} on {self._queue_text()}, {self.concurrency} at a time>"


def _say(text: str) -> None:
    """To the log; where a program has none, to the person who waits at its prompt."""
    if log.hasHandlers() and log.isEnabledFor(logging.INFO):
        log.info(text)
    else:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


def check_lease(lease: Duration) -> float:
    seconds = seconds_of("lease", lease, positive=True)
    if seconds < LEASE_SECONDS_MIN:
        raise SettingError(f"lease {lease!r} is too short to be renewed in time; use {LEASE_SECONDS_MIN} seconds or more")
    return seconds


def _listed(queues: Sequence[str]) -> Sequence[str]:
    return [queues] if isinstance(queues, str) else queues


def _refuse_in_loop(name: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise SettingError(f"worker.{name[1:]}() was called inside a running event loop; use: await worker.{name}()")
