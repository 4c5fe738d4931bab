"""The commands `demo` and `torture`. Each is a package of its own, imported only when its command runs."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer

from holdfast.cli import flags
from holdfast.cli.trouble import Trouble


def demo(
    clean: Annotated[bool, typer.Option("--clean", help="Remove the demo's directory at the end.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of bars, as in a pipe.")] = False,
    stay: Annotated[
        bool | None,
        typer.Option("--stay/--no-stay", show_default="5 minutes on a terminal", help="Keep the page up at the end."),
    ] = None,
) -> int:
    """Watch real jobs flow, a worker die and its jobs finish elsewhere; in the terminal, and in a browser."""
    code: int = _package("demo").run(clean=clean, plain=plain, stay=stay)
    return code


def torture(
    minutes: Annotated[float | None, typer.Option("--minutes", show_default=False, help="Kill for so long.")] = None,
    kills: Annotated[int | None, typer.Option("--kills", show_default=False, help="Kill so many (default: 1000).")] = None,
    seed: Annotated[int | None, typer.Option("--seed", show_default=False, help="Repeat the run with this seed.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, show_default="4", help="Worker processes.")] = None,
    enqueuers: Annotated[int | None, typer.Option("--enqueuers", min=1, show_default="3", help="Enqueueing processes.")] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", show_default=False, help="An empty PostgreSQL database; an SQLite file if not given."),
    ] = None,
    dir: Annotated[
        str | None, typer.Option("--dir", show_default=False, help="Where database and ledgers go; a temporary one if not given.")
    ] = None,
    json: flags.Json = False,
) -> int:
    """Kill workers and enqueuers at random. Ledgers outside the database show whether a job was lost or done twice."""
    code: int = _package("torture").run(
        minutes=minutes, kills=kills, seed=seed, workers=workers, enqueuers=enqueuers, directory=dir, json=json, url=url
    )
    return code


def _package(name: str) -> Any:
    try:
        return importlib.import_module(f"holdfast.{name}")
    except ModuleNotFoundError as error:
        if error.name == f"holdfast.{name}":
            raise Trouble(f"this installation has no holdfast.{name}") from None
        raise
