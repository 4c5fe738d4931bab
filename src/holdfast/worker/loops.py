"""Coroutine functions run as asyncio tasks, each in a task (and so in a context) of its own.

But a job that never waits for anything leaves no trace on its task: the next one may have it, for a new task and its turn in
the loop cost more than many a job.

Also the event loop of a worker that has one for itself: how it is run, told to stop, and left.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

from holdfast.worker.desk import Desk, Run
from holdfast.worker.runner import INTERRUPTED, AsyncCall, acall, broken
from holdfast.worker.threads import Daemons

log = logging.getLogger("holdfast.worker")

T = TypeVar("T")
Heard = Callable[[signal.Signals], None]

TURN_SECONDS: Final = 0.001
"""How long jobs that wait for nothing may follow each other before the loop gets to everything else."""
LEFT_SECONDS: Final = 1.0
"""How long a loop that is ours waits at its end for tasks that were cancelled."""


class LoopPool:
    def __init__(self, desk: Desk, context: Callable[[Run], Any], begin: Callable[[Run], None], call: AsyncCall = acall) -> None:
        self._desk, self._context, self._begin, self._call = desk, context, begin, call
        self._loop: asyncio.AbstractEventLoop | None = None
        self._in: dict[asyncio.Task[None], Run] = {}
        """The run that a task is at, or was at when it ended."""

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._blank = contextvars.copy_context()

    def start(self, runs: list[Run]) -> None:
        """From any thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._start_all, runs)

    def _start_all(self, runs: list[Run]) -> None:
        for run in runs:
            self._start(run)

    def _start(self, run: Run) -> None:
        if not self._admit(run):
            return
        assert self._loop is not None
        task = self._loop.create_task(self._work(run), context=self._blank.copy())
        run.handle = task
        self._in.setdefault(task, run)  # not again: an eager task has taken its first step by now
        task.add_done_callback(self._make_sure)

    def _admit(self, run: Run) -> bool:
        run.pool = self
        if run.ended or run.stopping is not None:  # while it was on its way here, and the loop perhaps blocked
            self._end(run)
            return False
        self._begin(run)
        return True

    def _sit(self, run: Run, task: asyncio.Task[None]) -> None:
        task.set_name(f"job {run.claimed.id} ({run.task.name})")
        run.handle, self._in[task] = task, run

    def stop(self, run: Run) -> None:
        """From any thread."""
        loop = self._loop
        assert loop is not None
        try:
            loop.call_soon_threadsafe(self._cancel, run)
        except RuntimeError:
            return  # the loop is closed, and with it the task

    def _cancel(self, run: Run) -> None:
        if run.handle is not None and not run.ended:
            run.handle.cancel()

    async def _work(self, run: Run) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        until = loop.time() + TURN_SECONDS
        while True:
            self._sit(run, task)
            watched = Watched(self._call(run, self._context))
            following = self._desk.end(run, await watched)
            if following is None:
                return
            used = watched.waited or task.cancelling() or contextvars.copy_context() != self._blank
            if used or loop.time() > until or not _is_for_loops(following):
                self._go_on(following)
                return
            if not self._admit(following):
                return
            run = following

    def _make_sure(self, task: asyncio.Task[None]) -> None:
        """A task that is cancelled before its first step never gets to its job."""
        run = self._in.pop(task)
        if run.ended:
            return
        error = None if task.cancelled() else task.exception()
        self._go_on(self._desk.end(run, INTERRUPTED if error is None else broken(error)))

    def _end(self, run: Run) -> None:
        following = self._desk.end(run, INTERRUPTED)
        if following is not None:
            self._desk.start([following])  # by way of the loop: a thousand in a row must not be a thousand calls deep

    def _go_on(self, following: Run | None) -> None:
        if following is None:
            return
        if _is_for_loops(following):
            assert self._loop is not None
            self._loop.call_soon(self._start, following)  # not at once: its first step may come before the last one of ours
        else:
            self._desk.start([following])

    async def close(self, grace_seconds: float) -> None:
        """Cancelled tasks get a moment to clean up."""
        tasks = [run.handle for run in self._desk.running() if isinstance(run.handle, asyncio.Task)]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)


class Watched(Generic[T]):
    """Awaits something, and knows whether that ever had to wait."""

    def __init__(self, awaited: Awaitable[T]) -> None:
        self._awaited = awaited
        self.waited = False

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._awaited.__await__()
        try:
            step = next(steps)
            self.waited = True
            while True:
                try:
                    yield step
                except BaseException as error:
                    step = steps.throw(error)
                else:
                    return (yield from steps)
        except StopIteration as end:
            value: T = end.value
            return value


def _is_for_loops(run: Run) -> bool:
    return run.task.is_async and not run.task.process


def drive(main: Callable[[], Coroutine[Any, Any, None]], stop: Callable[[], None], heard: Heard) -> None:
    """`asyncio.run`, but what a job left behind does not hold it up, and signals are told to `heard`.

    Tasks that swallow their cancellation are left after a moment, and calls in threads (`asyncio.to_thread`) at once.
    """
    loop = asyncio.new_event_loop()
    try:
        loop.set_default_executor(Daemons())
        asyncio.set_event_loop(loop)
        with listening(loop, heard):
            _finish(loop, loop.create_task(main()), stop)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _finish(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None], stop: Callable[[], None]) -> None:
    try:
        loop.run_until_complete(task)
    finally:
        if not task.done():  # SystemExit or KeyboardInterrupt in a task that a job started goes right through the loop
            stop()
            loop.run_until_complete(task)
        _leave(loop)


def _leave(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    left.add(loop.create_task(loop.shutdown_asyncgens(), name="closing the generators of all jobs"))
    _, stuck = loop.run_until_complete(asyncio.wait(left, timeout=LEFT_SECONDS))
    for task in stuck:
        log.warning("%s did not stop when it was cancelled; it is left behind", task.get_name())
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio would tell it again


@contextmanager
def listening(loop: asyncio.AbstractEventLoop, heard: Heard) -> Iterator[None]:
    """Within it SIGTERM and SIGINT are told to `heard`, also while a job blocks the loop. Only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # A handler interrupts the main thread anywhere, also where it holds a lock: it may do no more than put a word in a queue.
    came: SimpleQueue[signal.Signals | None] = SimpleQueue()
    threading.Thread(target=_tell, args=(came, heard), name="holdfast-signals", daemon=True).start()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        # Also in the loop: one that comes just before the loop waits must wake it, or the handler would not run.
        loop.add_signal_handler(number, _woken)
        signal.signal(number, lambda number, _: came.put(signal.Signals(number)))
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: it was not set from Python
        came.put(None)


def _tell(came: SimpleQueue[signal.Signals | None], heard: Heard) -> None:
    while (number := came.get()) is not None:
        heard(number)


def _woken() -> None:
    return
