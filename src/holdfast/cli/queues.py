"""Queues: `queues` lists them, `pause` and `resume` stop and start one, `queue set|reset|log` is about its limits."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Final

import typer
from rich.text import Text

from holdfast.app import Holdfast
from holdfast.cli import flags
from holdfast.cli.database import open_database
from holdfast.cli.limit_text import detail_text, limits_text, options_in, pace_text
from holdfast.cli.screen import Column, document, line, table
from holdfast.cli.times import age, calendar, clock, seconds_in, span
from holdfast.cli.trouble import Trouble
from holdfast.domain.document import iso, queue_document
from holdfast.domain.job import moment_of
from holdfast.domain.queue import Queue, QueuePause
from holdfast.domain.sanitize import clean
from holdfast.store.queue_settings import QueueChange

LONG_SECONDS: Final = 86_400.0
"""A pause that is older than this may have been forgotten."""
NAMES_MAX: Final = 20
_COLUMNS: Final = (
    Column("QUEUE", least=8), Column("DEPTH", right=True), Column("RUNNING", right=True), Column("PACE", least=8),
    Column("FAILED", right=True), Column("WORKERS", right=True), Column("WAIT", right=True), Column("STATE", least=24),
)  # fmt: skip

app = typer.Typer(name="queue", rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="QUEUE", show_default=False, help="The queue's name.")]


def queues(context: typer.Context, url: flags.Url = None, app: flags.App = None, json: flags.Json = False) -> None:
    """List queues: how many jobs wait and run, of how many; how fast they start; whether they may start now."""
    with open_database(context, url, app) as store:
        found, now = store.queues(), _now(store)
    if json:
        document([queue_document(queue) for queue in found])
    elif not found:
        line("No queues.")
    else:
        table(_COLUMNS, [_row(queue, now) for queue in found])


def pause(
    context: typer.Context,
    queue: Name,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="TIME", help="For example 10m; until it is resumed if not given.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Kept in the queue's log.")] = "",
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> None:
    """Start no more jobs of a queue; what runs goes on."""
    seconds = None if for_ is None else seconds_in("--for", for_)
    with open_database(context, url, app) as store:
        note = _note_unknown(store, queue)
        store.pause(queue, seconds, reason=reason)
        sys.stderr.write(note)
        _tell(store, queue, json, lambda found, now: _paused(found.paused, now) if found.paused else "is not paused")


def resume(
    context: typer.Context, queue: Name, url: flags.Url = None, app: flags.App = None, json: flags.Json = False
) -> None:  # fmt: skip
    """Start jobs of a paused queue again."""
    with open_database(context, url, app) as store:
        _demand(store, queue)
        resumed = store.resume(queue)
        _tell(store, queue, json, lambda *_: "is resumed" if resumed else "was not paused")


@app.callback(invoke_without_command=True)
def queue(context: typer.Context) -> None:
    """Change a queue's limits, or read what was changed."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("set")
