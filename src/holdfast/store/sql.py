"""SQL is source: one `.sql` file per verb, read once, with its `:named` parameters turned into what a driver takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

_PARAMETER = re.compile(r"'[^']*'|--[^\n]*|(?<!:):([a-z_]+)")
_COMMENT = re.compile(r"\s*--[^\n]*")


class Sql(NamedTuple):
    """One verb: the text as written, the same with numbered parameters, and the parameters' names in that order."""

    text: str
    numbered: str
    names: tuple[str, ...]


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

    return Sql(text, _PARAMETER.sub(number, text), tuple(names))


def values(sql: Sql, parameters: Mapping[str, Any]) -> tuple[Any, ...]:
    """The parameters in the order of the numbered text."""
    return tuple([parameters[name] for name in sql.names])
