"""Server-sent events on the wire. What is said is one line of JSON: nothing that a job says can begin another frame."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.domain.document import event_document
from holdfast.domain.event import Event

HEARTBEAT: Final = b":\n\n"
_BREAKS: Final = (
    (b"\xc2\x85", b"\\u0085"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)
"""Line ends for some readers, though not in this format; JSON may hold them as they are."""


def frame(kind: str, data: Any, id: str | None = None) -> bytes:
    """`id` and `kind` are ours, or were checked as names: they hold no line end."""
    head = f"event: {kind}\n" if id is None else f"id: {id}\nevent: {kind}\n"
    return head.encode() + b"data: " + one_line(data) + b"\n\n"


def one_line(data: Any) -> bytes:
    """As JSON: control characters are escaped in it, and so is all else that somebody might take for a line end."""
    text = msgspec.json.encode(data)
    for raw, escaped in _BREAKS:
        if raw in text:
            text = text.replace(raw, escaped)
    return text


def event_frame(event: Event) -> bytes:
    return frame(event.kind, event_document(event), str(event.number))


def retry_line(seconds: float) -> bytes:
    """How long a client waits before it comes back."""
    return f"retry: {int(seconds * 1000)}\n\n".encode()
