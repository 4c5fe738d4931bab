"""One clock for all machines: the database server's, read now and then, and counted on from between the readings."""

from __future__ import annotations

import time
from typing import Final

_OWN: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
STALE_MICROS: Final = 10_000_000


def own_micros() -> int:
    """Of this machine: moved by nothing but time."""
    return time.clock_gettime_ns(_OWN) // 1000


class ServerClock:
    """The server's time for schedules and leases alike. Before the first reading it is this machine's."""

    __slots__ = ("_offset", "_read_at")

    def __init__(self) -> None:
        self._offset = time.time_ns() // 1000 - own_micros()
        self._read_at: int | None = None

    def now(self) -> int:
        return own_micros() + self._offset

    def tick(self) -> int:
        return own_micros() + self._offset

    def boot(self) -> str:
        return ""

    def is_stale(self) -> bool:
        return self._read_at is None or own_micros() - self._read_at > STALE_MICROS

    def learn(self, server_micros: int, asked_at: int, answered_at: int) -> None:
        """What the server said at some moment between question and answer, both by our own clock."""
        self._offset = server_micros - (asked_at + answered_at) // 2
        self._read_at = answered_at
