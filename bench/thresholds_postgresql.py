"""What we promise of a run on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

from bench.measure import Record, typical
from bench.plan import Sizes
from bench.thresholds import US, Threshold, claims, memory, percent, specials

RIVAL = "pgqueuer"
RIVALS = (RIVAL, "procrastinate", "chancy")


def on_postgresql(record: Record, sizes: Sizes) -> list[Threshold]:
    return [
        *drains(record),
        *enqueues(record),
        *specials(record),
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
    best, ratio = against_the_best(record)
    yield Threshold(f"plain bulk, against the best rival{best}", ratio, 2, "×")


def against_the_best(record: Record) -> tuple[str, float | None]:
    """Of those that were measured, the one against whom the ratio is the least."""
    ratios = {rival: record.ratio("bulk", "rate", US, rival) for rival in RIVALS}
    known = [(ratio, rival) for rival, ratio in ratios.items() if ratio is not None]
    return (f", {min(known)[1]}", min(known)[0]) if known else ("", None)


def serves(record: Record) -> Iterator[Threshold]:
    for system in (US, f"{US}-async"):
        for rank in ("p50", "p99"):
            late = record.ratio("pickup", f"{rank}_ms", system, RIVAL)
            yield Threshold(f"{system}: pickup {rank}, against {RIVAL}'s", late, 1, "×", at_most=True)
    yield Threshold("idle worker", record.median("idle", US, "statements"), 3, "statements/s", at_most=True)


def holds(record: Record) -> Iterator[Threshold]:
    kept = typical(record.values("hold", US, "last_rate"), record.values("hold", US, "first_rate"))
    said = "with a transaction held open, the last jobs, of the rate of the first"
    yield Threshold(said, percent(kept), 85, "%")
