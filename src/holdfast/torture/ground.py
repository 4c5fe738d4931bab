"""The database that is tortured, as somebody sees it who has nothing to do with Holdfast: by connections of his own.

Queries say `holdfast_job` and `?`, whatever the database calls these.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

ORDER: Final = "torture_order"
EFFECT: Final = "torture_effect"
TABLES: Final = (
    f"CREATE TABLE {ORDER} (call TEXT PRIMARY KEY)",
    f"CREATE TABLE {EFFECT} (call TEXT NOT NULL, token INTEGER NOT NULL)",
)
OWN_SECONDS: Final = 5


class Own(Protocol):
    """A user's own connection, in autocommit. `raw` is what his library gave him: what he passes as on=."""

    raw: Any

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        """A cursor."""

    def begin(self) -> None: ...
    def close(self) -> None: ...


def connect(url: str) -> Own:
    return OwnPostgres(url) if is_postgres(url) else OwnSqlite(url)


def is_postgres(url: str) -> bool:
    return url.startswith(("postgresql:", "postgres:"))


_idle: list[tuple[int, Own]] = []


@contextmanager
def owning(url: str) -> Iterator[Own]:
    """One for a while. To a server it is kept for the next who wants one, as pools do, unless something went wrong with it."""
    own = next((own for pid, own in _taken() if pid == os.getpid()), None) or connect(url)
    try:
        yield own
    except BaseException:
        own.close()
        raise
    if is_postgres(url):
        _idle.append((os.getpid(), own))
    else:
        own.close()


def _taken() -> Iterator[tuple[int, Own]]:
    while _idle:
        try:
            yield _idle.pop()
        except IndexError:
            return  # another thread was faster


class OwnSqlite:
    """It leaves checkpoints to Holdfast, as ours do."""

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


class OwnPostgres:
    def __init__(self, url: str, name: str = "torture") -> None:
        from holdfast.store.postgres.bounded import Bounded

        base, _, _ = url.partition("?")  # what follows is for Holdfast
        hosts = {"target_session_attrs": "read-write"} if "," in base else {}
        self.raw = Bounded.connect(  # as a program does that must go on when the network does not
            base,
            autocommit=True,
            application_name=name,
            connect_timeout=OWN_SECONDS,
            options=f"-c statement_timeout={OWN_SECONDS}s -c idle_in_transaction_session_timeout={OWN_SECONDS}s",
            **hosts,  # type: ignore[arg-type]
        )
        self.raw.bound_seconds = OWN_SECONDS

    def execute(self, query: str, values: Sequence[Any] = ()) -> Any:
        return self.raw.execute(theirs(query), values or None)

    def begin(self) -> None:
        self.raw.execute("BEGIN")

    def close(self) -> None:
        self.raw.close()


def theirs(query: str) -> str:
    return re.sub(r"\bholdfast_(\w+)", r"holdfast.\1", query).replace("?", "%s")


def problems(own: Own) -> list[str]:
    """What the database has against itself: nothing, if it is sound."""
    if isinstance(own, OwnSqlite):
        return [row[0] for row in own.execute("PRAGMA integrity_check") if row[0] != "ok"]
    indexes = own.execute(_INDEXES).fetchall()
    return [problem for table, index, columns in indexes for problem in _differing(own, table, index, columns)]


# PostgreSQL's own checker (amcheck) is not in every installation. What matters here can be asked in plain SQL: that every row
# can be read, and that each index knows the rows of its table, no more, no fewer, none twice.
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


def _differing(own: Own, table: str, index: str, columns: str) -> list[str]:
    kinds = f"SELECT ROW({columns})::text AS keys FROM {table}"  # noqa: S608
    query = f"SELECT count(*), count(DISTINCT keys), sum(hashtextextended(keys, 0)::numeric) FROM ({kinds}) AS kinds"  # noqa: S608
    answers = []
    for way in (_BY_HEAP, _BY_INDEX):
        for setting in f"SET statement_timeout = '5min'; SET {way}".split("; "):
            own.execute(setting)
        answers.append(own.execute(query).fetchone())
    own.execute("RESET ALL")
    heap, by_index = answers
    wrong = [] if heap == by_index else [f"{index} has {by_index[0]:,} rows, {table} {heap[0]:,}, or they differ"]
    return wrong + ([f"{table} has {heap[0]:,} rows of {heap[1]:,} kinds, and {index} is unique"] if heap[0] != heap[1] else [])
