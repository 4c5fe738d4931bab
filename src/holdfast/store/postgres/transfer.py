"""A PostgreSQL database as one endpoint of a transfer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from psycopg import Connection, Error, connect
from psycopg.sql import SQL, Composed, Identifier, Placeholder

from holdfast.store.op import Row
from holdfast.store.postgres.driver import PostgresStore
from holdfast.store.postgres.errors import explain
from holdfast.store.postgres.url import PINNED_OPTIONS
from holdfast.store.tables import Table

BLOCK: Final = 4096
"""How many numbers a transaction that adds jobs takes at once: the increment of `job_seq`."""


@contextmanager
def opened(store: PostgresStore) -> Iterator[PostgresEndpoint]:
    store.migrate()
    try:
        with _connected(store, autocommit=True) as raw:
            yield PostgresEndpoint(store, raw)
    except Error as error:
        raise explain(error, store.path) from error


def _connected(store: PostgresStore, autocommit: bool = False) -> Connection[Any]:
    """Without our bounds and plans: whole tables are read. Behind a pooler no setting is sent, so names have their schema."""
    options = {"client_encoding": "utf8"} if store.location.pooled else {"client_encoding": "utf8", "options": PINNED_OPTIONS}
    return connect(store.location.conninfo, autocommit=autocommit, **options)  # type: ignore[arg-type]


class PostgresEndpoint:
    """Has two connections of its own: one keeps writers out while `frozen` lasts, the other does the work."""

    def __init__(self, store: PostgresStore, raw: Connection[Any]) -> None:
        self._store, self._schema, self._raw, self.shown = store, store.location.schema, raw, store.path

    def origin(self) -> str:
        # A copy has its original's mark.
        mark = self._one("SELECT pg_catalog.concat(pg_catalog.current_database(), ' ', mark) FROM {}", "identity")
        return f"postgresql {mark} {self._schema}"

    @contextmanager
    def frozen(self) -> Iterator[None]:
        with _connected(self._store) as holder:
            holder.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            for name in ("worker", "job"):
                holder.execute(SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(self._table(name)))
            yield
            holder.rollback()

    def busy(self, alive_since: int) -> tuple[int, list[str]]:
        alive = SQL("SELECT name FROM {} WHERE beat_at > %s AND by_hand = 0 ORDER BY id").format(self._table("worker"))
        names = [str(name) for (name,) in self._raw.execute(alive, (alive_since,))]
        return int(self._one("SELECT pg_catalog.count(*) FROM {}", "running")), names

    def clock(self) -> int:
        found = self._raw.execute("SELECT extract(epoch FROM pg_catalog.clock_timestamp())").fetchone()
        assert found is not None
        return int(found[0] * 1_000_000)

    def count(self, table: Table) -> int:
        return int(self._one("SELECT pg_catalog.count(*) FROM {}", table.name))

    def rows(self, table: Table, after: Row | None, limit: int, upto: Row | None = None) -> list[Row]:
        key = self._names(table.columns[: table.key])
        places = SQL(", ").join([Placeholder()] * table.key)
        conditions = [
            SQL("({}) {} ({})").format(key, SQL(sign), places)
            for sign, bound in ((">", after), ("<=", upto))
            if bound is not None
        ]
        where = SQL(" WHERE {}").format(SQL(" AND ").join(conditions)) if conditions else SQL("")
        text = SQL("SELECT {} FROM {}{} ORDER BY {} LIMIT %s").format(
            self._names(table.columns), self._table(table.name), where, key
        )
        return self._raw.execute(text, (*(after or ()), *(upto or ()), limit)).fetchall()

    def begun(self) -> str | None:
        found = self._raw.execute(SQL("SELECT origin FROM {}").format(self._table("transfer"))).fetchone()
        return None if found is None else str(found[0])

    def begin(self, origin: str) -> None:
        self._raw.execute(
            SQL("INSERT INTO {} (origin) VALUES (%s) ON CONFLICT DO NOTHING").format(self._table("transfer")), (origin,)
        )

    def write(self, table: Table, upsert: Sequence[Row], delete: Sequence[Row]) -> None:
        name, key = self._table(table.name), self._names(table.columns[: table.key])
        rest = table.columns[table.key :]
        update = SQL(", ").join([SQL("{0} = excluded.{0}").format(Identifier(column)) for column in rest])
        clash = SQL("DO UPDATE SET {}").format(update) if rest else SQL("DO NOTHING")
        insert = SQL("INSERT INTO {} ({}) VALUES ({}) ON CONFLICT ({}) {}").format(
            name, self._names(table.columns), SQL(", ").join([Placeholder()] * len(table.columns)), key, clash
        )
        gone = SQL("DELETE FROM {} WHERE ({}) = ({})").format(name, key, SQL(", ").join([Placeholder()] * table.key))
        with self._raw.transaction(), self._raw.cursor() as cursor:
            cursor.executemany(gone, delete)
            cursor.executemany(insert, upsert)

    def end(self, last_seq: int, last_lane: int) -> None:
        with self._raw.transaction():
            first = (last_seq // BLOCK + 1) * BLOCK + 1
            text = SQL("SELECT pg_catalog.setval({}, greatest(%s, (SELECT last_value FROM {})))").format(
                self._literal("job_seq"), self._table("job_seq")
            )
            self._raw.execute(text, (first,))
            if last_lane:
                serial = SQL("SELECT pg_catalog.setval(pg_catalog.pg_get_serial_sequence({}, 'lane'), %s)")
                self._raw.execute(serial.format(self._literal("lane")), (last_lane,))
            self._raw.execute(SQL("DELETE FROM {}").format(self._table("transfer")))

    def _one(self, text: str, table: str) -> Any:
        found = self._raw.execute(SQL(text).format(self._table(table))).fetchone()
        assert found is not None
        return found[0]

    def _table(self, name: str) -> Identifier:
        return Identifier(self._schema, name)

    def _literal(self, name: str) -> Composed:
        return SQL("{}").format(f"{self._schema}.{name}")

    def _names(self, columns: Sequence[str]) -> Composed:
        return SQL(", ").join([Identifier(column) for column in columns])
