"""Before and after in one run: each Holdfast entry a second time, with the code of another checkout.

Both take part as any other system does, so that their rounds alternate and what slows the machine slows both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from bench.checkout import revision
from bench.systems import Entry

BEFORE = " (before)"
PACKAGE = "holdfast"


def beside(entries: Iterable[Entry], checkout: Path) -> Iterator[Entry]:
    """Each Holdfast entry is followed by its twin."""
    for entry in entries:
        if entry.package == PACKAGE:
            yield dated(entry)
            yield dated(replace(entry, name=entry.name + BEFORE, checkout=checkout))
        else:
            yield entry


def dated(entry: Entry) -> Entry:
    return replace(entry, settings=f"{entry.settings}; the code of {entry.checkout} ({revision(entry.checkout)})")


def is_before(name: str) -> bool:
    return name.endswith(BEFORE)


def twins(entries: Iterable[Entry]) -> list[list[Entry]]:
    """In groups that are measured side by side: an entry and its twin, or an entry alone."""
    return [list(group) for _, group in groupby(entries, lambda entry: entry.name.removesuffix(BEFORE))]
