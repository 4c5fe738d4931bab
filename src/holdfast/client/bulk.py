"""The chunks of a bulk: each is written by a thread of its own while the caller's thread makes the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Final

from holdfast.store.enqueue import Accepted, Enqueue
from holdfast.store.wakeup import Wakeup

HEAD_START_SECONDS: Final = 0.000_4
"""Until a statement is on its way. A thread that makes jobs keeps the interpreter from others for 5 ms at a time, so the thread
that writes first gets as far as its last statement (`Enqueue.writing`), and has this moment to send it."""
DECIDE_SECONDS_MAX: Final = 1.0


class BulkWriter:
    """Chunks are written in the order in which they come; what became of each is given to `keep`, in that order too."""

    def __init__(self, write: Callable[[Enqueue], Accepted], keep: Callable[[Accepted], None]) -> None:
        self._write, self._keep = write, keep
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[Accepted] | None = None
        self._begun = Wakeup()

    def __enter__(self) -> BulkWriter:
        return self

    def put(self, chunk: Enqueue, *, more: bool) -> None:
        """Returns when all chunks before this one are written; this one too, unless there is `more` to come."""
        self._settle()
        if not (more and self._start(chunk)):
            self._keep(self._write(chunk))

    def _start(self, chunk: Enqueue) -> bool:
        """False: no thread is to be had, as when the interpreter is about to end."""
        try:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "holdfast-bulk")
            self._begun.clear()
            self._writing = self._thread.submit(self._write, Enqueue(chunk.jobs, self._begun.set))
        except RuntimeError:
            return False
        self._writing.add_done_callback(lambda _: self._begun.set())  # also if it fails before
        self._begun.wait(DECIDE_SECONDS_MAX)
        wait((self._writing,), HEAD_START_SECONDS)
        return True

    def _settle(self) -> None:
        if self._writing is not None:
            writing, self._writing = self._writing, None
            self._keep(writing.result())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._settle()
        finally:
            if self._thread is not None:
                self._thread.shutdown(wait=kind is None or issubclass(kind, Exception))  # else it may hang


class AsyncBulkWriter:
    """The same in an event loop, which is kept from others while jobs are made, but not while they are written."""

    def __init__(self, write: Callable[[Enqueue], Awaitable[Accepted]], keep: Callable[[Accepted], None]) -> None:
        self._write, self._keep = write, keep
        self._writing: asyncio.Future[Accepted] | None = None

    async def __aenter__(self) -> AsyncBulkWriter:
        return self

    async def put(self, chunk: Enqueue, *, more: bool) -> None:
        await self._settle()
        if not more:
            self._keep(await self._write(chunk))
            return
        self._writing = asyncio.ensure_future(self._write(chunk))
        await asyncio.wait((self._writing,), timeout=HEAD_START_SECONDS)

    async def _settle(self) -> None:
        if self._writing is not None:
            writing, self._writing = self._writing, None
            self._keep(await writing)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            await self._settle()
        elif self._writing is not None and isinstance(error, Exception):
            await asyncio.wait((self._writing,))
        elif self._writing is not None:
            self._writing.cancel()
