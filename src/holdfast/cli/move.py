"""`move`: a database with everything in it becomes another one, of the same kind or not."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from holdfast.app import Holdfast
from holdfast.cli import flags
from holdfast.cli.database import existing
from holdfast.cli.screen import document, line
from holdfast.store.transfer import Tell, endpoint_of, transfer


def move(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The database that has the jobs: sqlite:///… or postgresql://…")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Where they go: an empty database, or none yet.")],
    json: flags.Json = False,
) -> None:
    """Bring all jobs, events, history and keys from one database to another; the first is left as it is.

    Stop the workers first, and let nobody enqueue from then on: what is written to FROM afterwards stays there. A move that
    was cut off goes on when it is started again. At the end both are compared by count and checksum.
    """
    with (
        existing(Holdfast(source), context) as ours,
        Holdfast(target) as theirs,
        endpoint_of(ours.store) as giving,
        endpoint_of(theirs.store) as taking,
        _bar(json) as tell,
    ):
        moved = transfer(giving, taking, tell)
    jobs, events = moved.counts["job_spec"], moved.counts["event"] + moved.counts["job_spec"]  # the first one is the job itself
    if json:
        document({"moved": moved.counts, "written": moved.written, "checksum": moved.checksum})
    else:
        line(
            f"{jobs:,} job{'' if jobs == 1 else 's'} with {events:,} events moved to {theirs.store.path}; ",
            f"checked, sha256 {moved.checksum[:16]}…",
        )


@contextmanager
def _bar(quiet: bool) -> Iterator[Tell | None]:
    """On a terminal, how far it is."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=Console(stderr=True), transient=True
    ) as progress:
        yield _teller(progress)


def _teller(progress: Progress) -> Callable[[str, int, int], None]:
    bars: dict[str, TaskID] = {}

    def tell(table: str, done: int, total: int) -> None:
        if table not in bars:
            bars[table] = progress.add_task(f"{table:<10}", total=total)
        progress.update(bars[table], completed=done)

    return tell
