"""Seeing is believing: `demo` and `torture`. Both are packages of their own, loaded only when asked for."""

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
    minutes: Annotated[float | None, typer.Option("--minutes", show_default=False, help="For so long.")] = None,
    kills: Annotated[int | None, typer.Option("--kills", show_default=False, help="Until so many were killed.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", show_default=False, help="Repeat the run of this seed.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, show_default="4", help="Worker processes.")] = None,
    enqueuers: Annotated[int | None, typer.Option("--enqueuers", min=1, show_default="3", help="Enqueueing processes.")] = None,
    on: Annotated[
        str, typer.Option("--on", help="The database: sqlite, or postgresql, which is a server of its own.")
    ] = "sqlite",
    url: Annotated[
        str | None, typer.Option("--url", show_default=False, help="An empty PostgreSQL database to use instead.")
    ] = None,
    chaos: Annotated[
        str | None,
        typer.Option(
            "--chaos",
            show_default=False,
            help="Blows at PostgreSQL instead of kills: restart, terminate, pool, kill, blackhole, cut or failover.",
        ),
    ] = None,
    times: Annotated[int | None, typer.Option("--times", min=1, show_default=False, help="So many of these blows.")] = None,
    dir: Annotated[
        str | None, typer.Option("--dir", show_default=False, help="Where database and ledgers go; a temporary one if not given.")
    ] = None,
    json: flags.Json = False,
) -> int:
    """Kill workers and enqueuers at random. Ledgers outside the database tell whether a job was lost or done twice."""
    code: int = _package("torture").run(
        minutes=minutes,
        kills=kills,
        seed=seed,
        workers=workers,
        enqueuers=enqueuers,
        url_dir=dir,
        json=json,
        on=on,
        url=url,
        chaos=chaos,
        times=times,
    )
    return code


def _package(name: str) -> Any:
    try:
        return importlib.import_module(f"holdfast.{name}")
    except ModuleNotFoundError as error:
        if error.name == f"holdfast.{name}":
            raise Trouble(f"this installation has no holdfast.{name}") from None
        raise
