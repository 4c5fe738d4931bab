"""Rows of the store as the domain's objects."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.domain.event import Event
from holdfast.domain.job import Attempt, Claimed, Decoders, Job, callback_status, moment_of
from holdfast.domain.key import Holder
from holdfast.domain.states import EVENTS, State
from holdfast.store.op import Row

_decode = msgspec.json.decode
_decode_errors = msgspec.json.Decoder(list[tuple[int, int, str, str, str]]).decode


def job_of(row: Row, decoders: Decoders) -> Job:
    """From the columns of the view `holdfast_full_job`, in its order."""
    (_, id, task, queue, _, state, priority, attempt, attempts_max, token, event_count, arguments, result, reason, progress,
     meter, key, tags, meta, parent, created_at, run_after, started_at, finished_at, errors,
     callback, callback_state) = row  # fmt: skip
    return Job(
        id=id,
        task=task,
        queue=queue,
        state=State(state),
        priority=priority,
        attempt=attempt,
        attempts_max=attempts_max,
        token=token,
        event_count=event_count,
        arguments_json=arguments,
        result_json=result,
        error=reason,
        errors=_errors(errors),
        **_described(progress, meter, key, tags, meta),
        parent=parent,
        callback=callback,
        callback_status=callback_status(callback, callback_state),
        created_at=moment_of(created_at),
        run_after=None if run_after is None else moment_of(run_after),
        started_at=None if started_at is None else moment_of(started_at),
        finished_at=None if finished_at is None else moment_of(finished_at),
        _decoders=decoders,
    )


def job_of_claimed(claimed: Claimed, task: str, queue: str, decoders: Decoders) -> Job:
    """The job as its holder sees it when it starts to run."""
    extras = claimed.extras
    return Job(
        id=claimed.id,
        task=task,
        queue=queue,
        state=State.RUNNING,
        priority=claimed.priority,
        attempt=claimed.attempt,
        attempts_max=claimed.attempts_max,
        token=claimed.token,
        arguments_json=claimed.arguments,
        error=extras.reason,
        **_described(extras.progress, extras.meter, extras.key, extras.tags, extras.meta),
        parent=extras.parent,
        callback=extras.callback,
        callback_status=callback_status(extras.callback, None),
        created_at=moment_of(claimed.created_at),
        run_after=None if extras.run_after is None else moment_of(extras.run_after),
        started_at=moment_of(claimed.started_at),
        _decoders=decoders,
    )


def job_of_key(holder: Holder, decoders: Decoders) -> Job:
    """What is left of a job that was pruned while its key lives on: its id and how it ended."""
    return Job(
        id=holder.id,
        task=holder.task,
        queue=holder.queue,
        state=State(holder.ended or State.SUCCEEDED),
        priority=0,
        attempt=0,
        attempts_max=0,
        token=0,
        created_at=moment_of(holder.created_at),
        event_count=0,
        pruned=True,
        _decoders=decoders,
    )


def first_event(id: str, created_at: int, scheduled_for: int | None, cursor: str | None = None) -> Event:
    """Number 1, which is not stored: the job itself is it."""
    kind = EVENTS["enqueue" if scheduled_for is None else "schedule"]
    return Event(job=id, number=1, kind=kind, at=moment_of(created_at), cursor=cursor)


def event_of(id: str, row: Row, cursor: str | None = None) -> Event:
    number, kind, at, data = row
    return Event(job=id, number=number, kind=kind, at=moment_of(at), data=None if data is None else _decode(data), cursor=cursor)


def _described(progress: str | None, meter: str | None, key: str | None, tags: str | None, meta: str | None) -> dict[str, Any]:
    return {
        "progress": _decode(progress) if progress else {},
        "meter": _decode(meter) if meter else {},
        "key": tuple(_decode(key)) if key else None,
        "tags": tuple(_decode(tags)) if tags else (),
        "meta": _decode(meta) if meta else {},
    }


def _errors(text: str | None) -> tuple[Attempt, ...]:
    if not text or text == "[]":
        return ()
    rows = _decode_errors(text)
    return tuple(Attempt(moment_of(at), attempt, kind, message, trace) for at, attempt, kind, message, trace in rows)
