"""Coroutine functions run as asyncio tasks, each in a task and in a context of its own.

Where Python can (3.12), a job takes its first step at once, without a turn of the loop: most of what a short one costs.

Also the event loop of a worker that has one for itself: how it is run, told to stop, and left.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from holdfast.domain.outcome import Failed, Outcome
from holdfast.worker.current import RUNNING
from holdfast.worker.desk import Desk, Run
from holdfast.worker.runner import INTERRUPTED, AsyncCall, acall, broken
from holdfast.worker.threads import Daemons
from holdfast.worker.timing import LOOP_LEFT_SECONDS, LOOP_TURN_SECONDS

log = logging.getLogger("holdfast.worker")

Heard = Callable[[signal.Signals], None]

Strayed = Callable[[Run | None, BaseException], None]

_EAGER: Final[dict[str, Any]] = {"eager_start": True} if sys.version_info >= (3, 12) else {}


class JobTask(asyncio.Task[None]):
    """Tells a cancellation by the job's own code from one by others: by a loop that shuts down, for example."""

    run: Run | None = None

    def cancel(self, msg: Any = None) -> bool:
        if self.run is not None and self.run.verdict is None and RUNNING.get() is not self.run:
            self.run.verdict = INTERRUPTED
        return super().cancel(msg)


class LoopPool:
    def __init__(self, desk: Desk, context: Callable[[Run], Any], begin: Callable[[Run], None], call: AsyncCall = acall) -> None:
        self._desk, self._context, self._begin, self._call = desk, context, begin, call
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, runs: list[Run]) -> None:
        """From any thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._start_all, runs)

    def _start_all(self, runs: list[Run]) -> None:
        for run in runs:
            self._start(run)

    def _start(self, run: Run) -> None:
        """From the loop; also what follows it, as long as none of them waits."""
        loop = self._loop
        assert loop is not None
        until = loop.time() + LOOP_TURN_SECONDS
        following: Run | None = run
        while following is not None:
            run = following
            task = self._begun(run, loop)
            if task is not None and not task.done():
                task.add_done_callback(partial(self._ended, run))
                return
            following = self._end(run, task)
            if following is not None and loop.time() > until:
                loop.call_soon(self._start, following)
                return

    def _begun(self, run: Run, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None] | None:
        """None: it was stopped while it was on its way here, and the loop perhaps blocked."""
        run.pool = self
        if run.ended or run.stopping is not None:
            return None
        self._begin(run)
        name = f"job {run.claimed.id} ({run.task.name})"
        # Not by the loop's own way to make tasks: it may be somebody else's loop, with a way that is not for us.
        task = JobTask(self._work(run), loop=loop, name=name, context=contextvars.Context(), **_EAGER)
        run.handle = task
        task.run = run
        return task

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
        run.outcome = await self._call(run, self._context)

    def _ended(self, run: Run, task: asyncio.Task[None]) -> None:
        following = self._end(run, task)
        if following is not None:
            self._start(following)

    def _end(self, run: Run, task: asyncio.Task[None] | None) -> Run | None:
        """What follows. A task that is cancelled before its first step never gets to its job, and has no outcome of its own."""
        error = None if task is None or task.cancelled() else task.exception()
        outcome = run.outcome or (INTERRUPTED if error is None else broken(error))
        run.handle = None  # the task refers to its run: without this each pair would wait for the garbage collector
        if is_ctrl_c(outcome):
            following = self._desk.end(run, INTERRUPTED)
            self._desk.start([] if following is None else [following])
            raise KeyboardInterrupt
        following = self._desk.end(run, outcome)
        if following is None or (following.task.is_async and not following.task.process):
            return following
        self._desk.start([following])
        return None

    async def close(self, grace_seconds: float) -> None:
        """Cancelled tasks get a moment to clean up."""
        tasks = [run.handle for run in self._desk.running() if isinstance(run.handle, asyncio.Task)]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)


def is_ctrl_c(outcome: Outcome) -> bool:
    """Whether it was raised by a signal, in the code that happened to run: it is meant for the program, whose loop this is."""
    return (
        isinstance(outcome, Failed)
        and outcome.error.kind == "KeyboardInterrupt"
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def drive(main: Callable[[], Coroutine[Any, Any, Any]], strayed: Strayed, heard: Heard) -> None:
    """`asyncio.run`, but what a job left behind does not hold it up, and signals are told to `heard`.

    SystemExit or KeyboardInterrupt in a task that a job started goes right through the loop. It is no end of the worker, but
    told to `strayed`, with the run if it is known.

    Tasks that swallow their cancellation are left after a moment, and calls in threads (`asyncio.to_thread`) at once.
    """
    loop = asyncio.new_event_loop()
    try:
        loop.set_default_executor(Daemons())
        asyncio.set_event_loop(loop)
        with listening(loop, heard):
            _finish(loop, loop.create_task(main()), strayed)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _finish(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], strayed: Strayed) -> None:
    try:
        while not task.done():
            try:
                loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as error:
                if not task.done():
                    strayed(_run_of(error), error)
        task.result()
    finally:
        _leave(loop)


def _run_of(error: BaseException) -> Run | None:
    """Whose code raised what came through the loop: the step of the loop that it came from was begun in the job's context."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    handles = (frame.f_locals.get("self") for frame in frames)
    step = next((each for each in handles if isinstance(each, asyncio.Handle)), None)
    return None if step is None else step._context.get(RUNNING)  # type: ignore[attr-defined]


def _leave(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    left.add(loop.create_task(loop.shutdown_asyncgens(), name="closing the generators of all jobs"))
    _, stuck = loop.run_until_complete(asyncio.wait(left, timeout=LOOP_LEFT_SECONDS))
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
