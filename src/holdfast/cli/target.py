"""From `MODULE:APP` to an app. The module is looked for in the working directory first."""

from __future__ import annotations

import importlib
import os
import re
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from holdfast.app import Holdfast
from holdfast.cli.trouble import FAILED, Trouble, usage

ATTRIBUTE: Final = "app"
FILES_MAX: Final = 100
_MADE_HERE: Final = re.compile(r"^(\w+)(?:\s*:[^=\n]+)?\s*=\s*(?:\w+\.)?Holdfast\(", re.MULTILINE)


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


def example_target() -> str:
    """For a remedy: the first app that a file of this directory seems to make, else one that reads as an example."""
    for path in sorted(Path().glob("*.py"))[:FILES_MAX]:
        with suppress(OSError, UnicodeDecodeError):
            if path.stem.isidentifier() and (made := _MADE_HERE.search(path.read_text(encoding="utf-8"))):
                return f"{path.stem}:{made[1]}"
    return f"tasks:{ATTRIBUTE}"
