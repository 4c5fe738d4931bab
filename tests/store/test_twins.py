"""The two databases have the same verbs, with the same parameters and columns; `store/tables` lists the tables of both."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.store import sqlite
from holdfast.store.postgres.schema import verbs
from holdfast.store.sql import Sql, load
from holdfast.store.sqlite.schema import PACKAGE
from holdfast.store.sqlite.steps import STEPS
from holdfast.store.tables import TABLES
from tests.servers import migrated_database, plain

FOLDER: Final = Path(sqlite.__file__).parent
SQLITE, POSTGRES = load(PACKAGE), verbs()
OWN: Final = {path.stem for path in (FOLDER / "sql").glob("*.sql")}
TIME, PLACE = {"booted", "now"}, {"cursor"}
ONE_SIDED: Final = {
    "expired_claims": TIME, "forget_workers": TIME, "known_workers": TIME, "stale_workers": TIME, "worker_loads": TIME,
    "lock_job": {"id"}, "lock_key": {"id"}, "ready_lanes": PLACE, "work_to_do": PLACE | {"booted"},
}  # fmt: skip
"""Parameters that one database does not need: its lease clock has no boots, it locks no rows, its claims begin at the start."""
IDENTITY: Final = "identity"
"""What tells whether two connections lead to one database: a file's name, or the server's and its schemas'."""
EXTRA: Final = {"job_spec": {"tx"}, "event": {"tx", "position"}}
"""Columns that only one database has: they order what was committed."""
UNLISTED: Final = {"counter", "server_epoch", "migration"}
"""Tables of one database's own, and the record of the migrations."""

Raw = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path = tmp_path_factory.mktemp("twins") / "jobs.db"
    with Holdfast(f"sqlite:///{path}") as app:
        app.migrate()
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        yield raw


@pytest.fixture(scope="module")
def server() -> Iterator[Raw]:
    with migrated_database() as url, psycopg.connect(plain(url)) as raw:
        yield raw


def test_both_databases_have_the_same_verbs() -> None:
    assert not OWN & STEPS.keys()
    assert OWN | STEPS.keys() == POSTGRES.keys()


def test_every_step_is_a_part_of_a_verb() -> None:
    yielded = set(re.findall(r'"(\w+)"', (FOLDER / "steps.py").read_text()))
    files = {path.stem for path in (FOLDER / "steps").glob("*.sql")} - {"lock"}  # `lock` is the driver's
    assert files <= yielded


@pytest.mark.parametrize("verb", sorted(OWN))
def test_a_verb_takes_and_answers_the_same(verb: str, file: sqlite3.Connection, server: Raw) -> None:
    one, other = SQLITE[verb], POSTGRES[verb]
    assert set(one.names) ^ set(other.names) == ONE_SIDED.get(verb, set())
    assert one.answers == other.answers
    if not one.answers or verb == IDENTITY:
        return
    ours, theirs = columns_in_sqlite(file, one), columns_in_postgres(server, other)
    assert len(ours) == len(theirs)
    for own, their in zip(ours, theirs, strict=True):
        assert own == their or not own.isidentifier()  # SQLite names an expression by its text


def columns_in_sqlite(raw: sqlite3.Connection, sql: Sql) -> list[str]:
    raw.execute("BEGIN")
    try:
        return [column[0] for column in raw.execute(sql.positional, [0] * len(sql.names)).description or ()]
    finally:
        raw.execute("ROLLBACK")


def columns_in_postgres(raw: Raw, sql: Sql) -> list[str]:
    prepared = raw.pgconn.prepare(b"", sql.positional.encode())
    assert not prepared.error_message
    described = raw.pgconn.describe_prepared(b"")
    return [(described.fname(index) or b"").decode() for index in range(described.nfields)]


def test_the_table_of_tables_has_every_table_and_column(file: sqlite3.Connection, server: Raw) -> None:
    for found in (tables_in_sqlite(file), tables_in_postgres(server)):
        assert found.keys() - UNLISTED == {table.name for table in TABLES}
        for table in TABLES:
            assert found[table.name] - EXTRA.get(table.name, set()) == set(table.columns), table.name


def tables_in_sqlite(raw: sqlite3.Connection) -> dict[str, set[str]]:
    names = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast_%'")]
    return {
        name.removeprefix("holdfast_"): {row[0] for row in raw.execute("SELECT name FROM pragma_table_info(?)", (name,))}
        for name in names
    }


def tables_in_postgres(raw: Raw) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for table, column in raw.execute(
        "SELECT tablename, column_name FROM pg_tables"
        "  JOIN information_schema.columns ON table_schema = schemaname AND table_name = tablename"
        " WHERE schemaname = 'holdfast'"
    ):
        found.setdefault(table, set()).add(column)
    return found
