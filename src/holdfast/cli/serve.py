"""`serve`: an app over HTTP, with REST, live streams and a page to watch jobs; `token`: what opens it while there is no key."""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from holdfast.cli import flags
from holdfast.cli.database import open_app, open_database
from holdfast.cli.introduction import introduce
from holdfast.cli.logs import set_up_logging
from holdfast.cli.screen import document, line
from holdfast.cli.times import seconds_in
from holdfast.cli.trouble import Trouble
from holdfast.errors import SettingError
from holdfast.settings import CONCURRENCY, LEASE_SECONDS

if TYPE_CHECKING:
    from holdfast.app import Holdfast
    from holdfast.web import WebSettings


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
    from holdfast.web.serving import address_of, bind
    from holdfast.web.serving import serve as serve_until_told

    named = open_app(context, target, app, url)
    opened = named.app
    settings = WebSettings.of_environment()
    settings = check_bind(host, msgspec.structs.replace(settings, insecure=insecure or settings.insecure), opened)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    inside = lifespan(opened, concurrency=concurrency, lease=seconds_in("--lease", lease)) if worker else None
    with opened, bind(host, port) as bound:
        introduce(named)
        settings = _with_token(opened, settings)
        if settings.token and log_form.lower() == "text":  # the log itself never has a secret in it
            sys.stderr.write(f"Open {address_of(bound)}/?token={settings.token}\n")
            sys.stderr.write('There is no API key yet; `holdfast token` prints the token for curl -H "Authorization: Bearer …"\n')
            sys.stderr.flush()
        serve_until_told(create_app(opened, settings=settings), bound, inside)
    return 0


def token(context: typer.Context, url: flags.Url = None, app: flags.App = None, json: flags.Json = False) -> None:
    """Print the token that opens the page and the API while there is no API key."""
    _check_extra("token")
    from holdfast.web.token import token_of

    with open_database(context, url, app) as store:
        if store.keys():
            raise Trouble("there are API keys, so the token opens nothing any more; make a key: holdfast keys add NAME")
        found = token_of(store)
    if json:
        document({"token": found})
    else:
        line(found)


def _with_token(app: Holdfast, settings: WebSettings) -> WebSettings:
    """The settings with the token that is to be printed; without one where it opens nothing."""
    from holdfast.web.token import new_token, token_of

    if settings.auth != "auto" or settings.insecure or app.keys():
        return msgspec.structs.replace(settings, token="")
    try:
        return msgspec.structs.replace(settings, token=settings.token or token_of(app))
    except SettingError as error:
        logging.getLogger("holdfast.web").warning("%s", error)
        return msgspec.structs.replace(settings, token=new_token())


def _check_extra(command: str = "serve") -> None:
    for name in ("fastapi", "uvicorn"):
        if find_spec(name) is None:
            raise Trouble(f"{command} needs {name}, which is not installed: pip install 'holdfast[web]'")
