"""What the OpenAPI document says about a job and its events; `domain/document` makes them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from holdfast.domain.document import job_document
from holdfast.domain.job import CallbackStatus, Job

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


def accepted_document(job: Job) -> dict[str, Any]:
    return {**job_document(job), "created": job.created, "same_arguments": job.same_arguments}


class Json(Response):
    """JSON as msgspec writes it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)
