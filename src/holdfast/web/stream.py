"""A live stream: frames as they come, a heartbeat when there are none, until there are no more or somebody goes.

It is ended by its source, by the client, by the server that stops, and when the caller's rights end. It holds one piece at a
time: a client that reads slowly makes its own source wait, and nobody else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.domain.event import Event
from holdfast.web.access import Caller
from holdfast.web.frame import HEARTBEAT, retry_line
from holdfast.web.settings import WebSettings
from holdfast.web.shutdown import Closing

MEDIA_TYPE: Final = "text/event-stream"
AFTERWARDS: Final = "holdfast.afterwards"
"""In a request's state: what the gate is to run when all behind it have returned."""
HEADERS: Final = {
    "cache-control": "no-store, no-transform",
    "x-accel-buffering": "no",  # nginx would keep small pieces back
    "content-encoding": "identity",  # a compressor would as well
    "vary": "accept",
}


PIECE_BYTES: Final = 64 * 1024
"""About so much is written at a time."""


class Source(Protocol):
    async def next(self, seconds: float) -> bytes | None:
        """The next frames; nothing if none came for so long; None: that was all."""

    def close(self) -> None: ...


def piece_of(events: deque[Event], frame: Callable[[Event], bytes]) -> bytes:
    """As many frames as make a piece; their events are taken out."""
    frames, size = [], 0
    while events and size < PIECE_BYTES:
        frames.append(frame(events.popleft()))
        size += len(frames[-1])
    return b"".join(frames)


class EventStream(Response):
    def __init__(self, source: Source, caller: Caller, settings: WebSettings, closing: Closing) -> None:
        super().__init__(headers=HEADERS, media_type=MEDIA_TYPE)
        del self.headers["content-length"]
        self._source, self._caller, self._settings, self._closing = source, caller, settings, closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begins when everybody between here and the gate has returned: thousands of streams would hold as many of each."""
        scope["state"][AFTERWARDS] = self._begin

    async def _begin(self, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            if await self._run(receive, send):
                await send(_body(retry_line(self._settings.reconnect_seconds), more=False))
        finally:
            self._source.close()

    async def _run(self, receive: Receive, send: Send) -> bool:
        """Whether there is still somebody to hear the last word."""
        pump = asyncio.create_task(self._pump(send))

        def told() -> None:
            pump.cancel()

        self._closing.add(told)
        try:
            return not await _gone_before(pump, receive)
        finally:
            self._closing.discard(told)
            pump.cancel()
            await asyncio.wait((pump,))
            if not pump.cancelled():
                pump.result()

    async def _pump(self, send: Send) -> None:
        beat, clock = self._settings.heartbeat_seconds, asyncio.get_running_loop().time
        looked_at = clock()
        await send(_body(retry_line(self._settings.reconnect_seconds)))
        while (piece := await self._source.next(beat)) is not None:
            if clock() - looked_at >= beat:
                if not await self._caller.is_current():
                    return
                looked_at = clock()
            await send(_body(piece or HEARTBEAT))


async def _gone_before(pump: asyncio.Task[None], receive: Receive) -> bool:
    """Wait until the client has closed its end, or the pump has come to its own; whether it was the client."""
    try:
        async with asyncio.timeout(None) as waiting:
            pump.add_done_callback(lambda _: _expire(waiting))
            while (await receive())["type"] != "http.disconnect":
                pass
        return True
    except TimeoutError:
        return False


def _expire(waiting: asyncio.Timeout) -> None:
    try:
        waiting.reschedule(0)
    except RuntimeError:
        return  # nobody waits any more


def _body(piece: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": piece, "more_body": more}
