"""Keeping the database: `migrate` and `prune`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from holdfast.cli import flags
from holdfast.cli.screen import document, line
from holdfast.cli.script import script
from holdfast.cli.target import choose_database, open_database, shown_url, version_of
from holdfast.cli.times import seconds_in


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
            sys.stdout.write(script(store))
            return
        version_of(store)  # says it more plainly if there is no such database
        applied = store.migrate()
        version = store.store.version()
    if json:
        document({"url": shown_url(store), "version": version, "applied": applied})
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
