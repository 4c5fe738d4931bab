"""Acting on jobs: `cancel`, `retry`, `skip`. What is wrong with one id does not keep the others from their move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from holdfast.app import Holdfast
from holdfast.cli import flags
from holdfast.cli.database import open_database
from holdfast.cli.lookup import find_job
from holdfast.cli.screen import document, line, styled
from holdfast.cli.trouble import Trouble, report
from holdfast.domain.document import job_document
from holdfast.domain.job import Job
from holdfast.errors import HoldfastError, IllegalMove

Verb = Callable[[str], Job]


def cancel(
    context: typer.Context,
    ids: flags.Ids,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Kept with the job.")] = "cancelled by request",
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> int:
    """End jobs now, running or not."""
    with open_database(context, url, app) as store:
        return _act(store, ids, lambda each: store.cancel(each, reason), json)


def retry(context: typer.Context, ids: flags.Ids, url: flags.Url = None, app: flags.App = None, json: flags.Json = False) -> int:
    """Run failed, cancelled or skipped jobs again, with fresh attempts."""
    with open_database(context, url, app) as store:
        return _act(store, ids, store.retry, json)


def skip(
    context: typer.Context,
    ids: flags.Ids,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Kept with the job.")] = "skipped by request",
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> int:
    """End jobs on purpose: not run, and not an error."""
    with open_database(context, url, app) as store:
        return _act(store, ids, lambda each: store.skip(each, reason), json)


def _act(store: Holdfast, ids: list[str], verb: Verb, json: bool) -> int:
    moved: list[Job] = []
    code = 0
    for id in ids:
        try:
            job = verb(find_job(store, id, to_act=True).id)
        except (HoldfastError, Trouble) as error:
            code = max(code, report(_named(id, error)))
            continue
        moved.append(job)
        if not json:
            line(f"{job.id}  ", styled(job.state), f"  {job.task}")
    if json:
        document([job_document(job) for job in moved])
    return code


def _named(id: str, error: Exception) -> Exception:
    return IllegalMove(f"job {id}: {error}") if isinstance(error, IllegalMove) else error
