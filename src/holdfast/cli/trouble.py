"""Every mistake is one line on stderr: what was wrong, with the value, and what to do."""

from __future__ import annotations

import sys
from typing import Any, Final

import typer

from holdfast.domain.sanitize import one_line
from holdfast.errors import HoldfastError, PayloadError, SettingError, UnknownTask

FAILED: Final = 1
USAGE: Final = 2

# typer brings its own copy of click since 0.26 and used the real one before: both are reached through what it exports.
ClickError: Final[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class Trouble(Exception):
    """A line for the user and the exit code that goes with it."""

    def __init__(self, line: str, code: int = FAILED) -> None:
        super().__init__(line)
        self.code = code


def usage(line: str) -> Trouble:
    return Trouble(line, USAGE)


def trouble_of(error: Exception) -> Trouble:
    """Any exception as a line and a code."""
    if isinstance(error, Trouble):
        return error
    if isinstance(error, ClickError):
        return usage(_usage_line(error))
    if isinstance(error, SettingError | PayloadError | UnknownTask):
        return usage(str(error))
    if isinstance(error, HoldfastError | TimeoutError):
        return Trouble(str(error))
    if isinstance(error, OSError):
        return Trouble(f"{error.filename or 'the system'}: {error.strerror or error}")
    return Trouble(f"unexpected {type(error).__name__}: {error}; --traceback shows where")


def report(error: Exception) -> int:
    """Print the line; the exit code."""
    trouble = trouble_of(error)
    sys.stderr.write(f"holdfast: {one_line(str(trouble))}\n")
    sys.stderr.flush()
    return trouble.code


def _usage_line(error: Any) -> str:
    said = str(error.format_message()).strip().rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "holdfast"
    said = f"{said[:1].lower()}{said[1:]}".replace(". Did you mean", "; did you mean")
    return f"{said} See: {command} --help" if said.endswith("?") else f"{said}; see: {command} --help"
