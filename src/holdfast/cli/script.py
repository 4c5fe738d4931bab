"""What `migrate --print` prints: the statements that `migrate` would run, in the same transaction, for a shell."""

from __future__ import annotations

import os
from typing import Final

from holdfast.app import Holdfast
from holdfast.cli.database import version_of
from holdfast.store.migrate import Migration, pending
from holdfast.store.sql import in_schema
from holdfast.store.sqlite import schema as sqlite

NOTHING: Final = "-- nothing to do\n"
_SQLITE_TABLE: Final = "CREATE TABLE IF NOT EXISTS holdfast_migration (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL);"
_SQLITE_DONE: Final = "INSERT INTO holdfast_migration VALUES (:version, CAST(strftime('%s') AS INTEGER) * 1000000);"
_POSTGRES_TABLE: Final = "CREATE TABLE IF NOT EXISTS {schema}.migration (version bigint PRIMARY KEY, applied_at bigint NOT NULL);"
_POSTGRES_DONE: Final = (
    "INSERT INTO {schema}.migration VALUES (:version, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);"
)


def script(store: Holdfast) -> str:
    """For the database as it is now; nothing is changed or created."""
    return _for_postgres(store) if store.store.dialect == "postgresql" else _for_sqlite(store)


def _for_sqlite(store: Holdfast) -> str:
    """`holdfast migrate --print | sqlite3 jobs.db`"""
    path = store.store.path
    due = pending(sqlite.PACKAGE, store.store.version() if os.path.exists(path) else 0, path)
    steps = _steps(due, _SQLITE_DONE)
    return _joined("PRAGMA journal_mode = WAL;", "BEGIN IMMEDIATE;", _SQLITE_TABLE, *steps) if due else NOTHING


def _for_postgres(store: Holdfast) -> str:
    """`holdfast migrate --print | psql -v ON_ERROR_STOP=1`. Under the lock that whoever migrates holds."""
    from holdfast.store.postgres import connection, driver, schema

    assert isinstance(store.store, driver.PostgresStore)
    location = store.store.location
    due = pending(schema.PACKAGE, version_of(store), location.shown)
    if not due:
        return NOTHING
    raw, location = connection.connect_through(location, prepares=False)
    try:
        there = raw.execute("SELECT 1 FROM pg_namespace WHERE nspname = $1", (location.schema,)).fetchone()
    finally:
        raw.close()
    begin = [
        "BEGIN;",
        f"{schema.PATH_LOCAL};",
        f"SET LOCAL lock_timeout = '{schema.MIGRATE_LOCK_SECONDS}s';",
        f"SELECT pg_advisory_xact_lock({schema.lock_number(location.schema)});",
        *([] if there else [f'CREATE SCHEMA "{location.schema}";']),  # even IF NOT EXISTS needs the right to create one
    ]
    return in_schema(_joined(*begin, _POSTGRES_TABLE, *_steps(due, _POSTGRES_DONE)), location.schema)


def _steps(due: list[Migration], done: str) -> list[str]:
    steps: list[str] = []
    for migration in due:
        steps.append(f"-- {migration.version:04d}_{migration.name}")
        steps.append(migration.sql.strip())
        steps.append(done.replace(":version", str(migration.version)))
    return steps


def _joined(*parts: str) -> str:
    return "\n\n".join([*parts, "COMMIT;"]) + "\n"
