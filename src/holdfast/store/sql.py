"""SQL is source: one `.sql` file per verb, read once, with its `:named` parameters turned into what a driver takes.

What the drivers need to know about a verb is read from its text: whether rows come back, and which processes wait for what it
writes. In PostgreSQL's files `{schema}` stands for the schema that holds our tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

SCHEMA: Final = "holdfast"
"""Where the tables are in a database that has schemas, unless the URL names another."""
FOLDERS: Final = ("sql", "steps")
"""The verbs that both databases have, and the statements that only one of them needs to run such a verb."""

_PARAMETER: Final = re.compile(r"'[^']*'|--[^\n]*|(?<!:):([a-z_]+)")
_LONG: Final = frozenset({"arguments", "changes", "errors", "events", "jobs", "results"})
_COMMENT: Final = re.compile(r"\s*--[^\n]*")
_TOKEN: Final = re.compile(r"'[^']*'|[()]|\b(SELECT|INSERT|UPDATE|DELETE)\b")
_WRITTEN: Final = re.compile(r"\b(INSERT INTO|UPDATE|DELETE FROM)\s+(?:\{schema\}\.|holdfast_)(\w+)")
_WORK: Final = frozenset({"ready", "scheduled", "notice"})
_NEWS: Final = frozenset({"job_spec", "job_state", "event"})

Values = Callable[[Mapping[str, Any]], tuple[Any, ...]]
Wakes = Literal["workers", "followers"]


class Sql(NamedTuple):
    """One verb: the text as written, the same with parameters by place, and the parameters' names in that order."""

    text: str
    positional: str
    names: tuple[str, ...]
    values: Values
    """Takes the parameters by name, gives them in that order."""
    long: tuple[int, ...]
    """Which of them may be much text."""
    answers: bool
    """Whether rows come back."""
    wakes: Wakes | None
    """`workers`: it brings work, now or later. `followers`: it moves a job or adds to its log, and brings no work."""

    @property
    def named(self) -> str:
        """The same for drivers that take `%(name)s`."""
        return _PARAMETER.sub(_pyformat, self.text.replace("%", "%%"))


@cache
def load(package: str, mark: str = "?", schema: str = SCHEMA) -> dict[str, Sql]:
    """All verbs of one database, by file name without `.sql`.

    mark  "?": every use of a parameter has a place of its own, for Python 3.12 warns of `?1`; else what stands before its number
    """
    folders = [folder for name in FOLDERS if (folder := resources.files(package).joinpath(name)).is_dir()]
    files = [file for folder in folders for file in folder.iterdir() if file.name.endswith(".sql")]
    return {file.name.removesuffix(".sql"): compile_sql(file.read_text(encoding="utf-8"), mark, schema) for file in files}


def in_schema(source: str, schema: str) -> str:
    return source.replace("{schema}", schema if schema == SCHEMA else f'"{schema}"')


def compile_sql(source: str, mark: str = "?", schema: str = SCHEMA) -> Sql:
    source = _COMMENT.sub("", source).strip().rstrip(";")
    text = in_schema(source, schema)
    names: list[str] = []

    def place(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return match.group(0)
        if name not in names or mark == "?":
            names.append(name)
        return mark if mark == "?" else f"{mark}{names.index(name) + 1}"

    positional = _PARAMETER.sub(place, text)
    long = tuple(index for index, name in enumerate(names) if name in _LONG)
    return Sql(text, positional, tuple(names), _values(tuple(names)), long, _answers(text), _wakes(source))


def _answers(text: str) -> bool:
    """Whether the statement itself, behind what stands in WITH, is a SELECT or has a RETURNING clause."""
    depth = 0
    for token in _TOKEN.finditer(text):
        if token.group() in "()":
            depth += 1 if token.group() == "(" else -1
        elif depth == 0 and token.group(1):
            return token.group(1) == "SELECT" or "RETURNING" in text[token.start() :]
    return False


def _wakes(source: str) -> Wakes | None:
    written = _WRITTEN.findall(source)
    if any(how == "INSERT INTO" and table in _WORK for how, table in written):
        return "workers"
    return "followers" if any(table in _NEWS for _, table in written) else None


def _pyformat(match: re.Match[str]) -> str:
    return match.group(0) if match.group(1) is None else f"%({match.group(1)})s"


def _values(names: tuple[str, ...]) -> Values:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda parameters: tuple([parameters[name] for name in names])
