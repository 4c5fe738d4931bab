"""The process that watches: thousands of live streams over plain sockets. Reads commands as JSON lines, answers as JSON lines.

It does as little as it can with what comes, since it runs on the machine that is measured.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from time import monotonic, monotonic_ns
from typing import Any, Final
from urllib.parse import quote

CALLERS: Final = 50
"""So many connect at the same time."""
FIRST_SECONDS: Final = 60.0
LAG_SECONDS: Final = 0.01
_SAID: Final = re.compile(rb'"at":(\d+)')
_RESET: Final = struct.pack("ii", 1, 0)
ABORTS: Final = ("before the head", "after the head", "after an event", "in silence")

Pair = tuple[int, int]


class Watcher(asyncio.Protocol):
    """One stream. It has begun when its first event is there."""

    def __init__(self, request: bytes, heard: list[Pair]) -> None:
        self._request, self._heard = request, heard
        self._rest = b""
        self.transport: asyncio.Transport | None = None
        loop = asyncio.get_running_loop()
        self.head: asyncio.Future[None] = loop.create_future()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.over: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = monotonic_ns()
        if not self.head.done():
            self._answer(data)
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if line.startswith(b"data: "):
                self._event(line, now)
            elif line == b"event: end":
                self.abort()

    def _answer(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 200 "):
            self.head.set_result(None)
        else:
            self._fail(data[:300].decode("latin-1"))
            self.abort()

    def _event(self, line: bytes, now: int) -> None:
        if not self.begun.done():
            self.begun.set_result(None)
        said = _SAID.search(line)
        if said:
            self._heard.append((int(said[1]), now))

    def connection_lost(self, _error: Exception | None) -> None:
        self._fail("cut off")
        self.over.set_result(None)

    def _fail(self, why: str) -> None:
        for future in (self.head, self.begun):
            if not future.done():
                future.set_exception(ConnectionError(why))
            future.exception()  # nobody has to have waited for it

    def abort(self) -> None:
        """With a reset, as from a machine that knows nothing of it any more."""
        assert self.transport is not None
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()


class Crowd:
    def __init__(self, port: int) -> None:
        self._port = port
        self._chance = random.Random(1)
        self._watching: list[Watcher] = []
        self._heard: list[Pair] = []
        self._lags: list[float] = []

    async def watch(self, ids: list[str]) -> dict[str, float]:
        """Each of these jobs, until its first event is there."""
        began = monotonic()

        async def begin(id: str) -> None:
            watcher = await self._connect(id)
            self._watching.append(watcher)
            await asyncio.wait_for(watcher.begun, FIRST_SECONDS)

        await _by_many(begin, ids)
        return {"seconds": monotonic() - began}

    async def hear(self, path: str, count: int) -> dict[str, float]:
        """Until so many streams have ended; writes down what was said when, and when it came."""
        lag = asyncio.ensure_future(self._feel_lag())
        ended: list[Watcher] = []
        while len(ended) < count:
            await asyncio.sleep(0.1)
            ended = [watcher for watcher in self._watching if watcher.over.done()]
        lag.cancel()
        self._watching = [watcher for watcher in self._watching if not watcher.over.done()]
        await asyncio.to_thread(Path(path).write_text, json.dumps(self._heard))
        self._lags.sort()
        return {"ended": len(ended), "events": len(self._heard), "lag_p99_ms": self._lags[int(len(self._lags) * 0.99)] * 1e3}

    async def leave(self) -> dict[str, float]:
        gone = len(self._watching)
        for watcher in self._watching:
            watcher.abort()
        await asyncio.gather(*(watcher.over for watcher in self._watching))
        self._watching = []
        return {"gone": gone}

    async def come_and_go(self, ids: list[str], count: int) -> dict[str, float]:
        """Connect and abort, at some moment of a stream's beginning."""
        began = monotonic()
        await _by_many(self._abort_one, (ids[number % len(ids)] for number in range(count)))
        return {"cycles": count, "per_second": count / (monotonic() - began)}

    async def _abort_one(self, id: str) -> None:
        watcher, when = await self._connect(id), self._chance.choice(ABORTS)
        if when == "after the head":
            await asyncio.wait_for(watcher.head, FIRST_SECONDS)
        elif when != "before the head":
            await asyncio.wait_for(watcher.begun, FIRST_SECONDS)
        if when == "in silence":
            await asyncio.sleep(self._chance.uniform(0.0, 0.1))
        watcher.abort()
        await watcher.over

    async def _connect(self, id: str) -> Watcher:
        path = f"/api/jobs/{quote(id, safe='')}/events"
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nAccept: text/event-stream\r\n\r\n".encode()
        loop = asyncio.get_running_loop()
        _, watcher = await loop.create_connection(lambda: Watcher(request, self._heard), "127.0.0.1", self._port)
        return watcher

    async def _feel_lag(self) -> None:
        """How late this process itself is: a part of what it measures."""
        while True:
            due = monotonic() + LAG_SECONDS
            await asyncio.sleep(LAG_SECONDS)
            self._lags.append(monotonic() - due)


async def _by_many(act: Callable[[str], Awaitable[None]], ids: Iterable[str]) -> None:
    left = iter(ids)

    async def go_on() -> None:
        for id in left:
            await act(id)

    await asyncio.gather(*(go_on() for _ in range(CALLERS)))


async def answer(port: int) -> None:
    crowd, loop = Crowd(port), asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command: dict[str, Any] = json.loads(line)
        figures = await getattr(crowd, command.pop("verb"))(**command)
        print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    asyncio.run(answer(int(sys.argv[1])))
