"""The figures as a person reads them, and as JSON."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.ground import RESULTS, Figures
from bench.measure import Record
from bench.plan import Sizes
from bench.systems import Entry
from bench.thresholds import US, Threshold, spaced

METERED = (("one", "one by one"), ("bulk", "in bulk"), ("drain1", "drain"))
# measure, figure, what it is called
ROWS = (
    ("one", "rate", "enqueue one by one /s"),
    ("threads", "rate", "enqueue, 16 threads /s"),
    ("bulk", "rate", "enqueue in bulk /s"),
    ("drain1", "rate", "drain, 1 worker /s"),
    ("drain2", "rate", "drain, 2 workers /s"),
    ("drain1", "cpu_us", "CPU of the worker µs/job"),
    ("drain1", "server_us_per_job", "CPU of the server µs/job"),
    ("drain2", "server_us_per_job", "CPU of the server, 2 workers µs/job"),
    *((measure, "wal_per_job", f"WAL, {name} bytes/job") for measure, name in METERED),
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

BUSY = "NOT A QUIET RUN: others used the machine, which favours whoever commits in batches; repeat it alone"
NOTE = (
    "  * from the first job after a start on a standing backlog to the 500th (sustained: many more). Compare a column\n"
    "    with itself: whoever claims in batches is flattered by the last one, whose end is not in it"
)

Row = tuple[str, str, str]


def rows(record: Record) -> list[Row]:
    return [row for row in (*ROWS, *levels(record), *LONG_ROWS) if any(has(samples, row[1]) for samples in of(record, row[0]))]


def of(record: Record, measure: str) -> Iterable[Sequence[Figures]]:
    return record.measures.get(measure, {}).values()


def has(samples: Sequence[Figures], figure: str) -> bool:
    return any(figure in figures for figures in samples)


def levels(record: Record) -> list[Row]:
    split = [(measure, *measure.split(", ")) for measure in record.measures if ", " in measure]
    return [(measure, "rate", f"{kind}, {spaced(level)} /s *") for measure, kind, level in split]


def text(record: Record, entries: Sequence[Entry], promised: Sequence[Threshold], about: str) -> str:
    names = [entry.name for entry in entries]
    parts = [
        "Medians over the rounds",
        table(["", *names], figures(record, names)),
        *([NOTE] if levels(record) else []),
        f"{US} as a multiple of each, and as % of the limit (round by round, then the median)",
        table(["", *[name for name in names if name != US]], ratios(record, names)),
        "Thresholds" if record.quiet else f"Thresholds ({BUSY})",
        table(["", "", "measured", "bound", "goal"], map(verdict, promised)),
        "Surroundings, before the run and after each measure (load counts the benchmark too)",
        table(
            ["", "load", "others % CPU", "sync ms"],
            ([name, *map(number, seen.values())] for name, seen in record.surroundings.items()),
        ),
        "Settings",
        "\n".join([f"  {about}", *(f"  {entry.name}: {entry.settings}" for entry in entries)]),
    ]
    if record.failures:
        parts += ["Failed", "\n".join(f"  {what}: {why}" for what, why in record.failures.items())]
    return "\n\n".join(parts)


def figures(record: Record, names: Sequence[str]) -> Iterable[list[str]]:
    for measure, figure, label in rows(record):
        yield [label, *[number(record.median(measure, name, figure)) for name in names]]


def ratios(record: Record, names: Sequence[str]) -> Iterable[list[str]]:
    for measure, figure, label in rows(record):
        if comparable(measure, figure) and record.values(measure, US, figure):
            yield [label, *[ratio(record, measure, figure, name) for name in names if name != US]]


def comparable(measure: str, figure: str) -> bool:
    return figure not in ("runs_too_many", "return_seconds") and ", " not in measure


def ratio(record: Record, measure: str, figure: str, other: str) -> str:
    value = record.ratio(measure, figure, US, other)
    if value is None:
        return "–"
    return f"{value:.0%}" if other.startswith("limit") else f"{value:.2f} ×"


def verdict(threshold: Threshold) -> list[str]:
    word = {None: "not measured", True: "pass", False: "FAIL"}[threshold.met]
    sign = "≤" if threshold.at_most else "≥"
    measured = "–" if threshold.value is None else f"{number(threshold.value)} {threshold.unit}"
    goal = "" if threshold.goal is None else f"{sign} {number(threshold.goal)} {threshold.unit}"
    if threshold.goal is not None and threshold.met and threshold.reaches(threshold.goal):
        goal += " reached"
    return [threshold.text, word, measured, f"{sign} {number(threshold.bound)} {threshold.unit}", goal]


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    lines = [list(head), *map(list, body)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  "
        + line[0].ljust(widths[0])
        + "".join("  " + cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        for line in lines
    )


def document(
    record: Record, entries: Sequence[Entry], sizes: Sizes, promised: Sequence[Threshold], about: str, seconds: float
) -> dict[str, Any]:
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 1),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "database": about,
        },
        "surroundings": record.surroundings,
        "quiet": record.quiet,
        "sizes": {name: getattr(sizes, name) for name in sizes.__slots__},
        "settings": {entry.name: entry.settings for entry in entries},
        "rounds": record.measures,
        "medians": {
            label: {entry.name: record.median(measure, entry.name, figure) for entry in entries}
            for measure, figure, label in rows(record)
        },
        "thresholds": [
            {"text": one.text, "value": one.value, "bound": one.bound, "goal": one.goal, "unit": one.unit, "met": one.met}
            for one in promised
        ],
        "failures": record.failures,
    }


def write(path: Path | None, content: dict[str, Any]) -> Path:
    path = path or RESULTS / time.strftime("bench-%Y%m%d-%H%M%S.json", time.gmtime())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path
