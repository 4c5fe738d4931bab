"""A job as its users see it (`Job`), as it is asked for (`NewJob`), and as its worker gets it (`Claimed`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Literal

import msgspec

from holdfast.domain.bounds import ID_CHARS_MAX
from holdfast.domain.key import Key, Part
from holdfast.domain.outcome import JobError
from holdfast.domain.secret import marks_of, redact, secrets_in
from holdfast.domain.states import FINAL, State
from holdfast.domain.text import show
from holdfast.errors import SettingError

_OURS = re.compile(r"[0-9a-f]{32}")
_CALLERS = re.compile(rf"[A-Za-z0-9_.:@/+=-]{{1,{ID_CHARS_MAX}}}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

CallbackStatus = Literal["pending", "delivered", "failed"]

Thaw = Callable[[str], Any]
"""Turns stored JSON back into a value, typed by the task's annotations where the task is known."""


class Options(msgspec.Struct, frozen=True):
    """Everything about a new job but its arguments; shared by all jobs of one `using(...)`."""

    task: str
    queue: str
    priority: int
    attempts: int
    run_at: int | None = None
    """Wall microseconds before which it must not run."""
    delay: int = 0
    """Microseconds from the moment of enqueueing; used when `run_at` is None."""
    id: str | None = None
    key: Key | None = None
    tags: tuple[str, ...] = ()
    meta: str | None = None
    parent: str | None = None
    callback: str | None = None

    @property
    def is_ready(self) -> bool:
        """Whether such a job may run at once, whatever the time is."""
        return self.run_at is None and not self.delay


class NewJob(msgspec.Struct, frozen=True):
    """One request to run a task: made by `task.bind(...)`, accepted by `enqueue` and `enqueue_many`."""

    options: Options
    arguments: str


class Rest(msgspec.Struct, array_like=True, frozen=True):
    """What most jobs do not have; the last column of a claim."""

    run_after: int | None = None
    progress: str | None = None
    meter: str | None = None
    key: str | None = None
    tags: str | None = None
    meta: str | None = None
    parent: str | None = None
    reason: str | None = None
    callback: str | None = None


class Claimed(msgspec.Struct, array_like=True, frozen=True):
    """A job as the claim hands it to its holder; its fields are the columns of `claimed.sql` and `claim_jobs.sql`."""

    seq: int
    token: int
    lane: int
    id: str
    arguments: str
    attempt: int
    attempts_max: int
    priority: int
    created_at: int
    started_at: int
    rest: Rest | None


NOTHING = Rest()


class Attempt(msgspec.Struct, frozen=True):
    """One failed attempt of a job."""

    at: datetime
    attempt: int
    kind: str
    message: str
    traceback: str


