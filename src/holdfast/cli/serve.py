"""`serve`: an app over HTTP, with REST, live streams and a page to watch jobs."""

from __future__ import annotations

import logging
from importlib.util import find_spec
from typing import Annotated

import msgspec
import typer

from holdfast.cli import flags
from holdfast.cli.database import open_app
from holdfast.cli.introduction import introduce
from holdfast.cli.logs import set_up_logging
from holdfast.cli.times import seconds_in
from holdfast.cli.trouble import Trouble
from holdfast.settings import CONCURRENCY, LEASE_SECONDS


def serve(
    context: typer.Context,
    target: flags.Target = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65_535, help="0 takes any that is free.")] = 8080,
    worker: Annotated[bool, typer.Option("--worker", help="Run the app's tasks as well, in the same process.")] = False,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", help="With --worker: jobs at a time.")] = CONCURRENCY,
    lease: Annotated[
        str, typer.Option("--lease", metavar="DURATION", help="With --worker: so long after it died its jobs go to others.")
    ] = f"{LEASE_SECONDS:g}s",
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Serve other machines although nobody needs a key: anybody can run jobs.")
    ] = False,
    app: flags.App = None,
    url: flags.Url = None,
    log_form: flags.Log = "text",
    log_level: flags.LogLevel = "info",
) -> int:
    """Serve the app's jobs over HTTP. SIGTERM or Ctrl-C ends it; open streams are told when to come back."""
    set_up_logging(log_level, log_form)
    _check_extra()
    from holdfast.web import WebSettings, create_app, lifespan
    from holdfast.web.hosts import check_bind
    from holdfast.web.serving import bind
    from holdfast.web.serving import serve as serve_until_told

    named = open_app(context, target, app, url)
    opened = named.app
    settings = WebSettings.of_environment()
    settings = check_bind(host, msgspec.structs.replace(settings, insecure=insecure or settings.insecure), opened)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    inside = lifespan(opened, concurrency=concurrency, lease=seconds_in("--lease", lease)) if worker else None
    with opened, bind(host, port) as bound:
        introduce(named)
        serve_until_told(create_app(opened, settings=settings), bound, inside)
    return 0


def _check_extra() -> None:
    for name in ("fastapi", "uvicorn"):
        if find_spec(name) is None:
            raise Trouble(f"serve needs {name}, which is not installed: pip install 'holdfast[web]'")
