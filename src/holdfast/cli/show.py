"""`show`: everything that is known about one job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from holdfast.cli import flags
from holdfast.cli.database import open_database
from holdfast.cli.job_row import bar, fraction_of, how_far, one_error
from holdfast.cli.lookup import find_job
from holdfast.cli.screen import compact, document, facts_grid, print_grid, screen, styled
from holdfast.cli.times import age, calendar, clock, since, span
from holdfast.cli.unclaimed import reasons
from holdfast.domain.document import event_document, job_document
from holdfast.domain.event import Event
from holdfast.domain.job import Attempt, Job
from holdfast.domain.sanitize import clean
from holdfast.domain.secret import redact

VALUE_CHARS_MAX: Final = 2_000
"""Of an argument or a result on a terminal; a pipe and --json get all of it."""


def show(
    context: typer.Context,
    id: flags.Id,
    events: Annotated[int, typer.Option("--events", "-e", min=0, help="The latest so many events.")] = 30,
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> None:
    """Show all about one job."""
    with open_database(context, url, app) as store:
        job = find_job(store, id)
        reason = reasons(store)(job)
        log = list(store.events(job.id, after=max(0, job.event_count - events))) if events else []
    if json:
        document({**job_document(job), "events": [event_document(event) for event in log]})
        return
    console = screen()
    print_grid(facts_grid(_facts(job, reason, VALUE_CHARS_MAX if console.is_terminal else None), "dim"))
    _print_attempts(console, job)
    _print_events(console, job, log)


def _facts(job: Job, reason: str, chars_max: int | None) -> Iterator[tuple[str, str | Text]]:
    yield "id", job.id
    yield "handle", job.handle
    yield "task", job.task
    yield "queue", f"{job.queue}, priority {job.priority}"
    yield "state", Text.assemble(styled(job.state), f", attempt {job.attempt} of {job.attempts_max}")
    if job.pruned:
        yield "pruned", "its result, events and errors were removed; its key lives on"
        return
    if reason:
        yield "waits", Text(reason, style="bold yellow")
    yield from _times(job)
    yield "arguments", _value(stored_text(job.shown_arguments), chars_max)
    if job.result_json is not None:
        yield "result", _value(stored_text(job.shown_result), chars_max)
    if job.error:
        yield "error", Text(one_error(job), style="red" if job.final else "")
    fraction = fraction_of(job.progress)
    if job.progress:
        yield "progress", f"{bar(fraction)} {how_far(job.progress)}" if fraction is not None else how_far(job.progress)
    if job.meter:
        yield "meter", "  ".join(f"{clean(name)}={amount:.12g}" for name, amount in job.meter.items())
    if job.key is not None:
        yield "key", compact(list(job.key))
    if job.tags:
        yield "tags", clean(", ".join(job.tags))
    if job.meta:
        yield "meta", _value(compact(redact(job.meta)), chars_max)
    if job.parent:
        yield "parent", clean(job.parent)
    if job.callback:
        yield "callback", f"{clean(job.callback)}, {job.callback_status}"


def _times(job: Job) -> Iterator[tuple[str, str]]:
    yield "created", f"{calendar(job.created_at)}, {since(job.created_at)}"
    if job.run_after is not None and not job.final:
        yield "run after", f"{calendar(job.run_after)}, {since(job.run_after)}"
    if job.started_at is not None:
        yield "started", f"{calendar(job.started_at)}, {since(job.started_at)}"
    if job.finished_at is not None:
        took = "" if job.started_at is None else f", took {span(age(job.started_at, job.finished_at))}"
        yield "finished", f"{calendar(job.finished_at)}, {since(job.finished_at)}{took}"


def _value(text: str, chars_max: int | None) -> str:
    safe = clean(text)
    if chars_max is None or len(safe) <= chars_max:
        return safe
    return f"{safe[:chars_max]}… and {len(safe) - chars_max:,} characters more; --json shows all"


def _print_attempts(console: Console, job: Job) -> None:
    for attempt in job.errors:
        console.print()
        console.print(Text(f"Attempt {attempt.attempt} failed {calendar(attempt.at)}, {since(attempt.at)}", style="bold"))
        console.print(Padding(_attempt(attempt), (0, 0, 0, 2)) if console.is_terminal else _attempt(attempt))


def _attempt(attempt: Attempt) -> Text:
    headline = clean(f"{attempt.kind}: {attempt.message}" if attempt.message else attempt.kind, lines=True)
    return Text(clean(attempt.traceback, lines=True).rstrip() or headline)


def _print_events(console: Console, job: Job, log: list[Event]) -> None:
    if not log:
        return
    earlier = log[0].number - 1
    console.print()
    console.print(Text(f"Events ({earlier:,} earlier ones: --events {job.event_count})" if earlier else "Events", style="bold"))
    rows = [(f"{event.number:>3}", clock(event.at), clean(event.kind), event_text(event)) for event in log]
    print_grid(facts_grid(rows, "dim", "dim", ""))


def event_text(event: Event) -> str:
    """An event's data in short."""
    if event.kind == "progress" and isinstance(event.data, dict):
        return how_far(event.data)
    data = redact(event.data)
    if isinstance(data, dict):
        return "  ".join(
            f"{clean(str(name))}={clean(value) if isinstance(value, str) else compact(value)}" for name, value in data.items()
        )
    return "" if data is None else compact(data)


def stored_text(value: Any) -> str:
    """JSON as it is stored."""
    return msgspec.json.encode(value).decode()
