"""Looking: `jobs` and `stats`."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from rich.text import Text

from holdfast.app import Holdfast
from holdfast.cli import flags
from holdfast.cli.database import open_database
from holdfast.cli.job_row import note
from holdfast.cli.lookup import find_job
from holdfast.cli.screen import Column, document, line, screen, styled, table
from holdfast.cli.times import age, span
from holdfast.cli.trouble import Trouble
from holdfast.cli.unclaimed import Reason, reasons
from holdfast.domain.document import job_document
from holdfast.domain.job import Job
from holdfast.domain.states import State

WIDE: Final = 120
"""From this width on a table shows whole ids and queues."""
TASK_CHARS_MAX: Final = 28


def jobs(
    context: typer.Context,
    state: Annotated[str | None, typer.Option("--state", "-s", help=f"One of {', '.join(State)}.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only of this queue.")] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", help="Only of this task, by its full name.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only with this tag.")] = None,
    parent: Annotated[str | None, typer.Option("--parent", metavar="ID", help="Only children of this job.")] = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="Oldest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many, up to 1000.")] = 20,
    after: Annotated[str | None, typer.Option("--after", metavar="ID", help="Go on after this job.")] = None,
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> None:
    """List jobs, newest first."""
    with open_database(context, url, app) as store:
        found = store.jobs(
            state=state,
            queue=queue,
            task=task,
            tag=tag,
            parent=_parent(store, parent),
            newest=not oldest,
            limit=limit,
            after=_whole(store, after),
        )
        reason = reasons(store) if any(not job.final for job in found) and not json else lambda _: ""
    if json:
        document([job_document(job) for job in found])
    elif not found:
        line("No jobs.")
    else:
        _list(found, reason)
        if len(found) == limit:
            line(Text(f"There may be more: --after {found[-1].id}", style="dim")) if screen().is_terminal else None


def stats(context: typer.Context, url: flags.Url = None, app: flags.App = None, json: flags.Json = False) -> None:
    """Count jobs by task and state."""
    with open_database(context, url, app) as store:
        counts = store.stats()
    if json:
        document(counts)
        return
    if not counts:
        line("No jobs.")
        return
    shown = [state for state in State if any(counts[task].get(state) for task in counts)]
    rows: list[list[str | Text]] = [[task, *(_count(counts[task].get(state, 0)) for state in shown)] for task in counts]
    if len(counts) > 1:
        rows.append(["all", *(_count(sum(counts[task].get(state, 0) for task in counts)) for state in shown)])
    table([Column("TASK", least=16), *(Column(state.upper(), right=True) for state in shown)], rows)


def _list(found: list[Job], reason: Reason) -> None:
    console = screen()
    wide = not console.is_terminal or console.width >= WIDE
    columns = [Column("ID" if wide else "HANDLE"), Column("STATE"), Column("TASK")]
    columns += [Column("QUEUE", least=8)] if wide else []
    columns += [Column("TRY", right=True), Column("AGE", right=True), Column("NOTE", least=8)]
    table(columns, [_row(job, reason(job), wide, TASK_CHARS_MAX if console.is_terminal else None) for job in found])


def _row(job: Job, reason: str, wide: bool, task_chars_max: int | None) -> list[str | Text]:
    return [
        job.id if wide else job.handle,
        styled(job.state),
        _end_of(job.task, task_chars_max),
        *([job.queue] if wide else []),
        f"{job.attempt}/{job.attempts_max}",
        span(age(job.created_at)),
        Text("; ".join(filter(None, (note(job), reason)))),
    ]


def _end_of(task: str, chars_max: int | None) -> str:
    """The function's name is at the end."""
    return task if chars_max is None or len(task) <= chars_max else f"…{task[1 - chars_max :]}"


def _parent(store: Holdfast, id: str | None) -> str | None:
    """A parent may be gone, or never have been a job: then its id is taken as it was typed."""
    try:
        return _whole(store, id)
    except Trouble:
        return id


def _whole(store: Holdfast, id: str | None) -> str | None:
    return None if id is None else find_job(store, id).id


def _count(number: int) -> str | Text:
    return f"{number:,}" if number else Text("-", style="dim")
