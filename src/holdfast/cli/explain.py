"""`explain`: why a job does not run yet, and what would start it."""

from __future__ import annotations

import msgspec
import typer

from holdfast.cli import flags
from holdfast.cli.database import open_database
from holdfast.cli.lookup import find_job
from holdfast.cli.screen import document, facts_grid, print_grid
from holdfast.domain.explain import Explanation
from holdfast.domain.sanitize import clean


def explain(context: typer.Context, id: flags.Id, url: flags.Url = None, app: flags.App = None, json: flags.Json = False) -> None:
    """Say why a job does not run yet."""
    with open_database(context, url, app) as store:
        found = store.explain(find_job(store, id).id)
    if json:
        document(msgspec.to_builtins(found))
        return
    print_grid(facts_grid(_facts(found), "dim"))


def _facts(found: Explanation) -> list[tuple[str, str]]:
    rows = [("job", found.job), ("state", str(found.state))]
    if found.position is not None:
        rows.append(("position", f"{found.position:,} in its queue"))
    if found.runs_next:
        rows.append(("now", "nothing stands in its way: the next claim of a worker that knows its task takes it"))
    rows += [("because" if not at else "and", clean(reason.text)) for at, reason in enumerate(found.reasons)]
    return [*rows, ("remedy", found.remedy)] if found.remedy else rows
