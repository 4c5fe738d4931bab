"""What a blow did to the pace, from the ledgers; and what a process holds, from the system."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from statistics import median
from typing import Final

import msgspec

from holdfast.torture.ledger import read

WINDOW_SECONDS: Final = 1.0
BEFORE_WINDOWS: Final = 10
"""The load comes in bursts: half as many, and now and then a restart was held against a burst."""
AFTER_WINDOWS: Final = 3
STEP_SECONDS: Final = 0.25
BACK_SHARE: Final = 0.95
BACK_SECONDS: Final = 10.0


class Blow(msgspec.Struct):
    """What was done to the server or to the load, from when to when; seconds of CLOCK_MONOTONIC."""

    what: str
    began: float
    over: float
    before: float | None = None
    """When the calm began that the pace before it is taken from; None: a few seconds earlier."""


class Recovery(msgspec.Struct):
    """Jobs per second, as medians of windows of a second."""

    what: str
    lasted_seconds: float
    rate: str
    before: float
    during: float
    after: float
    """At the first moment when it was back, or the best there was."""
    back_seconds: float | None
    """How long after the blow was over; None: not in time."""


class Pace:
    """Something that was counted, over time."""

    def __init__(self, counted: Sequence[tuple[float, int]]) -> None:
        ordered = sorted(counted)
        self._at = [at for at, _ in ordered]
        self._total = [0, *accumulate(count for _, count in ordered)]

    def between(self, start: float, end: float) -> int:
        return self._total[bisect_left(self._at, end)] - self._total[bisect_left(self._at, start)]

    def windows(self, start: float, end: float) -> list[float]:
        count = int((end - start) / WINDOW_SECONDS + 1e-6)
        edges = [start + number * WINDOW_SECONDS for number in range(count + 1)]
        return [self.between(*edge) / WINDOW_SECONDS for edge in pairwise(edges)]

    def recovery(self, rate: str, blow: Blow) -> Recovery:
        calm = blow.before if blow.before is not None else blow.began - BEFORE_WINDOWS * WINDOW_SECONDS
        before = median(self.windows(calm, blow.began))
        during = self.between(blow.began, blow.over) / max(blow.over - blow.began, 1e-9)
        best, back = 0.0, None
        for step in range(int(BACK_SECONDS / STEP_SECONDS) + 1):
            start = blow.over + step * STEP_SECONDS
            after = median(self.windows(start, start + AFTER_WINDOWS * WINDOW_SECONDS))
            best = max(best, after)
            if after >= BACK_SHARE * before:
                best, back = after, step * STEP_SECONDS
                break
        return Recovery(blow.what, round(blow.over - blow.began, 2), rate, before, round(during, 1), best, back)


def paces(ledgers: str) -> dict[str, Pace]:
    asked: list[tuple[float, int]] = []
    ended: list[tuple[float, int]] = []
    for line in read(ledgers):
        if line.what == "ok":
            asked.append((line.at / 1e9, len(line.ids)))
        elif line.what in ("end", "raise"):
            ended.append((line.at / 1e9, 1))
    return {"enqueued": Pace(asked), "run": Pace(ended)}


class Holdings:
    """What a process holds, looked at a few times: its usual number of threads and descriptors."""

    def __init__(self) -> None:
        self._threads: list[int] = []
        self._descriptors: list[int] = []

    @property
    def threads(self) -> int:
        return int(median(self._threads or [0]))

    @property
    def descriptors(self) -> int:
        return int(median(self._descriptors or [0]))

    def look(self, pid: int) -> None:
        with suppress(FileNotFoundError, ProcessLookupError):
            self._threads.append(len(os.listdir(f"/proc/{pid}/task")))
            self._descriptors.append(len(os.listdir(f"/proc/{pid}/fd")))
