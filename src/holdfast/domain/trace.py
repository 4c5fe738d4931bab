"""A job's place in a distributed trace: one entry of its meta, as W3C Trace Context writes it."""

from __future__ import annotations

from typing import Any, Final

from holdfast.domain import codec
from holdfast.domain.bounds import META_BYTES_MAX
from holdfast.errors import PayloadError

TRACEPARENT: Final = "traceparent"
"""The one key of a job's meta that Holdfast reads and writes itself; no tracestate is kept."""


def carried(meta: str | None) -> str | None:
    """The meta of a job that goes on for another, which has this one: its place in the trace, and nothing else."""
    if meta is None or TRACEPARENT not in meta:
        return None
    try:
        place = place_in(codec.decode(meta))
    except PayloadError:  # somebody has damaged it, which must not keep a job from its end
        return None
    return None if place is None else placed(None, place)


def place_in(meta: Any) -> str | None:
    place = meta.get(TRACEPARENT) if isinstance(meta, dict) else None
    return place if isinstance(place, str) else None


def placed(meta: str | None, place: str) -> str | None:
    """Meta with this place in it; as it was where there is no room for more."""
    entries: Any = {} if meta is None else codec.decode(meta)
    try:
        return codec.encode({**entries, TRACEPARENT: place}, "meta", META_BYTES_MAX)
    except PayloadError:
        return meta
