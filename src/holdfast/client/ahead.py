"""The chunks of a bulk: each is written, by a thread of its own, while the caller's thread makes the next.

Where the database can write several at a time, two of them are written side by side, each in a transaction that is kept only
if the one before it is. Where that does not go well, the later one is written again when the earlier one is done.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from types import TracebackType
from typing import Final, Protocol, TypeVar

from holdfast.store.enqueue import Accepted, InTurn, Overtaken, Plain, take_numbers
from holdfast.store.op import Make

T = TypeVar("T")
HEAD_START_SECONDS: Final = 0.001
"""Until what is to be written is on its way: a thread that makes jobs keeps the interpreter from others for 5 ms at a time."""
ABREAST: Final = 2
"""So many are written at a time: a third would wait for its jobs to be made."""
FRESH_SECONDS: Final = 0.2
"""So long numbers may wait for their jobs: those that others enqueue meanwhile come behind them."""

Chunk = Make[Accepted]


class Write(Protocol):
    """Returns when what it was given is committed."""

    def __call__(self, make: Make[T], /) -> T: ...


class Ahead:
    """They are kept in the order in which they come; what became of each is given to `keep`, in that order too."""

    def __init__(self, write: Write, keep: Callable[[Accepted], None], abreast: bool = False) -> None:
        self._write, self._keep = write, keep
        self._numbers = Numbers(write) if abreast else None
        self._threads: ThreadPoolExecutor | None = None
        self._going: deque[_Going] = deque()

    def __enter__(self) -> Ahead:
        return self

    def put(self, chunk: Chunk, *, more: bool) -> None:
        """Returns when all but the last are written; this one too, unless there is `more` to come."""
        going = _Going(self._write, chunk)
        if more and self._numbers is not None and isinstance(chunk, Plain) and chunk.lane is not None:
            self._settle(0 if any(each.gave_way for each in self._going) else ABREAST - 1)
            for each in self._going:
                each.await_start()
            before = self._going[-1] if self._going else None
            going.line_up(chunk, self._numbers.next(anew=before is None), before)
        if not going.is_in_line:
            self._settle()
        if more and self._start(going):
            self._going.append(going)
            going.await_start(HEAD_START_SECONDS)
        else:
            self._settle()
            self._keep(self._write(chunk))

    def _start(self, going: _Going) -> bool:
        """False: no thread is to be had, as when the interpreter is about to end."""
        try:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(ABREAST, "holdfast-ahead")
            going.future = self._threads.submit(going.run)
        except RuntimeError:
            return False
        return True

    def _settle(self, left: int = 0) -> None:
        """Until only so many go on."""
        while len(self._going) > left:
            self._keep(self._going.popleft().future.result())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._settle()
        finally:
            if self._threads is not None:
                self._threads.shutdown()


class _Going:
    """A chunk that is being written."""

    def __init__(self, write: Write, chunk: Chunk) -> None:
        self._write, self._chunk = write, chunk
        self._in_turn: InTurn | None = None
        self._before: _Going | None = None
        self._sent = Event()
        self.future: Future[Accepted] = Future()
        self.gave_way = False
        """What is written behind the numbers that it had is not behind it."""

    @property
    def is_in_line(self) -> bool:
        return self._in_turn is not None

    def line_up(self, chunk: Plain, number: int, before: _Going | None) -> None:
        """Beside the one before, if that is in line itself."""
        if before is None:
            self._in_turn = InTurn(chunk, number, None, self._sent.set)
        elif before._in_turn is not None:
            self._in_turn, self._before = InTurn(chunk, number, before._in_turn.number, self._sent.set), before

    def await_start(self, seconds: float | None = None) -> None:
        """Until the server has it; or it has ended, one way or the other."""
        self._sent.wait(seconds)

    def run(self) -> Accepted:
        try:
            return self._written()
        finally:
            self._sent.set()

    def _written(self) -> Accepted:
        before, self._before = self._before, None
        if self._in_turn is not None:
            try:
                return self._write(self._in_turn)
            except Overtaken:
                self.gave_way = True
                if before is not None:
                    before.future.result()
        return self._write(self._chunk)


class Numbers:
    """Taken a few at a time, for chunks that are written soon, one behind the other."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._left: deque[int] = deque()
        self._taken_at = 0.0

    def next(self, anew: bool) -> int:
        """One that was taken before, unless it is to be `anew`: behind all that was written by now, whatever numbers that had."""
        if anew or not self._left or time.monotonic() - self._taken_at > FRESH_SECONDS:
            self._taken_at = time.monotonic()
            self._left = deque(self._write(take_numbers))
        return self._left.popleft()


class AsyncAhead:
    """One at a time, in an event loop, which is kept from others while jobs are made, but not while they are written."""

    def __init__(self, write: Callable[[Chunk], Awaitable[Accepted]], keep: Callable[[Accepted], None]) -> None:
        self._write, self._keep = write, keep
        self._going: asyncio.Future[Accepted] | None = None

    async def __aenter__(self) -> AsyncAhead:
        return self

    async def put(self, chunk: Chunk, *, more: bool) -> None:
        await self._settle()
        if not more:
            self._keep(await self._write(chunk))
            return
        self._going = asyncio.ensure_future(self._write(chunk))
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
