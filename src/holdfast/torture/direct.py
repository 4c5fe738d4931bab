"""Direct connections to the tortured database: those of a user's program, of the checker and of the controlling process.

Queries are written for SQLite (`holdfast_job`, `?`) and translated for PostgreSQL (`holdfast.job`, `%s`).
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

ORDER: Final = "torture_order"
EFFECT: Final = "torture_effect"
TABLES: Final = (
    f"CREATE TABLE {ORDER} (call TEXT PRIMARY KEY)",
    f"CREATE TABLE {EFFECT} (call TEXT NOT NULL, token INTEGER NOT NULL)",
)
ANSWER_SECONDS: Final = 5


def connect(url: str) -> Direct:
    """In autocommit mode."""
    return DirectPostgres(url) if is_postgres(url) else DirectSqlite(url)


def is_postgres(url: str) -> bool:
    return url.startswith(("postgresql:", "postgres:"))


_idle: list[Direct] = []
os.register_at_fork(after_in_child=_idle.clear)


@contextmanager
def direct(url: str) -> Iterator[Direct]:
    """A connection for the block. One to a server is used again, as in a pool, unless the block has raised."""
    try:
        connection = _idle.pop()
    except IndexError:
        connection = connect(url)
    try:
        yield connection
    except BaseException:
        connection.close()
        raise
    if is_postgres(url):
        _idle.append(connection)
    else:
        connection.close()


class DirectSqlite:
    """Without automatic checkpoints: those are left to Holdfast."""

    def __init__(self, url: str) -> None:
        path = url.removeprefix("sqlite:///")
        self.raw = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False)
        self.raw.execute("PRAGMA wal_autocheckpoint = 0")

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        return self.raw.execute(query, values)

    def begin(self) -> None:
        self.raw.execute("BEGIN IMMEDIATE")

    def close(self) -> None:
        self.raw.close()


class DirectPostgres:
    """Every answer is waited for at most ANSWER_SECONDS, also when the network is silent."""

    def __init__(self, url: str) -> None:
        from holdfast.store.postgres.bounded import Bounded
        from holdfast.store.postgres.url import location_of

        hosts = {"target_session_attrs": "read-write"} if "," in url.partition("?")[0] else {}
        self.raw = Bounded.connect(
            location_of(url).conninfo,
            autocommit=True,
            application_name="torture",
            connect_timeout=ANSWER_SECONDS,
            options=f"-c statement_timeout={ANSWER_SECONDS}s -c idle_in_transaction_session_timeout={ANSWER_SECONDS}s",
            **hosts,  # type: ignore[arg-type]
        )
        self.raw.bound_seconds = ANSWER_SECONDS

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        return self.raw.execute(for_postgres(query), values or None)

    def begin(self) -> None:
        self.raw.execute("BEGIN")

    def close(self) -> None:
        self.raw.close()


Direct = DirectSqlite | DirectPostgres
"""`raw` is the connection of the database library: the value for on=."""


def for_postgres(query: str) -> str:
    return re.sub(r"\bholdfast_(\w+)", r"holdfast.\1", query).replace("?", "%s")


def problems(connection: Direct) -> list[str]:
    """The damage that the database itself can find."""
    if isinstance(connection, DirectSqlite):
        return [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    indexes = connection.execute(_INDEXES).fetchall()
    return [problem for table, index, columns in indexes for problem in _differing(connection, table, index, columns)]


# amcheck is not in every installation of PostgreSQL. Plain SQL shows what matters here: that every row can be read, and that
# each unique index has exactly the rows of its table.
_INDEXES: Final = """
SELECT indrelid::regclass::text, indexrelid::regclass::text,
       (SELECT string_agg(quote_ident(attname), ', ' ORDER BY position)
          FROM unnest(indkey::smallint[]) WITH ORDINALITY AS part(number, position)
          JOIN pg_attribute ON attrelid = indrelid AND attnum = part.number)
  FROM pg_index
  JOIN pg_class ON pg_class.oid = indrelid
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE nspname IN ('holdfast', 'public') AND relkind = 'r' AND indisunique AND indpred IS NULL
 ORDER BY 1, 2
"""
_BY_HEAP: Final = "enable_seqscan = on; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off"
_BY_INDEX: Final = "enable_seqscan = off; SET enable_indexscan = on; SET enable_indexonlyscan = on; SET enable_bitmapscan = off"


def _differing(connection: Direct, table: str, index: str, columns: str) -> list[str]:
    keyed = f"SELECT ROW({columns})::text AS keys FROM {table}"  # noqa: S608
    query = f"SELECT count(*), count(DISTINCT keys), sum(hashtextextended(keys, 0)::numeric) FROM ({keyed}) AS keyed"  # noqa: S608
    answers = []
    for way in (_BY_HEAP, _BY_INDEX):
        for setting in f"SET statement_timeout = '5min'; SET {way}".split("; "):
            connection.execute(setting)
        answers.append(connection.execute(query).fetchone())
    connection.execute("RESET ALL")
    heap, by_index = answers
    wrong = [] if heap == by_index else [f"{index} has {by_index[0]:,} rows, {table} {heap[0]:,}, or the rows differ"]
    if heap[0] != heap[1]:
        wrong.append(f"{table} has {heap[0]:,} rows with {heap[1]:,} different keys, and {index} is unique")
    return wrong
