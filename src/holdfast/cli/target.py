"""From `MODULE:APP` or a URL to an app. The module is looked for in the working directory first."""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from types import ModuleType
from typing import Any, Final

import typer

from holdfast.app import Holdfast
from holdfast.cli.trouble import FAILED, Trouble, usage
from holdfast.errors import SettingError, StoreUnavailable
from holdfast.settings import url_of
from holdfast.store.url import check_escaped, masked

ATTRIBUTE: Final = "app"
_MISSING: Final = re.compile(r'FATAL: +database "[^"]*" does not exist')
_TYPED: Final = "COMMANDLINE"


def load_app(target: str) -> Holdfast:
    """The app that `MODULE:APP` names, or one line that says why there is none."""
    name, _, attribute = target.partition(":")
    module = _import(name, target)
    found: Any = module
    for part in (attribute or ATTRIBUTE).split("."):
        found = getattr(found, part, None)
    if isinstance(found, Holdfast):
        return found
    what = "is not there" if found is None else f"is a {type(found).__name__}, not a Holdfast app"
    raise usage(f"{attribute or ATTRIBUTE!r} in module {name!r} {what}; {_apps_in(module, name)}")


def open_database(context: typer.Context, url: str | None, app: str | None) -> Holdfast:
    """For commands that ask about a database that exists."""
    return existing(choose_database(context, url, app))


def choose_database(context: typer.Context, url: str | None, app: str | None) -> Holdfast:
    """What was typed goes before what the environment says."""
    typed = [flag for flag in ("url", "app") if _is_typed(context, flag)]
    if len(typed) == 2:
        raise usage("--url and --app both name a database; give one of them")
    return load_app(app) if app and typed != ["url"] else Holdfast(_checked(url_of(url)))


def existing(app: Holdfast) -> Holdfast:
    """ClientPart about a database must not create one: a misspelt path would look like an empty queue."""
    is_file = app.store.dialect == "sqlite"
    if is_file and not os.path.exists(app.store.path):
        raise Trouble(f"there is no database at {app.store.path}; check --url, or create it with: {_migrate(app)}")
    if not is_file and version_of(app) == 0:
        raise Trouble(f"{app.store.path} has no Holdfast tables; check --url, or create them with: {_migrate(app)}")
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


def shown_url(app: Holdfast) -> str:
    """As it may be printed: a server's without user and password."""
    return app.url if app.store.dialect == "sqlite" else masked(app.url)


def _migrate(app: Holdfast) -> str:
    return f"holdfast migrate --url {shown_url(app)}"


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


def _import(name: str, target: str) -> ModuleType:
    if not name or not all(part.isidentifier() for part in name.split(".")):
        raise usage(f"{target!r} does not name an app; use MODULE:APP, for example {_guess(name)}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            hint = f"; did you mean {_guess(name)}?" if name.endswith(".py") else ""
            raise usage(f"there is no module {error.name!r}, neither in {os.getcwd()} nor installed{hint}") from None
        raise _broken(name, error) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise what it likes, SystemExit too
        raise _broken(name, error) from error


def _guess(name: str) -> str:
    stem = name.removesuffix(".py").strip("./").replace("/", ".")
    return f"{stem}:{ATTRIBUTE}" if stem and all(part.isidentifier() for part in stem.split(".")) else f"tasks:{ATTRIBUTE}"


def _broken(name: str, error: BaseException) -> Trouble:
    frames = traceback.extract_tb(error.__traceback__)
    place = next((frame for frame in reversed(frames) if not _is_machinery(frame.filename)), None)
    where = "" if place is None else f" ({os.path.relpath(place.filename)}, line {place.lineno})"
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    return Trouble(f"module {name!r} cannot be imported: {said}{where}; --traceback shows all of it", FAILED)


def _is_machinery(filename: str) -> bool:
    return filename == __file__ or filename.startswith("<") or os.path.dirname(filename).endswith("importlib")


def _apps_in(module: ModuleType, name: str) -> str:
    apps = [attribute for attribute, value in vars(module).items() if isinstance(value, Holdfast)]
    return f"the module has: {', '.join(f'{name}:{each}' for each in apps)}" if apps else "the module has no Holdfast app"
