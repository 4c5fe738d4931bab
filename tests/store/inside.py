"""What tests see of a store that its users do not."""

from __future__ import annotations

from holdfast import Holdfast
from holdfast.store.sqlite.driver import SqliteStore


def sqlite_store(app: Holdfast) -> SqliteStore:
    """The app's store, with all that only this kind has."""
    store = app.store
    assert isinstance(store, SqliteStore)
    return store


def waiting(app: Holdfast) -> int:
    """How many callers wait for the next commit."""
    return len(sqlite_store(app).commits.waiting)
