"""Job ids: 32 hex digits in the order of UUIDv7 (milliseconds first, so an index on them only grows at its end).

A bulk of jobs takes consecutive ones, so that a million of them can be remembered as one number and a count.
"""

from __future__ import annotations

import secrets

_VERSION_7 = 0x7 << 76
_VARIANT = 0x2 << 62
_LOW_BITS = 48


def first_id(now: int) -> int:
    """The first of a run of ids, for a wall time in microseconds."""
    # The top bit of the low part stays clear: a run of consecutive ids carries into nothing.
    high = (now // 1000) << 80 | _VERSION_7 | secrets.randbits(12) << 64 | _VARIANT | secrets.randbits(14) << _LOW_BITS
    return high | secrets.randbits(_LOW_BITS - 1)


def id_text(number: int) -> str:
    return f"{number:032x}"


def id_parts(number: int) -> tuple[str, int]:
    """The first 20 digits as text and the last 12 as a number, which a statement can count on from."""
    return id_text(number)[:20], number & (1 << _LOW_BITS) - 1
