"""The job that every system runs: a no-op with one 100-byte dict, and the stamps it leaves.

The stamps cost about 0.2 µs a job, the same for every system, so that nobody's own counters are trusted.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from time import monotonic, monotonic_ns
from typing import Any

from bench.usage import peak_megabytes

Payload = dict[str, Any]

TEXT = "x" * 73  # with the number this makes 100 bytes of JSON


def payload(number: int) -> Payload:
    return {"number": 100_000_000 + number, "text": TEXT}


def payloads(jobs: int) -> Iterator[Payload]:
    return map(payload, range(jobs))


class Tally:
    """What the jobs of one measurement saw in this process."""

    def __init__(self, limit: int = 0, seconds: float = 0, mark: int = 0, lap: int = 0) -> None:
        self.first = 0.0
        self.last = 0.0
        self.limit = limit
        self.limit_at = 0.0
        self.mark = mark
        self.mark_megabytes = 0.0
        self.lap = lap
        self.laps: list[float] = []
        self.latencies: list[int] = []
        self.enough = threading.Event()
        self.deadline = monotonic() + seconds if seconds else 0.0
        self._counter = itertools.count(1)
        self._runs = bytearray()

    @property
    def runs(self) -> int:
        """Not the last number that a job was given: its thread may have been held up since, while others ended theirs."""
        return len(self._runs)

    def stamp(self, argument: Payload) -> None:
        now = monotonic()
        number = next(self._counter)
        if number == 1:
            self.first = now
        self.last = now
        self._runs.append(0)
        if number == self.limit:
            self.limit_at = now
            self.enough.set()
        if number == self.mark:
            self.mark_megabytes = peak_megabytes()
        if self.lap and number % self.lap == 0:
            self.laps.append(now)
        if "sent" in argument:
            self.latencies.append(monotonic_ns() - argument["sent"])

    def over(self) -> bool:
        """Whether a loop that drains job by job may stop before the queue is empty."""
        if self.deadline and monotonic() > self.deadline:
            self.enough.set()
        return self.enough.is_set()

    def window(self) -> tuple[int, float]:
        """Jobs and seconds from the first job to the last one that counts."""
        if self.limit_at:
            return self.limit, self.limit_at - self.first
        return self.runs, self.last - self.first

    def lap_rates(self) -> dict[str, float]:
        """How fast the first and the last so many jobs went."""
        if len(self.laps) < 2:
            return {}
        return {"first_rate": self.lap / (self.laps[0] - self.first), "last_rate": self.lap / (self.laps[-1] - self.laps[-2])}


tally = Tally()


def begin(limit: int = 0, seconds: float = 0, mark: int = 0, lap: int = 0) -> Tally:
    global tally
    tally = Tally(limit, seconds, mark, lap)
    return tally


def run(argument: Payload) -> None:
    tally.stamp(argument)
