"""Taking turns: every system once a round, a fresh directory each time, medians over the rounds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import TypeVar

from bench.ground import Figures, Files, Ground, fresh_directory
from bench.process import ChildFailed
from bench.systems import Entry

SYNCS = 50
WATCH_SECONDS = 1.0
QUIET_PERCENT = 10.0

Samples = dict[str, list[Figures]]  # by system, one per round
T = TypeVar("T")


@dataclass(slots=True)
class Record:
    """All that was measured, and where: by measure, then by system, the figures of each round."""

    where: Ground = field(default_factory=Files)
    measures: dict[str, Samples] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    surroundings: dict[str, Figures] = field(default_factory=dict)

    @property
    def quiet(self) -> bool:
        """Whether ratios can be trusted: a busy machine slows those who sync for each job more than the others."""
        return all(seen["others_percent"] <= QUIET_PERCENT for seen in self.surroundings.values())

    def add(self, measure: str, system: str, figures: Figures) -> None:
        self.measures.setdefault(measure, {}).setdefault(system, []).append(figures)

    def values(self, measure: str, system: str, figure: str) -> list[float]:
        rounds = self.measures.get(measure, {}).get(system, [])
        return [figures[figure] for figures in rounds if figure in figures]

    def median(self, measure: str, system: str, figure: str) -> float | None:
        values = self.values(measure, system, figure)
        return median(values) if values else None

    def ratio(self, measure: str, figure: str, above: str, below: str) -> float | None:
        """The median of the ratios round by round: what slows a whole round does not count."""
        return typical(self.values(measure, above, figure), self.values(measure, below, figure))

    @contextmanager
    def noting(self, measure: str, system: str) -> Iterator[None]:
        """A failure of this system is noted, and the others go on."""
        try:
            yield
        except ChildFailed as failure:
            self.failures[f"{measure} {system}"] = str(failure)

    def failed(self, measure: str, system: str) -> bool:
        return f"{measure} {system}" in self.failures


def quotients(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Round by round, as far as both have come."""
    return [upper / lower for upper, lower in zip(above, below, strict=False) if lower]


def typical(above: Sequence[float], below: Sequence[float]) -> float | None:
    ratios = quotients(above, below)
    return median(ratios) if ratios else None


def surroundings() -> Figures:
    """What this moment is like for everybody: how busy others keep the machine, and what a durable page costs."""
    others = busy_percent()
    with fresh_directory() as directory, (directory / "probe").open("wb", buffering=0) as probe:
        times = [timed_sync(probe.fileno()) for _ in range(SYNCS)]
    return {"load": os.getloadavg()[0], "others_percent": others, "sync_ms": median(times) * 1000}


def busy_percent() -> float:
    """How much of all cores is in use while the benchmark itself does nothing."""
    idle, total = core_ticks()
    sleep(WATCH_SECONDS)
    idle_then, total_then = core_ticks()
    return 100 * (1 - (idle_then - idle) / max(1, total_then - total))


def core_ticks() -> tuple[int, int]:
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


def timed_sync(file: int) -> float:
    start = perf_counter()
    os.write(file, bytes(4096))
    os.fdatasync(file)
    return perf_counter() - start


def take_turns(
    record: Record, measure: str, entries: Sequence[Entry], rounds: int, run: Callable[[Entry, Path], Figures]
) -> None:
    for number in range(rounds):
        take_turn(record, measure, entries, number, run)


def take_turn(record: Record, measure: str, entries: Sequence[Entry], number: int, run: Callable[[Entry, Path], Figures]) -> None:
    for entry in in_turn(entries, number):
        if not record.failed(measure, entry.name):
            with record.where.fresh() as directory, record.noting(measure, entry.name):
                record.add(measure, entry.name, run(entry, directory))


def in_turn(systems: Sequence[T], number: int) -> list[T]:
    """Nobody always goes first, nor always after the same neighbour's leftovers: there, back, and from the next one on."""
    start = number // 2 % len(systems) if systems else 0
    order = [*systems[start:], *systems[:start]]
    return order[::-1] if number % 2 else order
