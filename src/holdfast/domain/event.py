"""What happened to a job: numbered 1..n per job without a gap, in the order in which it was committed."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import msgspec

from holdfast.domain.bounds import NAME_CHARS_MAX
from holdfast.domain.states import EVENTS
from holdfast.domain.text import show
from holdfast.errors import SettingError

MOVED = frozenset(EVENTS.values())
PROGRESSED = "progress"
DROPPED = "events_dropped"
RESERVED_PREFIX = "holdfast."
"""Queues and tasks whose names begin like this are ours."""
_RESERVED = MOVED | {PROGRESSED, DROPPED}
_NAME = re.compile(rf"[A-Za-z0-9_.:-]{{1,{NAME_CHARS_MAX}}}")


class Event(msgspec.Struct, frozen=True):
    """One line of a job's log: `kind` is the move's name, `progress`, or the task's own word."""

    job: str
    """The id of the job."""
    number: int
    """1, 2, … within its job, without a gap."""
    kind: str
    """`enqueued`, `started`, `succeeded`, …, `progress`, or the word given to `ctx.emit`."""
    at: datetime
    """When it happened."""
    data: Any = None
    """What belongs to it, as plain JSON data."""
    cursor: str | None = None
    """In the feed of all jobs: where to go on from."""


def check_name(what: str, name: str) -> str:
    """Names of queues, tasks, tags and events go into URLs, logs and pages: a plain alphabet, at most 128 long."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingError(f"{what} {show(name)} is not a name: use 1 to {NAME_CHARS_MAX} letters, digits and _ . : -")
    return name


def check_own_name(what: str, name: str) -> str:
    """A name that users give: not one of ours."""
    if isinstance(name, str) and name.startswith(RESERVED_PREFIX):
        raise SettingError(f"{what} {show(name)}: names that begin with {RESERVED_PREFIX!r} are Holdfast's own; choose another")
    return check_name(what, name)


def check_emitted(kind: str) -> str:
    """A task's own events may have any name but those that record moves."""
    if kind in _RESERVED:
        raise SettingError(f"event {kind!r} is written by Holdfast itself; choose another word")
    return check_name("event", kind)
