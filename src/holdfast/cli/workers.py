"""`workers` and `ping`: who works on this database, and an exit code for containers."""

from __future__ import annotations

import socket
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from holdfast.cli import flags
from holdfast.cli.database import open_database
from holdfast.cli.screen import Column, document, line, table
from holdfast.cli.times import span
from holdfast.cli.trouble import Trouble
from holdfast.domain.document import iso
from holdfast.domain.sanitize import clean
from holdfast.domain.worker_status import WorkerStatus

_COLUMNS: Final = (
    Column("NAME", least=12),
    Column("HOST", least=8),
    Column("PID", right=True),
    Column("QUEUES", least=8),
    Column("SLOTS", right=True),
    Column("RUNNING", right=True),
    Column("LAST BEAT", right=True),
    Column("SINCE", right=True),
)


def workers(context: typer.Context, url: flags.Url = None, app: flags.App = None, json: flags.Json = False) -> None:
    """List workers, the oldest first; one that died is shown for an hour."""
    with open_database(context, url, app) as store:
        found = store.workers()
    if json:
        document([status_document(each) for each in found])
    elif not found:
        line("No workers.")
    else:
        table(_COLUMNS, [_row(each) for each in found])


def ping(
    context: typer.Context,
    worker: Annotated[str | None, typer.Option("--worker", metavar="NAME", help="And this worker lives.")] = None,
    here: Annotated[bool, typer.Option("--here", help="And a worker on this host lives.")] = False,
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> None:
    """Exit with 0 if the database answers, and with --worker or --here if such a worker lives; else with 1."""
    with open_database(context, url, app) as store:
        living = [each for each in store.workers() if each.alive and not each.by_hand]
        place = store.store.path
    host = socket.gethostname()
    asked = [each for each in living if worker in (None, each.name) and (not here or each.host == host)]
    if not asked and (worker is not None or here):
        what = f"worker {worker!r}" if worker is not None else "worker"
        raise Trouble(f"no {what} lives{f' on {host}' if here else ''}; living: {_names(living)}")
    if json:
        document({"ok": True, "database": place, "workers": [status_document(each) for each in asked]})
    else:
        line(f"{place} answers; living workers: {_names(asked)}")


def status_document(status: WorkerStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "host": status.host,
        "pid": status.pid,
        "queues": None if status.queues is None else list(status.queues),
        "slots": status.slots,
        "running": status.running,
        "started_at": iso(status.started_at),
        "beat_at": iso(status.beat_at),
        "quiet_seconds": status.quiet_seconds,
        "alive": status.alive,
        "by_hand": status.by_hand,
    }


def _names(found: list[WorkerStatus]) -> str:
    return clean(", ".join(each.name for each in found)) or "none"


def _row(status: WorkerStatus) -> list[str | Text]:
    beat = f"{span(status.quiet_seconds)} ago"
    return [
        f"{clean(status.name)}{' (by hand)' if status.by_hand else ''}",
        clean(status.host),
        str(status.pid),
        "all" if status.queues is None else clean(", ".join(status.queues)),
        str(status.slots),
        str(status.running),
        Text(beat) if status.alive else Text(f"{beat}, gone", style="bold yellow"),
        f"{status.started_at.astimezone():%Y-%m-%d %H:%M}",
    ]
