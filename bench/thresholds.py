"""What we promise of a run, as figures: each promise is a value read from the record and its bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.measure import Record, typical
from bench.plan import PLAIN, SPECIAL_TEXTS, Sizes

US = "holdfast"
MEMORY_GROWTH_MB = 32.0


@dataclass(frozen=True, slots=True)
class Threshold:
    text: str
    value: float | None
    bound: float
    unit: str
    at_most: bool = False
    goal: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.value is None else self.reaches(self.bound)

    def reaches(self, bound: float) -> bool:
        assert self.value is not None
        return self.value <= bound if self.at_most else self.value >= bound


def on_sqlite(record: Record, sizes: Sizes) -> list[Threshold]:
    return [*drains(record), *enqueues(record), *specials(record), *serves(record), *claims(record, sizes), *memory(record)]


def drains(record: Record) -> Iterator[Threshold]:
    for system in (US, f"{US}-async"):
        huey = record.ratio("drain1", "rate", system, "huey")
        limit = percent(record.ratio("drain1", "rate", system, "limit"))
        yield Threshold(f"{system}: drain, one worker, against huey", huey, 15, "×", goal=25)
        yield Threshold(f"{system}: drain, one worker, of the limit", limit, 35, "%", goal=50)
        equal = percent(record.ratio("drain1", "rate", system, "limit-500"))
        yield Threshold(f"{system}: drain, one worker, of the limit at our batch size", equal, 35, "%", goal=50)


def enqueues(record: Record) -> Iterator[Threshold]:
    yield Threshold("bulk enqueue", record.median("bulk", US, "rate"), 100_000, "/s")
    plain = percent(record.ratio("one", "rate", US, "limit"))
    yield Threshold("one by one, of a plain FULL insert", plain, 80, "%")
    many, single = record.median("threads", US, "rate"), record.median("one", US, "rate")
    yield Threshold("16 threads, against one", many / single if many and single else None, 3, "×")


def specials(record: Record) -> Iterator[Threshold]:
    """Against the plain bulk of the same round."""
    plain = record.values(f"special {PLAIN}", US, "rate")
    for kind, what in SPECIAL_TEXTS.items():
        kept = percent(typical(record.values(f"special {kind}", US, "rate"), plain))
        yield Threshold(f"bulk enqueue {what}, of plain bulk", kept, 40, "%")


def serves(record: Record) -> Iterator[Threshold]:
    for system in (US, f"{US}-async"):
        yield Threshold(f"{system}: pickup p50", record.median("pickup", system, "p50_ms"), 3, "ms", at_most=True)
        yield Threshold(f"{system}: pickup p99", record.median("pickup", system, "p99_ms"), 10, "ms", at_most=True)
    yield Threshold("idle worker", record.median("idle", US, "cpu_percent"), 1, "% CPU", at_most=True)


def claims(record: Record, sizes: Sizes) -> Iterator[Threshold]:
    """Twice: over the first 500 jobs after a start, and over many, where the start does not hide the claim."""
    for measure, least in (("claim", sizes.backlogs[0]), ("sustained", sizes.sustained)):
        for level in sizes.levels:
            kept = percent(kept_at(record, measure, level, f"ready {least}"))
            yield Threshold(f"{measure} rate, {spaced(level)}, of that with {least:,}", kept, 90, "%")


def kept_at(record: Record, measure: str, level: str, least: str) -> float | None:
    rates = record.values(f"{measure}, {level}", US, "rate"), record.values(f"{measure}, {least}", US, "rate")
    return typical(*rates)


def spaced(level: str) -> str:
    state, jobs = level.split()
    return f"{int(jobs):,} {state}"


def memory(record: Record) -> Iterator[Threshold]:
    """Bounded: between a tenth of the long run and its end, the peak grows by no more than a fixed amount."""
    for measure, who in (("long enqueue", "enqueuer"), ("long drain", "worker")):
        peak, tenth = record.median(measure, US, "peak_mb"), record.median(measure, US, "tenth_mb")
        growth = peak - tenth if peak is not None and tenth is not None else None
        yield Threshold(f"memory of the {who} after a tenth of the long run", growth, MEMORY_GROWTH_MB, "MB more", True)


def percent(ratio: float | None) -> float | None:
    return None if ratio is None else ratio * 100
