"""Keeping the database: `migrate` and `prune`."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from holdfast.app import Holdfast
from holdfast.cli import flags
from holdfast.cli.screen import document, line
from holdfast.cli.target import choose_database, open_database
from holdfast.cli.times import seconds_in
from holdfast.store.migrate import Migration, pending
from holdfast.store.sqlite.schema import PACKAGE

_TABLE = "CREATE TABLE IF NOT EXISTS holdfast_migration (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL);"
_DONE = "INSERT INTO holdfast_migration VALUES (:version, CAST(strftime('%s') AS INTEGER) * 1000000);"


def migrate(
    context: typer.Context,
    print_: Annotated[
        bool, typer.Option("--print", envvar="HOLDFAST_MIGRATE_PRINT", help="Print the SQL that would be run; change nothing.")
    ] = False,
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> None:
    """Create the database, or bring it to this version's layout."""
    with choose_database(context, url, app) as store:
        if print_:
            sys.stdout.write(_script(_pending(store)))
            return
        applied = store.migrate()
        version = store.store.version()
    if json:
        document({"url": store.url, "version": version, "applied": applied})
    else:
        line(
            f"{store.store.path} is at schema version {version}; ",
            f"applied: {', '.join(applied)}" if applied else "nothing to do",
        )


def prune(
    context: typer.Context,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="DURATION", show_default=False, help="For example 12h, 7d or 4w.")
    ],
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> None:
    """Remove jobs that ended long ago, with their events and errors."""
    seconds = seconds_in("--older-than", older_than)
    with open_database(context, url, app) as store:
        pruned = store.prune(seconds)
    if json:
        document({"pruned": pruned})
    else:
        line(f"{pruned:,} job{'' if pruned == 1 else 's'} removed")


def _pending(store: Holdfast) -> list[Migration]:
    """Without creating the file, should it not be there yet."""
    path = store.store.path
    return pending(PACKAGE, store.store.version() if os.path.exists(path) else 0, path)


def _script(due: list[Migration]) -> str:
    """The same statements in the same transaction, for a shell: `holdfast migrate --print | sqlite3 jobs.db`."""
    if not due:
        return "-- nothing to do\n"
    parts = ["PRAGMA journal_mode = WAL;", "BEGIN IMMEDIATE;", _TABLE]
    for migration in due:
        parts.append(f"-- {migration.version:04d}_{migration.name}")
        parts.append(migration.sql.strip())
        parts.append(_DONE.replace(":version", str(migration.version)))
    return "\n\n".join([*parts, "COMMIT;"]) + "\n"
