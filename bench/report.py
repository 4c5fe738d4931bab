"""The figures as a person reads them, and as JSON."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench import against_report
from bench.ground import RESULTS
from bench.measure import Record
from bench.plan import Sizes
from bench.rows import levels, rows
from bench.systems import Entry
from bench.thresholds import US, Threshold

NOTHING = "–"
BUSY = "NOT A QUIET RUN: others used the machine, which favours whoever commits in batches; repeat it alone"
NOTE = (
    "  * from the first job after a start on a standing backlog to the 500th (sustained: many more). Compare a column\n"
    "    with itself: whoever claims in batches is flattered by the last one, whose end is not in it"
)


def text(record: Record, entries: Sequence[Entry], promised: Sequence[Threshold], about: str) -> str:
    names = [entry.name for entry in entries]
    parts = [
        "Medians over the rounds",
        table(["", *names], figures(record, names)),
        *([NOTE] if levels(record) else []),
        *against_before(record, names),
        *against_others(record, names),
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


def against_before(record: Record, names: Sequence[str]) -> list[str]:
    twice = against_report.twice(names)
    return [against_report.TITLE, table(["", "better", *twice], against_report.lines(record, names))] if twice else []


def against_others(record: Record, names: Sequence[str]) -> list[str]:
    others = [name for name in against_report.without_before(names) if name != US]
    title = f"{US} as a multiple of each, and as % of the limit (round by round, then the median)"
    return [title, table(["", *others], ratios(record, others))] if others else []


def ratios(record: Record, others: Sequence[str]) -> Iterable[list[str]]:
    for measure, figure, label in rows(record):
        cells = [ratio(record, measure, figure, name) for name in others]
        if comparable(measure, figure) and set(cells) != {NOTHING}:
            yield [label, *cells]


def comparable(measure: str, figure: str) -> bool:
    return figure not in ("runs_too_many", "return_seconds") and ", " not in measure


def ratio(record: Record, measure: str, figure: str, other: str) -> str:
    value = record.ratio(measure, figure, US, other)
    if value is None:
        return NOTHING
    return f"{value:.0%}" if other.startswith("limit") else f"{value:.2f} ×"


def verdict(threshold: Threshold) -> list[str]:
    word = {None: "not measured", True: "pass", False: "FAIL"}[threshold.met]
    sign = "≤" if threshold.at_most else "≥"
    measured = NOTHING if threshold.value is None else f"{number(threshold.value)} {threshold.unit}"
    goal = "" if threshold.goal is None else f"{sign} {number(threshold.goal)} {threshold.unit}"
    if threshold.goal is not None and threshold.met and threshold.reaches(threshold.goal):
        goal += " reached"
    return [threshold.text, word, measured, f"{sign} {number(threshold.bound)} {threshold.unit}", goal]


def number(value: float | None) -> str:
    if value is None:
        return NOTHING
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
        "after_of_before": against_report.document(record, [entry.name for entry in entries]),
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
