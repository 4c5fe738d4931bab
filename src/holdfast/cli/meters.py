"""`meters`: what jobs cost, summed."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import msgspec
import typer

from holdfast.cli import flags
from holdfast.cli.database import open_database
from holdfast.cli.screen import Column, document, line, table
from holdfast.cli.trouble import usage
from holdfast.domain.meter import METER_DAYS


def meters(
    context: typer.Context,
    days: Annotated[int, typer.Option("--days", "-d", help="So many days, today (UTC) included.")] = METER_DAYS,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only of this queue.")] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", help="Only of this task, by its full name.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only under this name, for example tokens.")] = None,
    url: flags.Url = None,
    app: flags.App = None,
    json: flags.Json = False,
) -> None:
    """What jobs metered (ctx.meter), summed by day, queue, task and name."""
    with open_database(context, url, app) as store:
        found = store.meters(since=_first(days), queue=queue, task=task, name=name)
    if json:
        document(msgspec.to_builtins(found))
    elif found:
        columns = [Column("DAY"), Column("QUEUE", least=8), Column("TASK", least=16), Column("NAME", least=8)]
        rows = [[f"{each.day}", each.queue, each.task, each.name, f"{each.amount:,.12g}"] for each in found]
        table([*columns, Column("AMOUNT", right=True)], [*rows])
    else:
        line("Nothing was metered.")


def _first(days: int) -> date:
    if not 1 <= days <= 36_500:
        raise usage(f"--days {days} must be from 1 to 36500; use for example --days 7")
    return datetime.now(UTC).date() - timedelta(days - 1)
