"""From a store to its side of a move."""

from __future__ import annotations

from contextlib import AbstractContextManager

from holdfast.store.moving import Side
from holdfast.store.sqlite import side as sqlite_side
from holdfast.store.sqlite.driver import SqliteStore
from holdfast.store.store import Store


def side_of(store: Store) -> AbstractContextManager[Side]:
    if isinstance(store, SqliteStore):
        return sqlite_side.opened(store)
    from holdfast.store.postgres import side as postgres_side
    from holdfast.store.postgres.driver import PostgresStore

    assert isinstance(store, PostgresStore)
    return postgres_side.opened(store)
