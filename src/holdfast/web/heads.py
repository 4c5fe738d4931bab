"""A time limit for the head of a request: a connection that does not finish one is closed.

uvicorn closes a connection that is idle between two requests. It waits without an end for the first request, and for the rest of
a head whose beginning has come.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD_SECONDS: Final = 15.0

_Protocol: Any = object if TYPE_CHECKING else AutoHTTPProtocol


class HeadLimit(_Protocol):  # type: ignore[misc]  # a class that uvicorn chooses when it is imported
    """uvicorn's protocol, with a timer that runs whenever a head is awaited or has begun, and no request is being answered."""

    head_seconds = HEAD_SECONDS
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_timer()
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        """From the first byte on: what comes byte by byte does not begin it anew."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.head_seconds, self._close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self) -> None:
        self._timer = None
        if self.transport is not None and self.transport.get_protocol() is self:
            self.transport.close()
