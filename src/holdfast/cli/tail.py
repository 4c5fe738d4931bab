"""`tail`: a job's events as they come, until it has ended; with a progress bar when a person watches."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, Final

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from holdfast.app import Holdfast
from holdfast.cli import flags
from holdfast.cli.database import open_database
from holdfast.cli.job_row import fraction_of, how_far, one_error
from holdfast.cli.lookup import find_job
from holdfast.cli.screen import STYLES, json_text, line, screen, styled, watched
from holdfast.cli.show import event_text, stored_text
from holdfast.cli.times import clock
from holdfast.cli.trouble import FAILED
from holdfast.domain.document import event_document
from holdfast.domain.event import PROGRESSED, Event
from holdfast.domain.job import Job
from holdfast.domain.sanitize import clean
from holdfast.domain.states import State

LATEST: Final = 20


def tail(
    context: typer.Context,
    id: flags.Id,
    after: Annotated[
        int | None, typer.Option("--after", min=0, show_default="the latest 20", help="All events after this number.")
    ] = None,
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> int:
    """Follow a job's events until it ends. Exits with 1 if it failed or was cancelled."""
    with open_database(context, url, app) as store:
        job = find_job(store, id)
        follow(store, job, max(0, job.event_count - LATEST) if after is None else after, json=json)
        ended = store.get(job.id) or job
    if not json:
        say_end(ended)
    return verdict(ended)


def follow(store: Holdfast, job: Job, after: int = 0, *, json: bool = False) -> None:
    """Print what happens to the job until it has ended."""
    events = store.events(job.id, after, follow=True)
    if json:
        for event in events:
            sys.stdout.write(json_text(event_document(event), indent=None) + "\n")
            sys.stdout.flush()
    elif watched():
        _with_bar(job, events)
    else:
        for event in events:
            line(*_line(event))


def verdict(job: Job) -> int:
    return FAILED if job.state in (State.FAILED, State.CANCELLED) else 0


def say_end(job: Job) -> None:
    why = one_error(job) if job.state is not State.SUCCEEDED else clean(stored_text(job.shown_result))
    line(f"{job.id} ", styled(job.state), f": {why}" if why and why != "null" else "")


def _with_bar(job: Job, events: Iterable[Event]) -> None:
    """Progress moves the bar and is not printed line by line."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(None), TextColumn("{task.fields[far]}", markup=False))
    with Progress(*columns, TimeElapsedColumn(), console=screen(), transient=True) as progress:
        shown = progress.add_task(job.task, total=None, far="")
        for event in events:
            if event.kind == PROGRESSED and isinstance(event.data, dict):
                _move(progress, shown, event.data)
            else:
                progress.console.print(Text.assemble(*_line(event)), soft_wrap=True)


def _move(progress: Progress, shown: TaskID, data: dict[str, object]) -> None:
    fraction = fraction_of(data)
    total = None if fraction is None else 1.0
    progress.update(shown, total=total, completed=fraction or 0.0, far=how_far(data))


def _line(event: Event) -> tuple[str | Text, ...]:
    kind, text = clean(event.kind), event_text(event)
    return (
        Text(f"{clock(event.at)} {event.number:>5}  ", style="dim"),
        Text(f"{kind:<12} " if text else kind, style=STYLES.get(kind, "")),
        text,
    )
