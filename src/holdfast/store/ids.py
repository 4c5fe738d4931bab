"""Job ids: 32 hex digits in the order of UUIDv7 (milliseconds first, so an index on them only grows at its end).

A bulk of jobs takes consecutive ones, so that a million of them can be remembered as one number and a count.
"""

from __future__ import annotations

import secrets

_VERSION_7 = 0x7 << 76
_VARIANT = 0x2 << 62
_RANDOM_A = 12
_RANDOM_B = 62


def first_id(now: int) -> int:
    """The first of a run of ids, for a wall time in microseconds."""
    # The top bit of the random part stays clear: a run of consecutive ids cannot reach into the variant bits.
    low = secrets.randbits(_RANDOM_B - 1)
    return (now // 1000) << 80 | _VERSION_7 | secrets.randbits(_RANDOM_A) << 64 | _VARIANT | low


def id_text(number: int) -> str:
    return f"{number:032x}"
