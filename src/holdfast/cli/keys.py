"""`keys`: who may ask over HTTP. A key is shown once, when it is made."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from holdfast.cli import flags
from holdfast.cli.database import open_database
from holdfast.cli.screen import Column, document, line, styled, table
from holdfast.cli.times import moment_in, since
from holdfast.cli.work import listed
from holdfast.domain.access import ApiKey, NewApiKey, Scope
from holdfast.domain.document import iso
from holdfast.domain.job import moment_of
from holdfast.domain.sanitize import clean

app = typer.Typer(name="keys", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def keys(context: typer.Context) -> None:
    """Manage API keys: who may ask over HTTP."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("list")
def list_(context: typer.Context, url: flags.Url = None, app: flags.App = None, json: flags.Json = False) -> None:
    """List API keys, the oldest first."""
    with open_database(context, url, app) as store:
        found, now = store.keys(), moment_of(store.store.clock.now())
    if json:
        document([key_document(key, now) for key in found])
    elif not found:
        line("No keys.")
    else:
        columns = ["PREFIX", "NAME", "SCOPE", "STATE", "QUEUES", "CREATED", "EXPIRES", "LAST USED"]
        table(
            [Column(title, least=8 if title in ("NAME", "QUEUES") else None) for title in columns],
            [_row(key, now) for key in found],
        )


@app.command()
def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="Who uses it: a person, or a program.")],
    scope: Annotated[str, typer.Option("--scope", "-s", help=f"What it may do: {', '.join(Scope)}.")] = Scope.READ.value,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", metavar="A,B", help="Only these queues; all if not given.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option("--expires", metavar="WHEN", help="For example 90d, or 2030-01-31T09:00Z; never if not given.")
    ] = None,
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> None:
    """Make an API key and print it. It is kept as a hash only: it cannot be shown again."""
    until = None if expires is None else moment_in("--expires", expires, needs_unit=True)
    queues = listed(queue)
    with open_database(context, url, app) as store:
        made = store.add_key(name, scope, queues, until)
        now = moment_of(store.store.clock.now())
    if json:
        document({"key": made.text, **key_document(made, now)})
        return
    line(made.text)
    sys.stderr.write(f"{_said(made)} It is shown this once.\n")


@app.command()
def revoke(
    context: typer.Context,
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", show_default=False, help="The 12 digits after hf_; `keys list` shows them.")
    ],
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> None:
    """Let nobody in by this key any more; servers notice within a minute."""
    with open_database(context, url, app) as store:
        revoked = store.revoke_key(prefix)
        now = moment_of(store.store.clock.now())
    if json:
        document(key_document(revoked, now))
    else:
        line(f"key {revoked.prefix} ({clean(revoked.name)}) is revoked")


def key_document(key: ApiKey, now: datetime) -> dict[str, Any]:
    return {
        "prefix": key.prefix,
        "name": key.name,
        "scope": str(key.scope),
        "state": _state(key, now),
        "queues": None if key.queues is None else list(key.queues),
        "created_at": iso(key.created_at),
        "expires_at": iso(key.expires_at),
        "last_used_at": iso(key.last_used_at),
        "revoked_at": iso(key.revoked_at),
    }


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "good" if key.usable(now) else "expired"


def _row(key: ApiKey, now: datetime) -> list[str | Text]:
    state = _state(key, now)
    return [
        key.prefix,
        clean(key.name),
        str(key.scope),
        styled(state, "green" if state == "good" else "dim"),
        "all" if key.queues is None else ", ".join(key.queues),
        since(key.created_at),
        "never" if key.expires_at is None else since(key.expires_at),
        "never" if key.last_used_at is None else since(key.last_used_at),
    ]


def _said(key: NewApiKey) -> str:
    where = "all queues" if key.queues is None else f"queue{'' if len(key.queues) == 1 else 's'} {', '.join(key.queues)}"
    until = "" if key.expires_at is None else f", until {key.expires_at:%Y-%m-%d %H:%M} UTC"
    return f"A key with scope {key.scope} for {where}{until}."
