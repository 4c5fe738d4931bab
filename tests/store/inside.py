"""What tests see of a store that its users do not."""

from __future__ import annotations

import sqlite3

import psycopg

from holdfast import Holdfast
from holdfast.store.commits import Commits
from holdfast.store.postgres.driver import PostgresStore
from holdfast.store.sqlite.driver import SqliteStore


def sqlite_store(app: Holdfast) -> SqliteStore:
    """The app's store, with all that only this kind has."""
    store = app.store
    assert isinstance(store, SqliteStore)
    return store


def postgres_store(app: Holdfast) -> PostgresStore:
    store = app.store
    assert isinstance(store, PostgresStore)
    return store


def commits_of(app: Holdfast) -> Commits:
    """Where all who write wait for each other: from now on, in a store that has several such places."""
    if isinstance(app.store, PostgresStore):
        del app.store._writers[1:]
        return app.store.commits
    return sqlite_store(app).commits


def waiting(app: Holdfast) -> int:
    """How many callers wait for the next commit."""
    return len(commits_of(app).waiting)


def trouble(app: Holdfast, what: str) -> Exception:
    """An error of the database itself, as its driver raises it."""
    return sqlite3.OperationalError(what) if app.store.dialect == "sqlite" else psycopg.OperationalError(what)