class Job:
    """A job, as it was when it was read. It does not change by itself: `app.get(job.id)` reads it again."""

    def __init__(
        self,
        *,
        id: str,
        task: str,
        queue: str,
        state: State,
        priority: int,
        attempt: int,
        attempts_max: int,
        token: int,
        arguments: str | None,
        created_at: datetime,
        thaw_arguments: Thaw,
        thaw_result: Thaw,
        result: str | None = None,
        error: str | None = None,
        errors: tuple[Attempt, ...] = (),
        event_count: int = 1,
        progress: dict[str, Any] | None = None,
        meter: dict[str, float] | None = None,
        key: tuple[Part, ...] | None = None,
        tags: tuple[str, ...] = (),
        meta: dict[str, Any] | None = None,
        parent: str | None = None,
        callback: str | None = None,
        callback_status: CallbackStatus | None = None,
        run_after: datetime | None = None,
        started_at: datetime | None = None,
        finished_at: datetime | None = None,
        created: bool = False,
        same_arguments: bool = True,
    ) -> None:
        self.id, self.task, self.queue, self.state, self.priority = id, task, queue, state, priority
        self.attempt, self.attempts_max, self.token = attempt, attempts_max, token
        self.error, self.errors, self.event_count = error, errors, event_count
        self.progress: dict[str, Any] = progress or {}
        self.meter: dict[str, float] = meter or {}
        self.meta: dict[str, Any] = meta or {}
        self.key, self.tags, self.parent = key, tags, parent
        self.callback, self.callback_status = callback, callback_status
        self.created_at, self.run_after = created_at, run_after
        self.started_at, self.finished_at = started_at, finished_at
        self.created, self.same_arguments = created, same_arguments
        self._arguments, self._result = arguments, result
        self._thaw_arguments, self._thaw_result = thaw_arguments, thaw_result
        self._created = 0  # of who was cast, and not asked yet

    def mould(self) -> dict[str, Any]:
        """For `cast`."""
        return {name: value for name, value in self.__dict__.items() if name != "created_at"}

    @classmethod
    def cast(cls, mould: dict[str, Any], id: str, arguments: str, created: int) -> Job:
        """Another new job with the same options and no meta; a fifth of what `__init__` takes."""
        job = cls.__new__(cls)
        job.__dict__ = {
            **mould, "id": id, "_arguments": arguments, "_created": created, "progress": {}, "meter": {}, "meta": {},
        }  # fmt: skip
        return job

    @cached_property
    def created_at(self) -> datetime:
        return moment_of(self._created)

    @property
    def handle(self) -> str:
        """16 hex digits for logs."""
        return handle_of(self.id)

    @property
    def arguments(self) -> Any:
        """By parameter name, only those that were given."""
        return {} if self._arguments is None else self._thaw_arguments(self._arguments)

    @property
    def result(self) -> Any:
        return None if self._result is None else self._thaw_result(self._result)

    @property
    def shown_arguments(self) -> Any:
        """The arguments as plain JSON data, without what is secret: for everybody but the task."""
        return redact(msgspec.json.decode(self.arguments_json), marks_of(self._thaw_arguments))

    @property
    def shown_result(self) -> Any:
        """The result likewise."""
        return None if self._result is None else redact(msgspec.json.decode(self._result), marks_of(self._thaw_result))

    @property
    def secrets(self) -> set[str]:
        """The texts that `shown_arguments` leaves out."""
        return secrets_in(msgspec.json.decode(self.arguments_json), marks_of(self._thaw_arguments))

    @property
    def arguments_json(self) -> str:
        """The arguments exactly as they are stored."""
        return self._arguments or "{}"

    @property
    def result_json(self) -> str | None:
        """The result exactly as it is stored."""
        return self._result

    @property
    def final(self) -> bool:
        return self.state in FINAL

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.task} {self.state} attempt {self.attempt}/{self.attempts_max}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


class Lease:
    """A claim on one job: whoever has the current token may write about it, nobody else."""

    __slots__ = ("expires_at", "job", "seconds", "seq", "token", "worker")

    def __init__(self, job: Job, seq: int, token: int, worker: int, seconds: float, expires_at: datetime) -> None:
        self.job, self.seq, self.token, self.worker = job, seq, token, worker
        self.seconds, self.expires_at = seconds, expires_at

    def __repr__(self) -> str:
        return f"<Lease on {self.job.id} token {self.token} until {self.expires_at:%H:%M:%S}>"


def handle_of(id: str) -> str:
    """The end of an id of ours, a digest of one that the caller chose."""
    if _OURS.fullmatch(id):
        return id[-16:]
    return hashlib.blake2b(id.encode(), digest_size=8).hexdigest()


def check_id(id: str) -> str:
    if not isinstance(id, str) or not _CALLERS.fullmatch(id):
        raise SettingError(f"job id {show(id)} cannot be used: 1 to {ID_CHARS_MAX} letters, digits and _ . : @ / + = -")
    return id


def callback_status(callback: str | None, state: str | None) -> CallbackStatus | None:
    """What became of telling a job's end to its callback; `state` is that of the newest job that does so, if there is one."""
    if callback is None:
        return None
    if state is None or state not in FINAL:
        return "pending"
    return "delivered" if state == State.SUCCEEDED else "failed"


def micros_of(moment: datetime) -> int:
    """An aware datetime as wall microseconds; a naive one is refused, since nobody knows which instant it means."""
    if moment.tzinfo is None:
        raise SettingError(f"datetime {moment.isoformat()} has no timezone; use for example datetime.now(UTC)")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(micros: int) -> datetime:
    return _EPOCH + timedelta(0, 0, micros)


__all__ = [
    "Attempt", "CallbackStatus", "Claimed", "Job", "JobError", "Lease", "NewJob", "Options", "callback_status", "check_id",
    "handle_of", "micros_of", "moment_of",
]  # fmt: skip
