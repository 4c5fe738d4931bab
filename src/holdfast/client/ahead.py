"""The chunks of a bulk: each is written, by a thread of its own, while the caller's thread makes the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
HEAD_START_SECONDS: Final = 0.001
"""Until what is to be written is on its way: a thread that makes jobs keeps the interpreter from others for 5 ms at a time."""


class Ahead(Generic[T]):
    """One write at a time, in the order in which they come; what became of each is given to `keep`, in that order too."""

    def __init__(self, write: Callable[[Any], T], keep: Callable[[T], None]) -> None:
        self._write, self._keep = write, keep
        self._thread: ThreadPoolExecutor | None = None
        self._going: Future[T] | None = None

    def __enter__(self) -> Ahead[T]:
        return self

    def put(self, work: Any, *, more: bool) -> None:
        """Returns when the one before is written; this one too, unless there is `more` to come."""
        self._settle()
        if more:
            self._going = self._start(work)
        if self._going is None:
            self._keep(self._write(work))
        else:
            wait((self._going,), HEAD_START_SECONDS)

    def _start(self, work: Any) -> Future[T] | None:
        """None: no thread is to be had, as when the interpreter is about to end."""
        try:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "holdfast-ahead")
            return self._thread.submit(self._write, work)
        except RuntimeError:
            return None

    def _settle(self) -> None:
        if self._going is not None:
            self._keep(self._going.result())
            self._going = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._settle()
        finally:
            if self._thread is not None:
                self._thread.shutdown()


class AsyncAhead(Generic[T]):
    """The same in an event loop, which is kept from others while jobs are made, but not while they are written."""

    def __init__(self, write: Callable[[Any], Awaitable[T]], keep: Callable[[T], None]) -> None:
        self._write, self._keep = write, keep
        self._going: asyncio.Future[T] | None = None

    async def __aenter__(self) -> AsyncAhead[T]:
        return self

    async def put(self, work: Any, *, more: bool) -> None:
        await self._settle()
        if not more:
            self._keep(await self._write(work))
            return
        self._going = asyncio.ensure_future(self._write(work))
        await asyncio.wait((self._going,), timeout=HEAD_START_SECONDS)

    async def _settle(self) -> None:
        if self._going is not None:
            going, self._going = self._going, None
            self._keep(await going)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            await self._settle()
        elif self._going is not None and isinstance(error, Exception):
            await asyncio.wait((self._going,))
        elif self._going is not None:
            self._going.cancel()
