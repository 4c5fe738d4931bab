"""How one run of a job ended, and what follows from it.

A run ends in a value (`Outcome`); `settle` decides, without a database or a clock, which move that makes; the store
writes it down. A task chooses its outcome by returning, by raising, or by raising one of the exceptions below.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from holdfast.domain.bounds import ERROR_MESSAGE_CHARS_MAX, NAME_CHARS_MAX, REASON_CHARS_MAX, TRACEBACK_CHARS_MAX
from holdfast.domain.retry import Duration, Retry, seconds_of
from holdfast.domain.secret import scrub
from holdfast.domain.states import FINAL, State, result_of
from holdfast.domain.text import clip


class Ending(Exception):
    """A task raises one of these to end its run on purpose."""


class RetryAfter(Ending):
    """Try again after so many seconds; costs an attempt, as any failed run does.

    whole_queue  What the job called wants nothing else for so long: no job of the queue starts until then, and then one at first.
                 That says nothing against this job, so it costs no attempt.
    """

    def __init__(self, seconds: Duration, reason: str = "asked to be tried again later", *, whole_queue: bool = False) -> None:
        super().__init__(reason)
        self.seconds = seconds_of("RetryAfter", seconds)
        self.reason, self.whole_queue = reason, whole_queue


class Snooze(Ending):
    """Not now: run again after so many seconds. Costs no attempt."""

    def __init__(self, seconds: Duration, reason: str = "") -> None:
        super().__init__(reason)
        self.seconds = seconds_of("Snooze", seconds)
        self.reason = reason


class Skip(Ending):
    """End the job on purpose; not an error."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Fatal(Ending):
    """Fail for good, whatever attempts are left."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Cancelled(Ending):
    """The job stopped because it was asked to, or asks to be counted as cancelled."""

    def __init__(self, reason: str = "cancelled by its task") -> None:
        super().__init__(reason)
        self.reason = reason


class JobError(msgspec.Struct, frozen=True):
    """Why an attempt failed, as text: an exception is never rebuilt from the store."""

    kind: str
    message: str
    traceback: str = ""

    @property
    def line(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


class Succeeded(msgspec.Struct, frozen=True, tag=True):
    result: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """`retryable` was decided where the exception's class is known; `after_seconds` overrides the policy's delay."""

    error: JobError
    retryable: bool = True
    after_seconds: float | None = None


class Snoozed(msgspec.Struct, frozen=True, tag=True):
    seconds: float
    reason: str = ""
    whole_queue: bool = False


class Skipped(msgspec.Struct, frozen=True, tag=True):
    reason: str


class WasCancelled(msgspec.Struct, frozen=True, tag=True):
    reason: str


class Released(msgspec.Struct, frozen=True, tag=True):
    """Handed back unfinished; costs no attempt."""

    reason: str


class Lost(msgspec.Struct, frozen=True, tag=True):
    """Its worker stopped renewing the lease, so how the run ended is not known."""

    message: str


Outcome = Succeeded | Failed | Snoozed | Skipped | WasCancelled | Released | Lost
WORKER_LOST: Final = "WorkerLost"
"""The kind of error that a lost run leaves behind."""


class Change(msgspec.Struct, frozen=True):
    """What the store has to write about a running job that ended its run."""

    verb: str
    state: State
    result: str | None = None
    reason: str | None = None
    error: JobError | None = None
    delay_seconds: float | None = None
    attempt_cost: int = 1
    data: dict[str, Any] | None = None
    whole_queue: bool = False
    """Nothing of the queue may start until the job does."""

    def measure(self) -> int:
        """About how many bytes it brings."""
        size = 0 if self.result is None else len(self.result)
        if self.error is not None:
            size += len(self.error.message) * 2 + len(self.error.traceback)
        return size

    @property
    def ends(self) -> bool:
        """Whether the job itself has ended, not only this run of it."""
        return self.state in FINAL


_SUCCEEDED: Final = result_of(State.RUNNING, "finish")


def settle(attempt: int, attempts_max: int, outcome: Outcome, retry: Retry, chance: float) -> Change:
    """The move that an outcome makes. `attempt` is the run that ended, `chance` places a delay within its jitter."""
    used_up = attempt >= attempts_max
    match outcome:
        case Succeeded(result=result):
            return Change("finish", _SUCCEEDED, result)
        case Failed(error=error, retryable=retryable, after_seconds=after):
            if used_up or not retryable:
                return _change("fail", reason=error.line, error=error, data=_seen(error, attempt, attempts_max))
            delay = retry.delay_seconds(attempt, chance) if after is None else after
            seen = {**_seen(error, attempt, attempts_max), "delay_seconds": round(delay, 3)}
            return _change("back_off", reason=error.line, error=error, delay_seconds=delay, data=seen)
        case Snoozed(seconds=seconds, reason=reason):
            data: dict[str, Any] = {"seconds": seconds, **({"reason": reason} if reason else {})}
            if outcome.whole_queue:
                data["stops_seconds"] = seconds
            return _change(
                "snooze", reason=reason or None, delay_seconds=seconds, attempt_cost=0, data=data, whole_queue=outcome.whole_queue
            )
        case Skipped(reason=reason):
            return _change("skip", reason=reason, data={"reason": reason})
        case WasCancelled(reason=reason):
            return _change("cancel", reason=reason, data={"reason": reason})
        case Released(reason=reason):
            return _change("release", attempt_cost=0, data={"reason": reason})
        case Lost(message=message):
            error = JobError(WORKER_LOST, f"{message}, in attempt {attempt} of {attempts_max}")
            seen = _seen(error, attempt, attempts_max)
            return _change("fail" if used_up else "expire", reason=error.line, error=error, data=seen)


def _seen(error: JobError, attempt: int, attempts_max: int) -> dict[str, Any]:
    return {"kind": error.kind, "message": error.message, "attempt": attempt, "attempts_max": attempts_max}


def _change(verb: str, **fields: Any) -> Change:
    return Change(verb=verb, state=result_of(State.RUNNING, verb), **fields)


def outcome_of(error: BaseException, retry: Retry, traceback: str = "", hidden: Iterable[str] = ()) -> Outcome:
    """What a raised exception means for the run that raised it; without the secrets that it may have quoted."""
    match error:
        case Snooze():
            return Snoozed(error.seconds, _reason(error, hidden))
        case Skip():
            return Skipped(_reason(error, hidden))
        case Cancelled():
            return WasCancelled(_reason(error, hidden))
        case RetryAfter(whole_queue=True):
            return Snoozed(error.seconds, _reason(error, hidden), whole_queue=True)
        case RetryAfter():
            return Failed(error_of(error, traceback, hidden), after_seconds=error.seconds)
        case Fatal():
            return Failed(error_of(error, traceback, hidden), retryable=False)
    return Failed(error_of(error, traceback, hidden), retryable=retry.wants(error))


def _reason(error: Ending, hidden: Iterable[str]) -> str:
    """Whatever was given as the reason, an exception for example, as text that can be stored."""
    return clip(error_of(error, hidden=hidden).message, REASON_CHARS_MAX)


def error_of(error: BaseException, traceback: str = "", hidden: Iterable[str] = ()) -> JobError:
    """An exception as text that can be stored, whatever it holds and however it prints."""
    kind = type(error).__qualname__
    if type(error).__module__ not in ("builtins", "__main__") and not isinstance(error, Ending):
        kind = f"{type(error).__module__}.{kind}"
    kind = clip(kind, NAME_CHARS_MAX)
    try:
        message = str(error)
    except Exception as second:
        message = f"(its message could not be read: {type(second).__name__})"
    message, traceback = scrub(message, hidden), scrub(traceback, hidden)
    return JobError(kind, clip(message, ERROR_MESSAGE_CHARS_MAX), clip(traceback, TRACEBACK_CHARS_MAX))
