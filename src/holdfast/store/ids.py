"""Job ids: 32 hex digits in the order of UUIDv7 (milliseconds first, so an index on them only grows at its end).

A bulk of jobs takes consecutive ones, so that a million of them can be remembered as one number and a count.
"""

from __future__ import annotations

import os

_VERSION_7 = 0x7 << 76
_VARIANT = 0x2 << 62
_LOW_BITS = 48
# All that is neither time, version nor variant; but for the top bit of the low part, so that a run of ids carries into nothing.
_CHANCE = 0xFFF << 64 | 0x3FFF << _LOW_BITS | (1 << _LOW_BITS - 1) - 1


def first_id(now: int) -> int:
    """The first of a run of ids, for a wall time in microseconds."""
    chance = int.from_bytes(os.urandom(10), "big")
    return (now // 1000) << 80 | _VERSION_7 | _VARIANT | chance & _CHANCE


def id_text(number: int) -> str:
    return f"{number:032x}"


def id_parts(number: int) -> tuple[str, int]:
    """The first 20 digits as text and the last 12 as a number, which a statement can count on from."""
    return id_text(number)[:20], number & (1 << _LOW_BITS) - 1
