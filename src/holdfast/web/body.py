"""A request's body, taken in whole before anybody parses it: not more than so many bytes, and not for longer than so long."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import Message, Receive

from holdfast.web.problem import Problem
from holdfast.web.settings import WebSettings

_CLOSE = {"connection": "close"}
"""The rest of the body would be taken for the next request."""


async def taken(headers: Headers, receive: Receive, settings: WebSettings) -> Receive:
    """The same request, its body bounded and already here."""
    most = settings.body_bytes_max
    said = headers.get("content-length", "0")
    if not said.isdigit() or len(said) > 18 or int(said) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(settings.body_seconds):
            body, disconnected = await _whole(receive, most)
    except TimeoutError:
        raise Problem(408, f"the body was not here after {settings.body_seconds:g} s", headers=_CLOSE) from None
    return _replay(body, receive, disconnected)


async def _whole(receive: Receive, most: int) -> tuple[bytes, Message | None]:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts), message
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts), None


def _replay(body: bytes, receive: Receive, disconnected: Message | None) -> Receive:
    told = [disconnected or {"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return told.pop() if told else await receive()

    return again


def _too_large(most: int) -> Problem:
    return Problem(413, f"the body has more than {most:,} bytes; keep the data elsewhere, and send a reference", headers=_CLOSE)
