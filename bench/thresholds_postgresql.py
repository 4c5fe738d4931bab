"""What we promise of a run on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from bench.measure import Record
from bench.plan import Sizes
from bench.thresholds import US, Threshold, claims, memory, percent

RIVAL = "pgqueuer"


def on_postgresql(record: Record, sizes: Sizes) -> list[Threshold]:
    return [
        *drains(record),
        *enqueues(record),
        *serves(record),
        *claims(record, sizes),
        *holds(record),
        *memory(record),
    ]


def drains(record: Record) -> Iterator[Threshold]:
    for system in (US, f"{US}-async"):
        for measure, who in (("drain1", "one worker"), ("drain2", "two workers")):
            rival = record.ratio(measure, "rate", system, RIVAL)
            yield Threshold(f"{system}: drain, {who}, against {RIVAL}", rival, 1.5, "×", goal=2.5)
        limit = percent(record.ratio("drain1", "rate", system, "limit"))
        yield Threshold(f"{system}: drain, one worker, of the limit", limit, 35, "%", goal=60)


def enqueues(record: Record) -> Iterator[Threshold]:
    plain = percent(record.ratio("one", "rate", US, "limit"))
    yield Threshold("one by one, of a plain insert", plain, 85, "%")
    yield Threshold("bulk enqueue", record.median("bulk", US, "rate"), 120_000, "/s")


def serves(record: Record) -> Iterator[Threshold]:
    for system in (US, f"{US}-async"):
        yield Threshold(f"{system}: pickup p50", record.median("pickup", system, "p50_ms"), 3, "ms", at_most=True)
        yield Threshold(f"{system}: pickup p99", record.median("pickup", system, "p99_ms"), 8, "ms", at_most=True)
    yield Threshold("idle worker", record.median("idle", US, "statements"), 3, "statements/s", at_most=True)


def holds(record: Record) -> Iterator[Threshold]:
    laps = zip(record.values("hold", US, "first_rate"), record.values("hold", US, "last_rate"), strict=True)
    kept = [last / first for first, last in laps]
    said = "with a transaction held open, the last jobs, of the rate of the first"
    yield Threshold(said, percent(median(kept) if kept else None), 85, "%")
