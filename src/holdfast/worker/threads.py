"""Plain functions run in threads. A thread cannot be stopped: its code is told, and if it goes on it is left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeVar

from holdfast.worker.desk import Desk, Run
from holdfast.worker.runner import INTERRUPTED, Call, call

P = ParamSpec("P")
T = TypeVar("T")

CALLS_MAX: Final = 32


class ThreadPool:
    def __init__(self, desk: Desk, context: Callable[[Run], Any], begin: Callable[[Run], None], call: Call = call) -> None:
        self._desk, self._context, self._begin, self._call = desk, context, begin, call
        self._runs: SimpleQueue[Run | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0

    def start(self, runs: list[Run]) -> None:
        """From any thread; as many threads as jobs run at once, and no more."""
        for run in runs:
            try:
                self._provide_thread()
            except RuntimeError as error:  # the system has no more
                self._desk.refuse(run, error)
            else:
                self._runs.put(run)

    def _provide_thread(self) -> None:
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                return
            threading.Thread(target=self._work, name=f"holdfast-job-{self._threads + 1}", daemon=True).start()
            self._threads += 1

    def stop(self, run: Run) -> None:
        """Nothing can be done but tell its context, which was done."""

    def _work(self) -> None:
        while (run := self._runs.get()) is not None:
            following: Run | None = run
            while following is not None:
                following = self._run(following)
                if following is not None and (following.task.is_async or following.task.process):
                    self._desk.start([following])
                    following = None
            with self._lock:
                self._idle += 1

    def _run(self, run: Run) -> Run | None:
        run.pool = self
        if run.ended or run.stopping is not None:  # while it was on its way here
            return self._desk.end(run, INTERRUPTED)
        self._begin(run)
        return self._desk.end(run, self._call(run, self._context))

    def close(self) -> None:
        """Idle threads go; busy ones are daemons and do not keep the process alive."""
        with self._lock:
            threads = self._threads
        for _ in range(threads):
            self._runs.put(None)


class Daemons(ThreadPoolExecutor):
    """For `asyncio.to_thread` in a loop that is ours: daemons too, so that a call that was left behind holds up nobody.

    The threads of the standard executor are waited for when the loop is closed, and again when the program ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._unfinished = self._started = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._started < min(self._unfinished + 1, CALLS_MAX):
                threading.Thread(target=self._work, name="holdfast-call", daemon=True).start()
                self._started += 1
            self._unfinished += 1
            self._calls.put((future, partial(fn, *args, **kwargs)))
        return future

    def _work(self) -> None:
        while (work := self._calls.get()) is not None:
            _answer(*work)
            del work
            with self._lock:
                self._unfinished -= 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Never waits."""
        with self._lock:
            started, self._started, self._closed = self._started, 0, True
        for _ in range(started):
            self._calls.put(None)


def _answer(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)


def in_thread(loop: asyncio.AbstractEventLoop, name: str, function: Callable[[], None]) -> asyncio.Future[None]:
    """Call it in a thread that nobody else can occupy; how it ended is told in the loop."""
    future: asyncio.Future[None] = loop.create_future()

    def tell(error: BaseException | None) -> None:
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def work() -> None:
        failure = None
        try:
            function()
        except BaseException as error:
            failure = error
        with suppress(RuntimeError):  # the loop was closed, and nobody waits
            loop.call_soon_threadsafe(tell, failure)

    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError:  # the interpreter is about to end, and starts no thread any more
        work()
    return future
