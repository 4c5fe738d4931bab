"""The flags that many commands share. Every flag has an environment variable: HOLDFAST_<COMMAND>_<FLAG>, or as said here."""

from __future__ import annotations

from typing import Annotated

import typer

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="HOLDFAST_URL",
        show_default=False,
        help="The database, where the app's code names none: sqlite:///jobs.db, postgresql://host/name.",
    ),
]
App = Annotated[
    str | None,
    typer.Option(
        "--app",
        "-a",
        envvar="HOLDFAST_APP",
        metavar="MODULE:APP",
        show_default=False,
        help="The app, seen from this directory; ':app' may be left out. Its database is the one that is meant.",
    ),
]
Json = Annotated[bool, typer.Option("--json", envvar="HOLDFAST_JSON", help="Print JSON.")]
Target = Annotated[str | None, typer.Argument(metavar="[MODULE:APP]", show_default=False, help="The app, as by --app.")]
Id = Annotated[str, typer.Argument(metavar="ID", show_default=False, help="A job's id, its handle, or the beginning of its id.")]
Ids = Annotated[
    list[str], typer.Argument(metavar="ID...", show_default=False, help="Ids of jobs, or handles, or beginnings of ids.")
]
Log = Annotated[
    str, typer.Option("--log", envvar="HOLDFAST_LOG_FORMAT", metavar="FORMAT", help="text, or json: one object per line.")
]
LogLevel = Annotated[str, typer.Option("--log-level", help="debug, info, warning or error.")]
