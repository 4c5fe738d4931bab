"""Which app and which database a command is about. One rule for all commands:

The app is the one that is named by position, by -a, or by HOLDFAST_APP. Its code decides the database: a URL in the code, or, for
`Holdfast()` without one, --url, else HOLDFAST_URL. Without an app it is --url, else HOLDFAST_URL. A URL that was typed and is
not that of the app is an error; one in the environment is a warning.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from typing import Final, NamedTuple

import typer

from holdfast.app import Holdfast
from holdfast.cli.target import example_target, load_app
from holdfast.cli.trouble import Trouble, usage
from holdfast.domain.sanitize import one_line
from holdfast.errors import SettingError, StoreUnavailable
from holdfast.settings import URL_VARIABLE, open_store, url_of
from holdfast.store.url import check_escaped, masked

log = logging.getLogger("holdfast.cli")
_MISSING: Final = re.compile(r'FATAL: +database "[^"]*" does not exist')
_TYPED: Final = "COMMANDLINE"


class Named(NamedTuple):
    """An app and the MODULE:APP that named it."""

    name: str
    app: Holdfast


def open_app(context: typer.Context, target: str | None, app: str | None, url: str | None) -> Named:
    """For commands that need an app's tasks."""
    if target and _is_typed(context, "app"):
        raise usage(f"the app is named twice, {target} and --app {app}; give one of them")
    name = target or app
    if not name:
        raise usage(f"{context.command_path} needs an app: -a MODULE:APP, for example -a {example_target()}, or HOLDFAST_APP")
    return Named(name, _load(context, name, url))


def open_database(context: typer.Context, url: str | None, app: str | None) -> Holdfast:
    """For commands that ask about a database that exists."""
    return existing(choose_database(context, url, app), context)


def choose_database(context: typer.Context, url: str | None, app: str | None) -> Holdfast:
    """What was typed goes before what the environment says."""
    if app and (_is_typed(context, "app") or not _is_typed(context, "url")):
        return _load(context, app, url)
    return Holdfast(_checked(url_of(url)))


def existing(app: Holdfast, context: typer.Context) -> Holdfast:
    """A command about a database must not create one: a misspelt path would look like an empty queue."""
    if app.store.dialect != "sqlite" and version_of(app) == 0:
        raise Trouble(f"{app.store.path} has no Holdfast tables; {_remedy(context)}")
    if app.store.dialect == "sqlite" and not os.path.exists(app.store.path):
        raise Trouble(f"there is no database at {app.store.path}; {_remedy(context)}")
    return app


def version_of(app: Holdfast) -> int:
    """The version of its layout. A server that has no such database cannot be told from one that is down but by its words."""
    if app.store.dialect == "sqlite" and not os.path.exists(app.store.path):
        return 0
    try:
        return app.store.version()
    except StoreUnavailable as error:
        if _MISSING.search(str(error.__cause__)):
            raise Trouble(f"there is no database at {app.store.path}; check --url, or create it with: createdb") from error
        raise


def check_named(context: typer.Context, app: Holdfast) -> None:
    """Nothing names a database, and the default one is not there: to create it would most likely create a wrong one."""
    if not (context.params.get("url") or context.params.get("app")) and version_of(app) == 0:
        raise usage(f"no database is named; {_remedy(context)}")


def shown_url(app: Holdfast) -> str:
    """As it may be printed: a server's without user and password."""
    return app.url if app.store.dialect == "sqlite" else masked(app.url)


def migrate_command(context: typer.Context) -> str:
    """That migrates the database which this command was about, named in the same way."""
    app, url = (context.params.get(flag) if _is_typed(context, flag) else None for flag in ("app", "url"))
    return "holdfast migrate" + (f" -a {app}" if app else "") + (f" --url {masked(url)}" if url else "")


def _remedy(context: typer.Context) -> str:
    if app := context.params.get("app"):
        return f"{app} creates it with its first job, or: {migrate_command(context)}"
    if "app" not in context.params:
        return "check the URL"
    name = f"name your app: {context.command_path} -a {example_target()}"
    if context.params.get("url"):
        return f"{name}, or check the URL, or create it with: {migrate_command(context)}"
    return f"{name}, or HOLDFAST_APP, or the database: --url, or {URL_VARIABLE}"


def _load(context: typer.Context, name: str, url: str | None) -> Holdfast:
    if url and _is_typed(context, "url"):
        os.environ[URL_VARIABLE] = _checked(url)  # Holdfast() without a URL follows it, here and in child processes
    app = load_app(name)
    if url and not _is_of(app, url):
        _differ(context, name, app, url)
    return app


def _differ(context: typer.Context, name: str, app: Holdfast, url: str) -> None:
    own = f"{name} names its own database, {app.store.path}"
    follow = f"Holdfast() without a URL follows --url and {URL_VARIABLE}"
    if _is_typed(context, "url"):
        raise usage(f"--url {masked(url)} cannot be used: {own}; leave one of them out: {follow}")
    warn(context, f"{URL_VARIABLE} ({masked(url)}) is not used: {own}, and code goes before the environment; {follow}")


def warn(context: typer.Context, text: str) -> None:
    """In the log of a worker or a server, else as a line."""
    if "log_form" in context.params:
        log.warning("%s", text)
    else:
        sys.stderr.write(f"holdfast: {one_line(text)}\n")
        sys.stderr.flush()


def _is_of(app: Holdfast, url: str) -> bool:
    if app.url == url:
        return True
    try:
        store = open_store(url)
    except SettingError:
        return False
    return (store.dialect, os.path.realpath(store.path)) == (app.store.dialect, os.path.realpath(app.store.path))


def _checked(url: str) -> str:
    """What was typed in a way that cannot be read is a wrong use of the command."""
    try:
        if url.startswith("postgres"):
            check_escaped(url)
    except SettingError as error:
        raise usage(str(error)) from None
    return url


def _is_typed(context: typer.Context, flag: str) -> bool:
    source = context.get_parameter_source(flag)
    return source is not None and source.name == _TYPED
