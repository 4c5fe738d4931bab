"""`enqueue`: one job from the prompt, and `--wait` to see it through."""

from __future__ import annotations

import json as json_module
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from holdfast.app import Holdfast
from holdfast.cli import flags
from holdfast.cli.database import open_app
from holdfast.cli.screen import document, line, styled
from holdfast.cli.tail import follow, say_end, verdict
from holdfast.cli.target import example_target
from holdfast.cli.times import moment_in
from holdfast.cli.trouble import usage
from holdfast.cli.unclaimed import reasons
from holdfast.domain.document import job_document
from holdfast.domain.job import Job
from holdfast.registry import AnyTask


def enqueue(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODULE:APP] TASK [KEY=VALUE]...",
            show_default=False,
            help="The app, as by --app; the task's name, or the part after its last dot; arguments: JSON, else text.",
        ),
    ],
    args: Annotated[str | None, typer.Option("--args", metavar="JSON", help="Positional arguments, as an array.")] = None,
    kwargs: Annotated[str | None, typer.Option("--kwargs", metavar="JSON", help="Named arguments, as an object.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Another queue than the task's.")] = None,
    priority: Annotated[int | None, typer.Option("--priority", "-p", help="A lower number runs first.")] = None,
    run_after: Annotated[
        str | None, typer.Option("--run-after", metavar="WHEN", help="10m, or a time such as 2030-01-31T09:00Z.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option("--key", help="Once per key; several make one key of parts.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="May be given several times.")] = None,
    meta: Annotated[str | None, typer.Option("--meta", metavar="JSON", help="Kept with the job, as an object.")] = None,
    id: Annotated[str | None, typer.Option("--id", help="An id of your own.")] = None,
    parent: Annotated[str | None, typer.Option("--parent", metavar="ID", help="The job that this one belongs to.")] = None,
    callback: Annotated[str | None, typer.Option("--callback", metavar="URL", help="Who is told when the job has ended.")] = None,
    attempts: Annotated[int | None, typer.Option("--attempts", help="Runs in all, the first included.")] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Follow the job to its end; 1 if it failed.")] = False,
    app: flags.App = None,
    url: flags.Url = None,
    json: flags.Json = False,
) -> int:
    """Enqueue one job and print it."""
    target, task, values = split(words, app)
    name, named = open_app(context, target, app, url)
    with named as opened:
        chosen = find_task(opened, task)
        prepared = chosen.using(
            key=tuple(key) if key else None,
            priority=priority,
            run_after=None if run_after is None else moment_in("--run-after", run_after),
            queue=queue,
            attempts=attempts,
            id=id,
            tags=tag or None,
            meta=None if meta is None else parsed("--meta", meta, dict),
            parent=parent,
            callback=callback,
        )
        job = prepared.enqueue(*parsed("--args", args or "[]", list), **_named(chosen, kwargs, values))
        if not wait:
            _print(job, json)
            return 0
        return _see_through(opened, name, job, json)


def split(words: list[str], app: str | None) -> tuple[str | None, str, list[str]]:
    """App, task and arguments. The first word is the app where nothing else names one, or where a task follows it."""
    if app and (len(words) == 1 or "=" in words[1]):
        return None, words[0], words[1:]
    if len(words) == 1 or "=" in words[1]:
        raise usage(f"enqueue got {words[0]!r} alone; it needs an app and a task: holdfast enqueue -a {example_target()} TASK")
    return words[0], words[1], words[2:]


def find_task(app: Holdfast, name: str) -> AnyTask:
    """By its whole name, or by the function's where only one task has it."""
    short = [known for known in app.tasks if known.rpartition(".")[2] == name]
    return app.task_named(short[0] if name not in app.tasks and len(short) == 1 else name)


def parsed(flag: str, text: str, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:
    """JSON of one kind."""
    what = 'an array, for example [1, "a"]' if kind is list else 'an object, for example {"n": 1}'
    try:
        value = json_module.loads(text)
    except ValueError as error:
        raise usage(f"{flag} {text!r} is not JSON ({error}); give {what}") from None
    if not isinstance(value, kind):
        raise usage(f"{flag} {text!r} is JSON, but not {what}")
    return value


def _named(task: AnyTask, kwargs: str | None, values: list[str]) -> dict[str, Any]:
    named: dict[str, Any] = parsed("--kwargs", kwargs or "{}", dict)
    texts = _text_parameters(task) if values else frozenset()
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.isidentifier():
            raise usage(f"argument {value!r} is not KEY=VALUE; positional ones go into --args")
        if name in named:
            raise usage(f"argument {name!r} is given twice")
        named[name] = text if name in texts else _json_or_text(text)
    return named


def _text_parameters(task: AnyTask) -> frozenset[str]:
    """The parameters that take text and nothing else: for them `number=007` is the text 007."""
    properties: dict[str, Any] = {}
    with suppress(Exception):  # an annotation that has no schema: such arguments are taken as JSON, or as text
        properties = task.signature.json_schema().get("properties", {})
    return frozenset(name for name, schema in properties.items() if schema.get("type") == "string")


def _json_or_text(text: str) -> Any:
    try:
        return json_module.loads(text)
    except ValueError:
        return text


def _see_through(app: Holdfast, name: str, job: Job, json: bool) -> int:
    if reason := reasons(app)(job):
        sys.stderr.write(f"holdfast: waiting for {job.id}, but {reason}; start one: holdfast worker {name}\n")
        sys.stderr.flush()
    if json:
        ended = app.wait(job.id)
        document({**job_document(ended), "created": job.created, "same_arguments": job.same_arguments})
        return verdict(ended)
    _print(job, json)
    follow(app, job)
    ended = app.get(job.id) or job
    say_end(ended)
    return verdict(ended)


def _print(job: Job, json: bool) -> None:
    if json:
        document({**job_document(job), "created": job.created, "same_arguments": job.same_arguments})
        return
    known = "" if job.created else "  was there already under this key"
    other = "" if job.same_arguments else ", with other arguments"
    line(f"{job.id}  ", styled(job.state), f"  {job.task}  queue={job.queue}{known}{other}")
