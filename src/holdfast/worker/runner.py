"""Running one job is a sentence that ends in a value: load the arguments, call the function, name the outcome.

Whatever the code of a task does, its run ends: nothing is raised from here, not even what would end a program.
"""

from __future__ import annotations

import asyncio
import contextvars
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter_ns
from typing import Any

from holdfast.domain import codec
from holdfast.domain.bounds import REASON_CHARS_MAX
from holdfast.domain.outcome import Failed, JobError, Outcome, Released, Snoozed, Succeeded, error_of, outcome_of
from holdfast.domain.secret import scrub, secrets_in
from holdfast.domain.signature import UnknownArgument
from holdfast.domain.text import HIDDEN, clip
from holdfast.errors import PayloadError
from holdfast.worker.current import RUNNING
from holdfast.worker.desk import Run
from holdfast.worker.timing import NEWER_SECONDS, NEWER_SECONDS_MAX

Call = Callable[[Run, Callable[[Run], Any]], Outcome]
AsyncCall = Callable[[Run, Callable[[Run], Any]], Awaitable[Outcome]]

# Refused, and so without effect, if the transaction of ctx.finish was committed.
ROLLED_BACK = Failed(JobError("RolledBack", "ctx.finish(on=...) was called, but its transaction was not committed"))
INTERRUPTED = Released("stopped before it was finished")
UNREADABLE = Failed(JobError("UnreadableError", "what its code raised cannot be told: reading it raises again"), retryable=False)


def call(run: Run, context: Callable[[Run], Any]) -> Outcome:
    """A plain function, in this thread, in a copy of its context."""
    before, shown = RUNNING.set(run), HIDDEN.set(tuple)
    try:
        args, kwargs = _load(run, context)
        HIDDEN.set(partial(_hidden, run))
        try:
            began = perf_counter_ns()
            try:
                value = contextvars.copy_context().run(run.task.fn, *args, **kwargs)
            finally:
                run.micros = (perf_counter_ns() - began) // 1000
            return returned(run, value)
        except BaseException as error:
            return raised(error, run)
    except BaseException as error:
        return put_off(error, run) or broken(error)
    finally:
        RUNNING.reset(before)
        HIDDEN.reset(shown)


async def acall(run: Run, context: Callable[[Run], Any]) -> Outcome:
    """A coroutine function, in this event loop, in an asyncio task of its own; cancelling it is how it is stopped."""
    RUNNING.set(run)
    try:
        args, kwargs = _load(run, context)
        HIDDEN.set(partial(_hidden, run))
        try:
            began = perf_counter_ns()
            try:
                value = await run.task.fn(*args, **kwargs)
            finally:
                run.micros = (perf_counter_ns() - began) // 1000
            return returned(run, value)
        except asyncio.CancelledError as error:
            if run.stopping is not None:
                return INTERRUPTED
            trace = scrub(_trace(error), _hidden(run))
            return Failed(JobError("CancelledError", "the task's code cancelled itself", trace))
        except BaseException as error:
            return raised(error, run)
    except BaseException as error:
        return put_off(error, run) or broken(error)


def _load(run: Run, context: Callable[[Run], Any]) -> tuple[list[Any], dict[str, Any]]:
    args, kwargs = run.task.signature.load(run.claimed.arguments)
    if run.task.takes_context:
        args.insert(0, context(run))
    return args, kwargs


def returned(run: Run, value: Any) -> Outcome:
    """A result that cannot be stored is a failure with that reason: the job reaches an end in any case."""
    if run.context is not None and run.context.finished:
        return ROLLED_BACK
    try:
        return Succeeded(run.task.signature.encode_result(value))
    except PayloadError as error:  # it quotes what cannot be stored, which may be an argument
        return Failed(error_of(error, hidden=_hidden(run)), retryable=False)


def raised(error: BaseException, run: Run) -> Outcome:
    """What its code raised may quote its arguments: the secret ones are taken out."""
    return outcome_of(error, run.task.retry, _trace(error), _hidden(run))


def _hidden(run: Run) -> set[str]:
    return secrets_in(codec.decode(run.claimed.arguments), run.task.signature.secrets)


def put_off(error: BaseException, run: Run) -> Outcome | None:
    """An argument that this program's function does not take, of a young job: a newer worker of a deploy under way may know it.

    At no cost of an attempt, later and later; None: no other worker took it within NEWER_SECONDS_MAX, so the job fails.
    """
    if not isinstance(error, UnknownArgument) or run.began_at is None:
        return None
    age = (run.began_at - run.claimed.created_at) / 1e6
    if age >= NEWER_SECONDS_MAX:
        return None
    low, high = NEWER_SECONDS
    reason = f"left to a newer worker, for {NEWER_SECONDS_MAX / 60:g} minutes after it was enqueued: {error}"
    return Snoozed(min(high, max(low, age)), clip(reason, REASON_CHARS_MAX))


def broken(error: BaseException) -> Outcome:
    """It could not be called, or what it raised cannot be made an outcome of: trying again would not help."""
    try:
        return Failed(error_of(error, "" if isinstance(error, PayloadError) else _trace(error)), retryable=False)
    except BaseException:
        return UNREADABLE


def _trace(error: BaseException) -> str:
    """The traceback from the task's own code on: our frames are of no use to its author."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except BaseException:
        return ""
