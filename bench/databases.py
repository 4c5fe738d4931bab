"""What the benchmark is on each database: who takes part, what is measured, how much of it, and what is promised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from bench.ground import Files, Ground
from bench.measure import Record
from bench.plan import FULL, MEASURES, POSTGRESQL, POSTGRESQL_QUICK, QUICK, Measure, Sizes
from bench.systems import ENTRIES, Entry
from bench.systems.on_postgresql import ENTRIES as POSTGRESQL_ENTRIES
from bench.thresholds import Threshold, on_sqlite
from bench.thresholds_postgresql import on_postgresql


@dataclass(frozen=True, slots=True)
class Database:
    entries: tuple[Entry, ...]
    measures: dict[str, Measure]
    full: Sizes
    quick: Sizes
    thresholds: Callable[[Record, Sizes], list[Threshold]]
    ground: Callable[[], AbstractContextManager[Ground]]


@contextmanager
def files() -> Iterator[Ground]:
    yield Files()


@contextmanager
def server() -> Iterator[Ground]:
    from bench.server import databases  # psycopg is only needed here

    with databases() as ground:
        yield ground


def without(*names: str) -> dict[str, Measure]:
    return {name: measure for name, measure in MEASURES.items() if name not in names}


ON = {
    "sqlite": Database(ENTRIES, without("hold"), FULL, QUICK, on_sqlite, files),
    "postgresql": Database(POSTGRESQL_ENTRIES, without("threads"), POSTGRESQL, POSTGRESQL_QUICK, on_postgresql, server),
}
