"""Keeping the database: `migrate` and `prune`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from holdfast.cli import flags
from holdfast.cli.database import check_named, choose_database, open_database, shown_url, version_of
from holdfast.cli.screen import document, line
from holdfast.cli.script import script
from holdfast.cli.times import age_in
from holdfast.cli.trouble import usage


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
        check_named(context, store)
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
        str, typer.Option("--older-than", metavar="DURATION", show_default=False, help="With its unit: 12h, 7d or 4w.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print how many jobs would be removed; remove nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; scripts need it.")] = False,
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> None:
    """Remove jobs that ended long ago, with their results, events and errors."""
    seconds = age_in("--older-than", older_than)
    with open_database(context, url, app) as store:
        count = store.prune(seconds, dry_run=True)
        removes = not dry_run and (yes or count == 0 or _confirmed(f"{_jobs(count)} of {store.store.path}", older_than))
        pruned = store.prune(seconds) if removes else 0
    if json:
        document({"pruned": pruned, "dry_run": dry_run, "count": count})
    elif dry_run:
        line(f"{_jobs(count)} of {store.store.path} ended more than {older_than} ago and would be removed")
    else:
        line(f"{_jobs(pruned)} removed")


def _confirmed(what: str, older_than: str) -> bool:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise usage(f"prune would remove {what} that ended more than {older_than} ago; give --yes to do it, or --dry-run")
    return typer.confirm(f"Remove {what} that ended more than {older_than} ago?", err=True)


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"
