"""A job as its users see it (`Job`), as it is asked for (`NewJob`), and as its worker gets it (`Claimed`)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, cast

import msgspec

from holdfast.domain.bounds import ID_CHARS_MAX
from holdfast.domain.key import Key, Part
from holdfast.domain.outcome import JobError
from holdfast.domain.secret import marks_of, redact, secrets_in
from holdfast.domain.states import FINAL, State
from holdfast.domain.text import show
from holdfast.errors import SettingError

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R_co = TypeVar("R_co", default=Any, covariant=True)  # checkers know it without the package: plain `Job` is `Job[Any]`
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)

_OURS = re.compile(r"[0-9a-f]{32}")
_CALLERS = re.compile(rf"[A-Za-z0-9_.:@/+=-]{{1,{ID_CHARS_MAX}}}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

CallbackStatus = Literal["pending", "delivered", "failed"]

Decode = Callable[[str], Any]
"""Turns stored JSON into a value."""


class Decoders:
    """How stored arguments and results of a task become values; of a task that is not known here, plain JSON."""

    def arguments(self, task: str) -> Decode:
        return msgspec.json.decode

    def result(self, task: str) -> Decode:
        return msgspec.json.decode


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
    tags_json: str | None = None
    meta: str | None = None
    parent: str | None = None
    callback: str | None = None
    wait: float = 0.0
    """Seconds for which its enqueue waits for room in a full queue."""

    def run_after(self, now: int) -> int | None:
        """Wall microseconds before which it must not run; None: it is ready at once."""
        run_at = now + self.delay if self.run_at is None else self.run_at
        return run_at if run_at > now else None

    @property
    def is_alike(self) -> bool:
        """Whether jobs with these options differ in nothing but their arguments."""
        return self.key is None and self.id is None and not self.tags

    @property
    def is_simple(self) -> bool:
        """Whether such a job is nothing but its task and arguments, and ready whatever the time is."""
        return self.is_alike and self.callback is None and self.run_at is None and not self.delay


class NewJob(msgspec.Struct, frozen=True):
    """One request to run a task: made by `task.bind(...)`, accepted by `enqueue` and `enqueue_many`."""

    options: Options
    arguments: str


class Extras(msgspec.Struct, array_like=True, frozen=True):
    """What most jobs do not have."""

    run_after: int | None = None
    progress: str | None = None
    meter: str | None = None
    key: str | None = None
    tags: str | None = None
    meta: str | None = None
    parent: str | None = None
    reason: str | None = None
    callback: str | None = None


NO_EXTRAS: Final = Extras()
_decode_extras = msgspec.json.Decoder(Extras).decode


class Claimed(NamedTuple):
    """A job as the claim gives it to its holder: the columns of `claim_jobs`."""

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
    more: str | None
    """JSON of `extras`, if the job has any."""

    @property
    def extras(self) -> Extras:
        return NO_EXTRAS if self.more is None else _decode_extras(self.more)


_PLAIN: Final = Decoders()


class Attempt(msgspec.Struct, frozen=True):
    """One failed attempt of a job."""

    at: datetime
    """When it ended."""
    attempt: int
    """Which one, from 1."""
    kind: str
    """The class of the exception."""
    message: str
    """Its text, without secrets."""
    traceback: str
    """From the task's own code on; empty if there is none."""


class Job(msgspec.Struct, Generic[R_co], kw_only=True, eq=False):
    """A job, as it was when it was read. It does not change by itself: `app.get(job)` reads it again.

    For type checkers `Job[R]` is the job of a task that returns R.
    """

    id: str
    """Its name in the store: chosen with `using(id=...)`, else 32 hex digits."""
    task: str
    """The name of its task."""
    queue: str
    """Where it waits, or waited, for a worker."""
    state: State
    """Where it stands; see `State`."""
    priority: int
    """A lower number runs first; the default is 100."""
    attempt: int
    """How many runs were counted, the one under way included."""
    attempts_max: int
    """How many runs it may have in all."""
    token: int
    """Grows by one with every claim: a fencing number."""
    created_at: datetime
    """When it was accepted."""
    arguments_json: str = "{}"
    """The arguments exactly as they are stored."""
    result_json: str | None = None
    """The result exactly as it is stored."""
    error: str | None = None
    """Why it failed, was skipped or cancelled, in one line; while it waits for its next attempt, why the last one failed."""
    errors: tuple[Attempt, ...] = ()
    """One for each failed attempt that is kept, the oldest first."""
    event_count: int = 1
    """How many events its log has."""
    progress: dict[str, Any] = {}
    """What `ctx.progress` reported last."""
    meter: dict[str, float] = {}
    """What `ctx.meter` summed up."""
    key: tuple[Part, ...] | None = None
    """The parts of its idempotency key."""
    tags: tuple[str, ...] = ()
    """The names given with `using(tags=...)`."""
    meta: dict[str, Any] = {}
    """The data given with `using(meta=...)`."""
    parent: str | None = None
    """The id given with `using(parent=...)`."""
    callback: str | None = None
    """The URL that is called when it has ended."""
    callback_status: CallbackStatus | None = None
    """How that went; None without a callback."""
    run_after: datetime | None = None
    """Not before this time: it was delayed, or waits for its next attempt."""
    started_at: datetime | None = None
    """When the code of its last attempt began; while that runs, when it was claimed, as the event `started` has it."""
    finished_at: datetime | None = None
    """When that code ended, if it ended the job; the last event has when that was committed."""
    created: bool = False
    """Whether the call that returned this job made it; False: its key had it already, or it was read."""
    same_arguments: bool = True
    """False: the job that has this key was asked for with other arguments."""
    pruned: bool = False
    """True: its record was removed by `retention` or `prune`, and its key lives on: id, task and state are all that is left."""
    _decoders: Decoders = _PLAIN

    @property
    def handle(self) -> str:
        """16 hex digits for logs."""
        return handle_of(self.id)

    @property
    def arguments(self) -> Any:
        """By parameter name, only those that were given."""
        return self._decoders.arguments(self.task)(self.arguments_json)

    @property
    def result(self) -> R_co:
        """What the task returned, typed by its annotation; None before it has succeeded."""
        return cast("R_co", None if self.result_json is None else self._decoders.result(self.task)(self.result_json))

    @property
    def shown_arguments(self) -> Any:
        """The arguments as plain JSON data, without what is secret: for everybody but the task."""
        return redact(msgspec.json.decode(self.arguments_json), marks_of(self._decoders.arguments(self.task)))

    @property
    def shown_result(self) -> Any:
        """The result likewise."""
        marks = marks_of(self._decoders.result(self.task))
        return None if self.result_json is None else redact(msgspec.json.decode(self.result_json), marks)

    @property
    def secrets(self) -> set[str]:
        """The texts that `shown_arguments` leaves out."""
        return secrets_in(msgspec.json.decode(self.arguments_json), marks_of(self._decoders.arguments(self.task)))

    @property
    def final(self) -> bool:
        """Whether it has ended: succeeded, failed, cancelled or skipped."""
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
    "Attempt", "CallbackStatus", "Claimed", "Decoders", "Extras", "Job", "JobError", "Lease", "NewJob", "Options",
    "callback_status", "check_id", "handle_of", "micros_of", "moment_of",
]  # fmt: skip
