"""SQL is source: one `.sql` file per verb, read once, with its `:named` parameters turned into what a driver takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from operator import itemgetter
from typing import Any, Final, NamedTuple

SCHEMA: Final = "holdfast"
"""Where the tables are in a database that has schemas, unless another was asked for; `.sql` files say this one."""

_PARAMETER = re.compile(r"'[^']*'|--[^\n]*|(?<!:):([a-z_]+)")
_LONG = frozenset({"arguments", "changes", "errors", "events", "results"})
_COMMENT = re.compile(r"\s*--[^\n]*")
_IN_SCHEMA = re.compile(rf"(?<![\w.\"]){SCHEMA}\.(?=[a-z_])")


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

    @property
    def named(self) -> str:
        """The same for drivers that take `%(name)s`."""
        return _PARAMETER.sub(_pyformat, self.text.replace("%", "%%"))


@cache
def load(package: str, mark: str = "?", schema: str = SCHEMA) -> dict[str, Sql]:
    """All verbs of one database, by file name without `.sql`; `mark` is what it writes before a parameter's number."""
    folder = resources.files(package).joinpath("sql")
    files = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    texts = {file.name.removesuffix(".sql"): in_schema(file.read_text(encoding="utf-8"), schema) for file in files}
    return {verb: compile_sql(text, mark) for verb, text in texts.items()}


def in_schema(source: str, schema: str) -> str:
    """The same with all that is ours in another schema."""
    return source if schema == SCHEMA else _IN_SCHEMA.sub(f'"{schema}".', source)


def compile_sql(source: str, mark: str = "?") -> Sql:
    text = _COMMENT.sub("", source).strip().rstrip(";")
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return match.group(0)
        if name not in names:
            names.append(name)
        return f"{mark}{names.index(name) + 1}"

    numbered = _PARAMETER.sub(number, text)
    long = tuple(index for index, name in enumerate(names) if name in _LONG)
    return Sql(text, numbered, tuple(names), _values(tuple(names)), long)


def _pyformat(match: re.Match[str]) -> str:
    return match.group(0) if match.group(1) is None else f"%({match.group(1)})s"


def _values(names: tuple[str, ...]) -> Values:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda parameters: tuple([parameters[name] for name in names])
