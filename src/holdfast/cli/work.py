"""`worker`: run an app's tasks until told to stop."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli import flags, reload
from holdfast.cli.database import open_app
from holdfast.cli.introduction import introduce
from holdfast.cli.logs import set_up_logging
from holdfast.cli.times import seconds_in
from holdfast.cli.trouble import usage
from holdfast.settings import CONCURRENCY, GRACE_SECONDS, LEASE_SECONDS


def worker(
    context: typer.Context,
    target: flags.Target = None,
    queue: Annotated[
        list[str] | None, typer.Option("--queue", "-q", metavar="A,B", help="Only these queues; all if not given.")
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", help="Jobs at a time.")] = CONCURRENCY,
    name: Annotated[str | None, typer.Option("--name", help="How it is called in events and logs [host-pid].")] = None,
    lease: Annotated[
        str, typer.Option("--lease", metavar="DURATION", help="So long after it died its jobs go to others.")
    ] = f"{LEASE_SECONDS:g}s",
    grace: Annotated[
        str, typer.Option("--grace", metavar="DURATION", help="How long a stop lets jobs finish.")
    ] = f"{GRACE_SECONDS:g}s",
    callbacks: Annotated[
        bool, typer.Option("--callbacks/--no-callbacks", help="Deliver callbacks too, whatever queues it is for.")
    ] = True,
    drain: Annotated[bool, typer.Option("--drain", help="Exit when nothing is ready or running.")] = False,
    retries: Annotated[bool, typer.Option("--retries", help="With --drain: wait for jobs that back off, too.")] = False,
    reload_: Annotated[
        bool,
        typer.Option("--reload", envvar="HOLDFAST_WORKER_RELOAD", help="Start again when a .py file below here changes."),
    ] = False,
    app: flags.App = None,
    url: flags.Url = None,
    log_form: flags.Log = "text",
    log_level: flags.LogLevel = "info",
) -> int:
    """Run the app's tasks. SIGTERM or Ctrl-C lets running jobs finish; a second one hands them back at once."""
    set_up_logging(log_level, log_form)
    if retries and not drain:
        raise usage("--retries goes with --drain: a worker that runs for good waits for them anyway")
    if reload_ and not reload.is_child():
        return reload.supervise(context.obj)
    reload.follow_parent()
    named = open_app(context, target, app, url)
    made = named.app.worker(
        queues=listed(queue),
        concurrency=concurrency,
        name=name,
        lease=seconds_in("--lease", lease),
        grace=seconds_in("--grace", grace),
        callbacks=callbacks,
    )
    introduce(named)
    if drain:
        made.run_until_empty(retries=retries)
    else:
        made.run()
    return 0


def listed(queue: list[str] | None) -> list[str] | None:
    """`-q a,b` and `-q a -q b` say the same."""
    if not queue:
        return None
    names = [name.strip() for each in queue for name in each.split(",")]
    if not all(names):
        raise usage(f"--queue {','.join(queue)!r} holds an empty name; use for example -q mail,reports")
    return names
