"""After as a ratio of before, for a person and for the JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from bench.against import BEFORE, is_before
from bench.measure import Record, quotients
from bench.rows import more_is_better, rows

TITLE = (
    "After as a ratio of before (round by round, then the median; in brackets the lowest and the highest round).\n"
    "  Better says which way: 1.10 × is 10 % faster in a row with 'more', and 10 % dearer or slower in one with 'less'"
)


def twice(names: Sequence[str]) -> list[str]:
    """The systems that were measured twice."""
    return [name for name in names if name + BEFORE in names]


def without_before(names: Sequence[str]) -> list[str]:
    return [name for name in names if not is_before(name)]


def lines(record: Record, names: Sequence[str]) -> Iterator[list[str]]:
    for measure, figure, label in rows(record):
        ratios = [of(record, measure, figure, name) for name in twice(names)]
        if any(ratios):
            yield [label, better(figure), *map(cell, ratios)]


def of(record: Record, measure: str, figure: str, name: str) -> list[float]:
    return quotients(record.values(measure, name, figure), record.values(measure, name + BEFORE, figure))


def better(figure: str) -> str:
    return "more" if more_is_better(figure) else "less"


def cell(ratios: Sequence[float]) -> str:
    if not ratios:
        return "–"
    spread = f"{min(ratios):.2f}–{max(ratios):.2f}" if len(ratios) > 1 else "one round"
    return f"{median(ratios):.2f} × ({spread})"


def document(record: Record, names: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for measure, figure, label in rows(record):
        ratios = {name: of(record, measure, figure, name) for name in twice(names)}
        systems = {name: {"median": median(values), "rounds": values} for name, values in ratios.items() if values}
        if systems:
            found[label] = {"better": better(figure), "systems": systems}
    return found
