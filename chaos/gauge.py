"""Measurements: the pace of the load around a fault, from the ledgers, and what a process holds, from /proc."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from statistics import median
from typing import Final

import msgspec

from holdfast.torture.ledgers import read

WINDOW_SECONDS: Final = 1.0
BEFORE_WINDOWS: Final = 10
"""The load comes in bursts: with half as many windows, some restarts were compared with a burst."""
AFTER_WINDOWS: Final = 3
STEP_SECONDS: Final = 0.25
BACK_SHARE: Final = 0.95
BACK_SECONDS: Final = 10.0


class Fault(msgspec.Struct):
    """What was done to the server or to the load, and its time in seconds of CLOCK_MONOTONIC."""

    what: str
    began: float
    over: float
    before: float | None = None
    """The start of the interval for the pace before the fault; None: BEFORE_WINDOWS earlier."""


class Recovery(msgspec.Struct):
    """Jobs per second, as medians of windows of a second."""

    what: str
    lasted_seconds: float
    rate: str
    before: float
    during: float
    after: float
    """In the first window in which the pace was back, or else in the best one."""
    back_seconds: float | None
    """From the end of the fault; None if the pace was not back within BACK_SECONDS."""


class Pace:
    """Counts over time: (second, count)."""

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

    def recovery(self, rate: str, fault: Fault) -> Recovery:
        calm = fault.before if fault.before is not None else fault.began - BEFORE_WINDOWS * WINDOW_SECONDS
        before = median(self.windows(calm, fault.began))
        during = self.between(fault.began, fault.over) / max(fault.over - fault.began, 1e-9)
        best, back = 0.0, None
        for step in range(int(BACK_SECONDS / STEP_SECONDS) + 1):
            start = fault.over + step * STEP_SECONDS
            after = median(self.windows(start, start + AFTER_WINDOWS * WINDOW_SECONDS))
            best = max(best, after)
            if after >= BACK_SHARE * before:
                best, back = after, step * STEP_SECONDS
                break
        return Recovery(fault.what, round(fault.over - fault.began, 2), rate, before, round(during, 1), best, back)


def paces(ledgers: str) -> dict[str, Pace]:
    enqueued: list[tuple[float, int]] = []
    ended: list[tuple[float, int]] = []
    for line in read(ledgers):
        if line.what == "ok":
            enqueued.append((line.at / 1e9, len(line.ids)))
        elif line.what in ("end", "raise"):
            ended.append((line.at / 1e9, 1))
    return {"enqueued": Pace(enqueued), "run": Pace(ended)}


class Footprint:
    """The threads and descriptors of a process: medians of several looks."""

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
