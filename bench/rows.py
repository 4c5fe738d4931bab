"""The rows of the report: which figure of which measure, and what it is called.

A rate stands beside what a job costs at that rate: the processor time of the client or worker, and of the server if there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bench.ground import Figures
from bench.measure import Record
from bench.plan import PLAIN, SPECIAL_TEXTS
from bench.thresholds import spaced

Row = tuple[str, str, str]  # measure, figure, what it is called


def rated(measure: str, rate: str, who: str, what: str) -> Iterator[Row]:
    yield measure, "rate", f"{rate} /s"
    yield measure, "cpu_us", f"CPU of the {who}, {what} µs/job"
    yield measure, "server_us_per_job", f"CPU of the server, {what} µs/job"


def specials() -> Iterator[Row]:
    for kind, what in {PLAIN: "plain, in the same rounds", **SPECIAL_TEXTS}.items():
        yield from rated(f"special {kind}", f"enqueue in bulk, {what}", "enqueuer", f"in bulk, {what}")


METERED = (("one", "one by one"), ("bulk", "in bulk"), ("drain1", "drain"))
SPECIAL = tuple((f"special {kind}", f"in bulk, {what}") for kind, what in SPECIAL_TEXTS.items())
ROWS = (
    *rated("one", "enqueue one by one", "enqueuer", "one by one"),
    *rated("threads", "enqueue, 16 threads", "enqueuer", "16 threads"),
    *rated("bulk", "enqueue in bulk", "enqueuer", "in bulk"),
    *specials(),
    *rated("drain1", "drain, 1 worker", "worker", "drain, 1 worker"),
    *rated("drain2", "drain, 2 workers", "workers", "drain, 2 workers"),
    *((measure, "wal_per_job", f"WAL, {name} bytes/job") for measure, name in (*METERED, *SPECIAL)),
    *((measure, "commits_per_job", f"commits, {name} /job") for measure, name in METERED),
    ("drain1", "return_seconds", "last job until the worker returns s"),
    ("drain2", "runs_too_many", "jobs run twice by 2 workers"),
    ("pickup", "p50_ms", "pickup p50 ms"),
    ("pickup", "p99_ms", "pickup p99 ms"),
    ("idle", "cpu_percent", "idle worker % CPU"),
    ("idle", "statements", "idle worker statements/s"),
    ("hold", "first_rate", "drain, transaction held: first jobs /s"),
    ("hold", "last_rate", "drain, transaction held: last jobs /s"),
)
LONG_ROWS = (
    ("long enqueue", "rate", "long run: enqueue /s"),
    ("long drain", "rate", "long run: drain /s"),
    ("long enqueue", "tenth_mb", "long run: enqueuer MB, after a tenth"),
    ("long enqueue", "peak_mb", "long run: enqueuer MB, at the end"),
    ("long drain", "tenth_mb", "long run: worker MB, after a tenth"),
    ("long drain", "peak_mb", "long run: worker MB, at the end"),
)


def rows(record: Record) -> list[Row]:
    return [row for row in (*ROWS, *levels(record), *LONG_ROWS) if any(has(samples, row[1]) for samples in of(record, row[0]))]


def of(record: Record, measure: str) -> Iterable[Sequence[Figures]]:
    return record.measures.get(measure, {}).values()


def has(samples: Sequence[Figures], figure: str) -> bool:
    return any(figure in figures for figures in samples)


def levels(record: Record) -> list[Row]:
    split = [(measure, *measure.split(", ")) for measure in record.measures if ", " in measure]
    return [(measure, "rate", f"{kind}, {spaced(level)} /s *") for measure, kind, level in split]


def more_is_better(figure: str) -> bool:
    """Rates; all else is time, processor time, memory, log, commits or statements."""
    return figure.endswith("rate")
