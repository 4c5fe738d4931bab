"""SQL is source: one `.sql` file per verb, read once, with its `:named` parameters turned into what a driver takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from operator import itemgetter
from typing import Any, NamedTuple

_PARAMETER = re.compile(r"'[^']*'|--[^\n]*|(?<!:):([a-z_]+)")
_LONG = frozenset({"arguments", "changes", "errors", "events", "results"})
_COMMENT = re.compile(r"\s*--[^\n]*")


Values = Callable[[Mapping[str, Any]], tuple[Any, ...]]


class Sql(NamedTuple):
    """One verb: the text as written, the same with numbered parameters, and the parameters' names in that order."""

    text: str
    numbered: str
    names: tuple[str, ...]
    values: Values
    """Takes the parameters by name, gives them in that order."""
    long: tuple[int, ...]
    """Which of them may be much text."""


@cache
def load(package: str) -> dict[str, Sql]:
    """All verbs of one database, by file name without `.sql`."""
    folder = resources.files(package).joinpath("sql")
    files = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return {file.name.removesuffix(".sql"): compile_sql(file.read_text(encoding="utf-8")) for file in files}


def compile_sql(source: str) -> Sql:
    text = _COMMENT.sub("", source).strip().rstrip(";")
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return match.group(0)
        if name not in names:
            names.append(name)
        return f"?{names.index(name) + 1}"

    numbered = _PARAMETER.sub(number, text)
    long = tuple(index for index, name in enumerate(names) if name in _LONG)
    return Sql(text, numbered, tuple(names), _values(tuple(names)), long)


def _values(names: tuple[str, ...]) -> Values:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda parameters: tuple([parameters[name] for name in names])
