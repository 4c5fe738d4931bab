"""How the text of a verb becomes what a driver takes."""

from __future__ import annotations

import re

import pytest

from holdfast.store import postgres, sqlite
from holdfast.store.sql import compile_sql, load

SQL = "SELECT :first, ':not', :second::bigint, :first -- :nor this"


@pytest.mark.parametrize("verb", sorted(load(sqlite.__name__)))
def test_f22_no_statement_of_sqlite_has_a_numbered_parameter(verb: str) -> None:
    """Python 3.12.1 warns of `?1` with a sequence, as of a named parameter, and means to refuse those."""
    sql = load(sqlite.__name__)[verb]
    assert not re.search(r"\?[0-9]", sql.positional)
    assert sql.positional.count("?") == len(sql.names)


def test_f22_every_use_of_a_parameter_gets_its_value() -> None:
    sql = compile_sql(SQL)
    assert sql.positional.startswith("SELECT ?, ':not', ?::bigint, ?")
    assert sql.values({"first": 1, "second": 2}) == (1, 2, 1)


def test_in_postgresql_a_parameter_is_sent_once() -> None:
    sql = compile_sql(SQL, "$")
    assert sql.positional.startswith("SELECT $1, ':not', $2::bigint, $1")
    assert sql.values({"first": 1, "second": 2}) == (1, 2)
    assert any("$1" in each.positional for each in load(postgres.__name__, "$").values())
