"""What a doctor finds: one line per thing looked at, and for some databases more, for `--json` and for a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.cli.screen import Column


class Check(NamedTuple):
    name: str
    status: str
    """ok, warning or failed"""
    detail: str


class Surroundings(NamedTuple):
    """The database as such, whatever its jobs are."""

    checks: Sequence[Check]
    facts: Mapping[str, Any] = {}
    """Further keys of the document."""
    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[str]] = ()


def size(count: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"
