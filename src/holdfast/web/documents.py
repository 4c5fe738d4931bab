"""A job and its events as JSON over HTTP. The types here are also what the OpenAPI document says about the answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from holdfast.domain.event import Event
from holdfast.domain.job import Attempt, CallbackStatus, Job
from holdfast.domain.secret import redact

Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"}, examples=["2030-01-31T12:00:00.123456+00:00"])]
StateName = Literal["scheduled", "ready", "running", "waiting", "succeeded", "failed", "cancelled", "skipped"]


class AttemptDocument(TypedDict):
    """One attempt that failed."""

    at: Moment
    attempt: int
    kind: str
    message: str
    traceback: str


class JobDocument(TypedDict):
    """A job, as it was when it was read."""

    id: str
    handle: Annotated[str, Field(description="16 hex digits for logs.")]
    task: str
    queue: str
    state: StateName
    priority: Annotated[int, Field(description="A lower number runs first.")]
    attempt: int
    attempts_max: int
    token: Annotated[int, Field(description="Grows by one whenever a worker takes the job.")]
    event_count: Annotated[int, Field(description="The number of its latest event.")]
    arguments: Annotated[dict[str, Any], Field(description="By parameter; only those that were given.")]
    result: Annotated[Any, Field(description="What the task returned.")]
    error: Annotated[str | None, Field(description="Why it failed, was cancelled or skipped.")]
    errors: list[AttemptDocument]
    progress: dict[str, Any]
    meter: dict[str, float]
    key: list[str | int] | None
    tags: list[str]
    meta: dict[str, Any]
    parent: str | None
    callback: Annotated[str | None, Field(description="The URL that is told when it has ended.")]
    callback_status: CallbackStatus | None
    created_at: Moment
    run_after: Moment | None
    started_at: Moment | None
    finished_at: Moment | None


class AcceptedDocument(JobDocument):
    """A job, and whether it was made now or had been there under its key."""

    created: bool
    same_arguments: Annotated[bool, Field(description="False: the job that has this key was asked for with other arguments.")]


class EventDocument(TypedDict):
    """One line of a job's log; numbered from 1 without a gap."""

    job: str
    number: int
    kind: Annotated[str, Field(description="The move that it records, `progress`, or the task's own word.")]
    at: Moment
    data: Any


def job_document(job: Job) -> JobDocument:
    """Everything about a job, with the names of the API."""
    return {
        "id": job.id,
        "handle": job.handle,
        "task": job.task,
        "queue": job.queue,
        "state": job.state.value,
        "priority": job.priority,
        "attempt": job.attempt,
        "attempts_max": job.attempts_max,
        "token": job.token,
        "event_count": job.event_count,
        "arguments": job.shown_arguments,
        "result": job.shown_result,
        "error": job.error,
        "errors": [attempt_document(attempt) for attempt in job.errors],
        "progress": redact(job.progress),
        "meter": job.meter,
        "key": None if job.key is None else list(job.key),
        "tags": list(job.tags),
        "meta": redact(job.meta),
        "parent": job.parent,
        "callback": job.callback,
        "callback_status": job.callback_status,
        "created_at": job.created_at.isoformat(),
        "run_after": _iso(job.run_after),
        "started_at": _iso(job.started_at),
        "finished_at": _iso(job.finished_at),
    }


def accepted_document(job: Job) -> AcceptedDocument:
    return {**job_document(job), "created": job.created, "same_arguments": job.same_arguments}


def attempt_document(attempt: Attempt) -> AttemptDocument:
    return {
        "at": attempt.at.isoformat(),
        "attempt": attempt.attempt,
        "kind": attempt.kind,
        "message": attempt.message,
        "traceback": attempt.traceback,
    }


def event_document(event: Event) -> EventDocument:
    return {"job": event.job, "number": event.number, "kind": event.kind, "at": event.at.isoformat(), "data": redact(event.data)}


class Json(Response):
    """JSON as msgspec writes it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
