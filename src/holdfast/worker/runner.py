"""Running one job is a sentence that ends in a value: load the arguments, call the function, name the outcome."""

from __future__ import annotations

import asyncio
import contextvars
import traceback
from collections.abc import Callable
from typing import Any

from holdfast.domain.outcome import Failed, JobError, Outcome, Released, Succeeded, error_of, outcome_of
from holdfast.domain.retry import Retry
from holdfast.errors import PayloadError
from holdfast.worker.desk import Run

# Refused, and so without effect, if the transaction of ctx.finish was committed.
ROLLED_BACK = Failed(JobError("RolledBack", "ctx.finish(on=...) was called, but its transaction was not committed"))
INTERRUPTED = Released("stopped before it was finished")


def call(run: Run, context: Callable[[Run], Any]) -> Outcome:
    """A plain function, in this thread."""
    task = run.task
    try:
        args, kwargs = task.signature.load(run.claimed.arguments)
    except PayloadError as error:
        return Failed(error_of(error), retryable=False)
    if task.takes_context:
        args.insert(0, context(run))
    try:
        value = contextvars.copy_context().run(task.fn, *args, **kwargs)
        return returned(run, value)
    except BaseException as error:
        return raised(error, task.retry)


async def acall(run: Run, context: Callable[[Run], Any]) -> Outcome:
    """A coroutine function, in this event loop; cancelling it is how it is stopped."""
    task = run.task
    try:
        args, kwargs = task.signature.load(run.claimed.arguments)
    except PayloadError as error:
        return Failed(error_of(error), retryable=False)
    if task.takes_context:
        args.insert(0, context(run))
    try:
        return returned(run, await task.fn(*args, **kwargs))
    except asyncio.CancelledError as error:
        if run.stopping is not None:
            return INTERRUPTED
        return Failed(JobError("CancelledError", "the task's code cancelled itself", _trace(error)))
    except BaseException as error:
        return raised(error, task.retry)


def returned(run: Run, value: Any) -> Outcome:
    """A result that cannot be stored is a failure with that reason: the job reaches an end in any case."""
    if run.context is not None and run.context.finished:
        return ROLLED_BACK
    try:
        return Succeeded(run.task.signature.encode_result(value))
    except PayloadError as error:
        return Failed(error_of(error), retryable=False)


def raised(error: BaseException, retry: Retry) -> Outcome:
    return outcome_of(error, retry, _trace(error))


def _trace(error: BaseException) -> str:
    """The traceback from the task's own code on: our frames are of no use to its author."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    try:
        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception:
        return ""