def set_(
    context: typer.Context,
    queue: Name,
    limits: Annotated[
        list[str],
        typer.Argument(
            metavar="LIMIT=VALUE...",
            show_default=False,
            help="concurrency=2 rate=60/min gap=10 max_depth=50 breaker=2,15,300; 'none' takes a limit away.",
        ),
    ],
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> None:
    """Change limits live, over what the code declares."""
    options = options_in(limits)
    with open_database(context, url, app) as store:
        note = _note_unknown(store, queue)
        store.change_queue(queue, **options)
        sys.stderr.write(note)
        _tell(store, queue, json, lambda found, _: f"has {limits_text(found.limits)}")


@app.command()
def reset(
    context: typer.Context, queue: Name, url: flags.Url = None, app: flags.App = None, json: flags.Json = False
) -> None:  # fmt: skip
    """Take back what was changed live: the limits that the code declares hold again. A pause stays."""
    with open_database(context, url, app) as store:
        _demand(store, queue)
        store.reset_queue(queue)
        _tell(store, queue, json, lambda found, _: f"has {limits_text(found.limits)}")


@app.command()
def log(
    context: typer.Context, queue: Name, url: flags.Url = None, app: flags.App = None, json: flags.Json = False
) -> None:  # fmt: skip
    """List what was changed about a queue, when and by whom; the newest first."""
    with open_database(context, url, app) as store:
        _demand(store, queue)
        changes = store.queue_changes(queue)
    if json:
        document([{"at": iso(each.at), "actor": each.actor, "action": each.action, "detail": each.detail} for each in changes])
    elif not changes:
        line(f"Nothing was changed about queue {clean(queue)}.")
    else:
        columns = [Column("WHEN"), Column("BY", least=8), Column("WHAT"), Column("DETAIL", least=16)]
        table(columns, [[calendar(each.at), clean(each.actor), each.action, _detail(each)] for each in changes])


def _row(queue: Queue, now: datetime) -> list[str | Text]:
    return [
        clean(queue.name),
        _of(queue.depth, queue.max_depth),
        _of(queue.running, queue.limits.concurrency),
        pace_text(queue.limits) or Text("-", style="dim"),
        Text(f"{queue.failed:,}", style="bold red") if queue.failed else Text("-", style="dim"),
        str(queue.workers) if queue.workers else Text("-", style="dim"),
        Text("-", style="dim") if queue.estimated_wait is None else span(queue.estimated_wait),
        _state(queue, now),
    ]


def _of(number: int, most: int | None) -> str | Text:
    if most is not None:
        return Text(f"{number:,}/{most:,}", style="bold red" if number >= most and number > 0 else "")
    return f"{number:,}" if number else Text("-", style="dim")


def _state(queue: Queue, now: datetime) -> Text:
    """Whatever a person may have to do something about; else: open."""
    said: list[Text] = []
    if queue.paused is not None:
        long = queue.paused.since is not None and age(queue.paused.since, now) > LONG_SECONDS
        said.append(Text(_paused(queue.paused, now).removeprefix("is "), style="bold red" if long else "yellow"))
    if queue.breaker is not None and queue.breaker.state != "closed":
        until = "" if queue.breaker.until is None else f" until {_until(queue.breaker.until, now)}"
        said.append(Text(f"breaker {queue.breaker.state}{until}", style="bold red"))
    if queue.is_full:
        said.append(Text("full", style="bold red"))
    if queue.ready and not queue.workers:
        said.append(Text("no worker", style="bold yellow"))
    return Text("; ").join(said) if said else Text("open", style="green")


def _paused(pause: QueuePause, now: datetime) -> str:
    by = "" if pause.by is None else f" by {clean(pause.by)}"
    until = "" if pause.until is None else f" until {_until(pause.until, now)}"
    long = "" if pause.since is None or age(pause.since, now) <= LONG_SECONDS else f" for {span(age(pause.since, now))} now"
    return f"is paused{by}{until}{long}{f': {clean(pause.reason)}' if pause.reason else ''}"


def _until(moment: datetime, now: datetime) -> str:
    return clock(moment) if age(now, moment) < LONG_SECONDS else calendar(moment)


def _detail(change: QueueChange) -> str:
    return " ".join(detail_text(name, value) for name, value in change.detail.items())


def _now(store: Holdfast) -> datetime:
    return moment_of(store.store.clock.now())


def _tell(store: Holdfast, name: str, json: bool, words: Callable[[Queue, datetime], str]) -> None:
    """The queue as it is now, after what was done."""
    found, now = next(each for each in store.queues() if each.name == name), _now(store)
    if json:
        document(queue_document(found))
    else:
        line(f"{clean(name)} {words(found, now)}")


def _demand(store: Holdfast, name: str) -> None:
    if not _is_known(store, name):
        raise Trouble(f"there is no queue {name!r}; known: {_names(store)}")


def _note_unknown(store: Holdfast, name: str) -> str:
    """A queue may be set up before its first job; a name that was mistyped looks the same."""
    return "" if _is_known(store, name) else f"holdfast: queue {clean(name)} has had no job yet; known: {_names(store)}\n"


def _is_known(store: Holdfast, name: str) -> bool:
    return name in store.registry.undeclared or any(each.name == name for each in store.queues())


def _names(store: Holdfast) -> str:
    return clean(", ".join([each.name for each in store.queues()][:NAMES_MAX])) or "none"
