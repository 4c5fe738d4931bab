"""The layout of a database: which version it is at, and how it is brought to ours, by one process at a time."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any, Final

import psycopg

from holdfast.store.migrate import Migration, pending
from holdfast.store.postgres.url import SEARCH_PATH
from holdfast.store.sql import SCHEMA, Sql, in_schema, load

PACKAGE: Final = "holdfast.store.postgres"
MIGRATE_LOCK_SECONDS: Final = 60

PATH_LOCAL: Final = f"SET LOCAL search_path = {SEARCH_PATH}"
"""A view and a default keep what they find now."""
_EXISTS: Final = (
    "SELECT 1 FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relname = 'migration'"
)
_VERSION: Final = "SELECT coalesce(max(version), 0) FROM {schema}.migration"
_TABLE: Final = "CREATE TABLE IF NOT EXISTS {schema}.migration (version bigint PRIMARY KEY, applied_at bigint NOT NULL)"
_APPLIED: Final = "INSERT INTO {schema}.migration VALUES ($1, $2)"

_NUMBERED: Final = ("job_spec", "event")
"""The tables whose rows carry the number of the transaction that wrote them, by which the feed orders them."""
_FOREIGN: Final = "SELECT 1 FROM {schema}.{table} WHERE tx >= pg_snapshot_xmax(pg_current_snapshot()) LIMIT 1"
_AS_OLDEST: Final = "UPDATE {schema}.{table} SET tx = '3' WHERE tx >= pg_snapshot_xmax(pg_current_snapshot())"
_NEW_MARK: Final = "UPDATE {schema}.identity SET mark = gen_random_uuid()::text"

Raw = psycopg.Connection[tuple[Any, ...]]


def verbs(schema: str = SCHEMA) -> dict[str, Sql]:
    """Our statements, for tables in that schema, with `$1` for the first parameter."""
    return load(PACKAGE, "$", schema)


def version_of(raw: Raw, schema: str) -> int:
    """0 before the first migration. (`to_regclass` may remember that there was no such table.)"""
    if raw.execute(_EXISTS, (schema,)).fetchone() is None:
        return 0
    found = raw.execute(in_schema(_VERSION, schema)).fetchone()
    return int(found[0]) if found else 0


def apply_pending(raw: Raw, schema: str, shown: str, now: int, tell: Callable[[str], None]) -> list[Migration]:
    """In one transaction, under a lock that others who migrate wait for; what was applied."""
    tell("begin")
    raw.execute("BEGIN")
    try:
        raw.execute(PATH_LOCAL)
        raw.execute(f"SET LOCAL lock_timeout = '{MIGRATE_LOCK_SECONDS}s'")
        raw.execute(f"SET LOCAL statement_timeout = '{MIGRATE_LOCK_SECONDS}s'")
        raw.execute("SELECT pg_advisory_xact_lock($1)", (lock_number(schema),))
        # Another process may have done it while we waited for the lock.
        due = pending(PACKAGE, version_of(raw, schema), shown)
        if due and not raw.execute("SELECT 1 FROM pg_namespace WHERE nspname = $1", (schema,)).fetchone():
            raw.execute(f'CREATE SCHEMA "{schema}"')
        for migration in due:
            raw.execute(in_schema(_TABLE, schema))
            for statement in statements(migration.sql):
                tell("migrate")
                raw.execute(in_schema(statement, schema))
            raw.execute(in_schema(_APPLIED, schema), (migration.version, now))
        tell("commit")
        raw.execute("COMMIT")
        tell("committed")
        return due
    except BaseException:
        if not raw.closed and raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            raw.execute("ROLLBACK")
        raise


def is_restored(raw: Raw, schema: str) -> bool:
    """Whether rows carry numbers that this server has not given out yet: those of another server, from a dump of it."""
    return any(raw.execute(_of(_FOREIGN, table, schema)).fetchone() for table in _NUMBERED)


def adopt_history(raw: Raw, schema: str) -> None:
    """What was restored from another server is history here: older than every event to come, and no cursor of there is valid."""
    with raw.transaction():
        for setting in (PATH_LOCAL, "SET LOCAL statement_timeout = 0", f"SET LOCAL lock_timeout = '{MIGRATE_LOCK_SECONDS}s'"):
            raw.execute(setting)
        raw.execute("SELECT pg_advisory_xact_lock($1)", (lock_number(schema),))
        if is_restored(raw, schema):  # else another process has done it meanwhile
            for table in _NUMBERED:
                raw.execute(_of(_AS_OLDEST, table, schema))
            raw.execute(in_schema(_NEW_MARK, schema))


def _of(text: str, table: str, schema: str) -> str:
    return in_schema(text.replace("{table}", table), schema)


def lock_number(schema: str) -> int:
    """Of the advisory lock that whoever migrates holds: the word, and which schema."""
    return zlib.crc32(b"holdfast migrates") << 31 | zlib.crc32(schema.encode()) >> 1


def statements(script: str) -> Iterable[str]:
    """A script's statements one by one; one ends with a semicolon at the end of a line, outside a function's body."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if line.partition("--")[0].rstrip().endswith(";") and statement.count("$$") % 2 == 0:
            yield statement
            statement = ""
