"""The layout of a file: which version it is at, and how it is brought to ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Final

from holdfast.store.migrate import Migration, pending

PACKAGE: Final = "holdfast.store.sqlite"

_MIGRATIONS: Final = "CREATE TABLE IF NOT EXISTS holdfast_migration (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL)"


def version_of(raw: sqlite3.Connection) -> int:
    """0 before the first migration."""
    table = raw.execute("SELECT 1 FROM sqlite_master WHERE name = 'holdfast_migration'").fetchone()
    if table is None:
        return 0
    return int(raw.execute("SELECT coalesce(max(version), 0) FROM holdfast_migration").fetchone()[0])


def apply_pending(raw: sqlite3.Connection, path: str, now: int, tell: Callable[[str], None]) -> list[Migration]:
    """Apply what is due, in the write transaction that the caller has begun, and end that; what was applied."""
    try:
        # Another process may have done it while we waited for the lock.
        due = pending(PACKAGE, version_of(raw), path)
        raw.execute(_MIGRATIONS)
        for migration in due:
            for statement in statements(migration.sql):
                tell("migrate")
                raw.execute(statement)
            raw.execute("INSERT INTO holdfast_migration VALUES (?, ?)", (migration.version, now))
        raw.execute("COMMIT")
        return due
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise


def statements(script: str) -> Iterable[str]:
    """A script's statements one by one: `executescript` would commit first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
