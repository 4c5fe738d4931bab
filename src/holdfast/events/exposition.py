"""Metrics as text, in Prometheus' format 0.0.4: what a scraper reads."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})

Labels = tuple[str, ...]


class Metric(NamedTuple):
    """What a metric is called, what it counts, and by what."""

    name: str
    kind: str
    help: str
    labels: Labels = ()


class Histogram:
    """How many observations were at or below each bound, and their sum."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def lines(self, metric: Metric, labels: Labels) -> Iterator[str]:
        below = 0
        for bound, count in zip((*(str(float(bound)) for bound in self._bounds), "+Inf"), self._counts, strict=True):
            below += count
            yield _line(f"{metric.name}_bucket", (*metric.labels, "le"), (*labels, bound), below)
        yield _line(f"{metric.name}_sum", metric.labels, labels, self.total)
        yield _line(f"{metric.name}_count", metric.labels, labels, below)


def family(metric: Metric, values: Mapping[Labels, float | Histogram]) -> Iterator[str]:
    """All lines about one metric."""
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in sorted(values.items(), key=lambda item: item[0]):
        if isinstance(value, Histogram):
            yield from value.lines(metric, labels)
        else:
            yield _line(metric.name, metric.labels, labels, value)


def document(lines: Iterable[str]) -> str:
    return "\n".join([*lines, ""])


def _line(name: str, names: Labels, values: Labels, number: float) -> str:
    pairs = ",".join(f'{label}="{value.translate(_ESCAPED)}"' for label, value in zip(names, values, strict=True))
    return f"{name}{{{pairs}}} {_number(number)}" if pairs else f"{name} {_number(number)}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
