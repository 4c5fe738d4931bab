"""A file as one endpoint of a transfer. Its statements are made from the table of tables in `store/tables`, and nothing else."""

# ruff: noqa: S608

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from holdfast.store.op import Row
from holdfast.store.sqlite.connection import connect, patiently
from holdfast.store.sqlite.driver import SqliteStore
from holdfast.store.sqlite.errors import explain
from holdfast.store.tables import Table


@contextmanager
def opened(store: SqliteStore) -> Iterator[SqliteEndpoint]:
    store.migrate()
    try:
        with closing(connect(store.path, store.busy_seconds)) as raw:
            yield SqliteEndpoint(store, raw)
    except sqlite3.Error as error:
        raise explain(error, store.path) from error


class SqliteEndpoint:
    """Has a connection of its own: `frozen` holds the lock of the file until it ends."""

    def __init__(self, store: SqliteStore, raw: sqlite3.Connection) -> None:
        self._store, self._raw, self.shown = store, raw, store.path

    def origin(self) -> str:
        first = self._raw.execute("SELECT applied_at FROM holdfast_migration WHERE version = 1").fetchone()
        return f"sqlite {os.path.realpath(self._store.path)} of {first[0]}"

    @contextmanager
    def frozen(self) -> Iterator[None]:
        patiently(lambda: self._raw.execute("BEGIN IMMEDIATE"), self._store.busy_seconds)
        try:
            yield
        finally:
            self._raw.execute("ROLLBACK")

    def busy(self, alive_since: int) -> tuple[int, list[str]]:
        running = self._raw.execute("SELECT count(*) FROM holdfast_running").fetchone()[0]
        alive = "SELECT name FROM holdfast_worker WHERE beat_at > ? AND NOT by_hand ORDER BY id"
        return running, [name for (name,) in self._raw.execute(alive, (alive_since,))]

    def clock(self) -> int:
        return self._store.clock.now()

    def count(self, table: Table) -> int:
        return int(self._raw.execute(f"SELECT count(*) FROM holdfast_{table.name}").fetchone()[0])

    def rows(self, table: Table, after: Row | None, limit: int, upto: Row | None = None) -> list[Row]:
        key, places = ", ".join(table.columns[: table.key]), ", ".join("?" * table.key)
        conditions = [f"({key}) {sign} ({places})" for sign, bound in ((">", after), ("<=", upto)) if bound is not None]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        text = f"SELECT {', '.join(table.columns)} FROM holdfast_{table.name}{where} ORDER BY {key} LIMIT ?"
        return self._raw.execute(text, (*(after or ()), *(upto or ()), limit)).fetchall()

    def begun(self) -> str | None:
        found = self._raw.execute("SELECT origin FROM holdfast_transfer").fetchone()
        return None if found is None else str(found[0])

    def begin(self, origin: str) -> None:
        self._raw.execute("INSERT INTO holdfast_transfer (origin) VALUES (?) ON CONFLICT DO NOTHING", (origin,))

    def write(self, table: Table, upsert: Sequence[Row], delete: Sequence[Row]) -> None:
        columns, places = ", ".join(table.columns), ", ".join("?" * len(table.columns))
        key = " AND ".join(f"{column} = ?" for column in table.columns[: table.key])
        with self._written():
            self._raw.executemany(f"DELETE FROM holdfast_{table.name} WHERE {key}", delete)
            self._raw.executemany(f"INSERT OR REPLACE INTO holdfast_{table.name} ({columns}) VALUES ({places})", upsert)

    def end(self, last_seq: int, last_lane: int) -> None:
        with self._written():
            self._raw.execute("UPDATE holdfast_counter SET value = max(value, ?) WHERE name = 'job'", (last_seq,))
            self._raw.execute("DELETE FROM holdfast_transfer")

    @contextmanager
    def _written(self) -> Iterator[None]:
        patiently(lambda: self._raw.execute("BEGIN IMMEDIATE"), self._store.busy_seconds)
        try:
            yield
            self._raw.execute("COMMIT")
        except BaseException:
            if self._raw.in_transaction:
                self._raw.execute("ROLLBACK")
            raise
