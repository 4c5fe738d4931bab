"""What somebody wants to be run: the body of `POST /api/jobs`, checked against the task's own signature.

A body that does not fit is refused with the place of the fault in it, as a JSON pointer.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from holdfast.domain.bounds import (
    ATTEMPTS_MAX,
    CALLBACK_CHARS_MAX,
    ID_CHARS_MAX,
    PRIORITY_MAX,
    REASON_CHARS_MAX,
    SECONDS_MAX,
    TAGS_MAX,
)
from holdfast.domain.job import NewJob, Options
from holdfast.domain.key import Key
from holdfast.errors import PayloadError, SettingError
from holdfast.registry import AnyTask
from holdfast.task import changed
from holdfast.web.problem import Problem, misfit

T = TypeVar("T")

NAME_PATTERN: Final = r"^[A-Za-z0-9_.:-]{1,128}$"
ID_PATTERN: Final = rf"^[A-Za-z0-9_.:@/+=-]{{1,{ID_CHARS_MAX}}}$"
_STEP: Final = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_YEAR_MAX: Final = 2999

Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
Id = Annotated[str, Meta(pattern=ID_PATTERN)]
Part = Annotated[str, Meta(max_length=1_000)] | int
Parts = Annotated[list[Part], Meta(min_length=1, max_length=32)]
Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]


class KeyWanted(msgspec.Struct, forbid_unknown_fields=True):
    """A key with what it means: how long it holds, and what happens to whoever comes second."""

    parts: Parts
    scope: Literal["forever", "active"] | Annotated[float, Meta(gt=0, le=SECONDS_MAX)] = "forever"
    conflict: Literal["return", "raise", "replace"] = "return"
    failed: Literal["free", "hold"] = "free"

    def key(self) -> Key:
        return Key(*self.parts, scope=self.scope, conflict=self.conflict, failed=self.failed)


class JobWanted(msgspec.Struct, forbid_unknown_fields=True):
    """A new job: a task, its arguments, and any option of `using` by its name."""

    task: Name
    args: list[Any] = msgspec.field(default_factory=list)
    kwargs: dict[str, Any] = msgspec.field(default_factory=dict)
    key: Parts | KeyWanted | None = None
    priority: Annotated[int, Meta(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] | None = None
    run_after: Annotated[datetime, Meta(tz=True)] | Seconds | None = None
    queue: Name | None = None
    attempts: Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)] | None = None
    id: Id | None = None
    tags: Annotated[list[Name], Meta(max_length=TAGS_MAX)] | None = None
    meta: dict[str, Any] | None = None
    parent: Id | None = None
    callback: Annotated[str, Meta(max_length=CALLBACK_CHARS_MAX)] | None = None


Why = Annotated[str, Meta(min_length=1, max_length=REASON_CHARS_MAX)]


class SkipWanted(msgspec.Struct, forbid_unknown_fields=True):
    """Why a job is skipped: kept with it and in its event."""

    reason: Why


class CancelWanted(msgspec.Struct, forbid_unknown_fields=True):
    """Why a job is cancelled: kept with it and in its event."""

    reason: Why = "cancelled by request"


_OPTIONS: Final = ("key", "priority", "run_after", "queue", "attempts", "id", "tags", "meta", "parent", "callback")
_decode_wanted: Final = msgspec.json.Decoder(JobWanted).decode
_decode_skip: Final = msgspec.json.Decoder(SkipWanted).decode
_decode_cancel: Final = msgspec.json.Decoder(CancelWanted).decode


def read_wanted(body: bytes) -> JobWanted:
    return read_body(_decode_wanted, body)


def read_skip(body: bytes) -> str:
    return read_body(_decode_skip, body or b"{}").reason


def read_cancel(body: bytes) -> str:
    """The body may be left out."""
    return read_body(_decode_cancel, body or b"{}").reason


def new_job(task: AnyTask, wanted: JobWanted, key: Key | None) -> NewJob:
    """The job that this body asks for, under `key` if the request brought one apart from its body."""
    return NewJob(_options(task, wanted, key), _arguments(task, wanted))


def _options(task: AnyTask, wanted: JobWanted, key: Key | None) -> Options:
    options = task.options
    for name in _OPTIONS:
        value = getattr(wanted, name)
        if value is None:
            continue
        try:
            options = changed(options, **{name: _option(value)})
        except SettingError as error:
            raise misfit(f"/{name}", str(error)) from None
    return options if key is None else changed(options, key=key)


def _option(value: Any) -> Any:
    if isinstance(value, KeyWanted):
        return value.key()
    if isinstance(value, datetime) and value.year > _YEAR_MAX:
        raise SettingError(f"run_after {value.isoformat()} is after the year {_YEAR_MAX}; that is too far")
    return value


def _arguments(task: AnyTask, wanted: JobWanted) -> str:
    try:
        return task.signature.bind(tuple(wanted.args), wanted.kwargs)
    except PayloadError as error:
        raise misfit(_place(task, wanted, error), str(error)) from None


def _place(task: AnyTask, wanted: JobWanted, error: PayloadError) -> str:
    """Where in the body the argument is that does not fit."""
    name, steps = error.argument, _steps(error.place)
    if name is None:
        return "/args" if wanted.args and not wanted.kwargs else "/kwargs"
    if name.startswith("**"):
        return _pointer("kwargs", *steps)
    names = list(inspect.signature(task.fn).parameters)[int(task.takes_context) :]
    position = names.index(name.lstrip("*")) if name.lstrip("*") in names else len(wanted.args)
    if name.startswith("*"):
        return _pointer("args", *([str(position + int(steps[0])), *steps[1:]] if steps else []))
    given = name not in wanted.kwargs and position < len(wanted.args)
    return _pointer("args", str(position), *steps) if given else _pointer("kwargs", name, *steps)


def read_body(decode: Callable[[bytes], T], body: bytes) -> T:
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at `")
        steps = _steps(place.rstrip("`").removeprefix("key` in `").removeprefix("$"))
        raise misfit(_pointer(*steps), _plain(said)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    except RecursionError:
        raise Problem(400, "the body is nested too deeply; keep it within 64 levels") from None


def _plain(said: str) -> str:
    return said[:1].lower() + said[1:].replace("`", "")


def _steps(place: str) -> list[str]:
    """`.pages[0]['a/b']` step by step."""
    return [word or index.strip("'\"") for word, index in _STEP.findall(place)]


def _pointer(*steps: str) -> str:
    return "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps)
