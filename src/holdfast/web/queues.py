"""Queues over HTTP: look at them, change their limits, pause and resume them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Header, Path, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from holdfast.app import Holdfast
from holdfast.domain.document import queue_document
from holdfast.domain.queue import Queue
from holdfast.web.access import Caller
from holdfast.web.dependencies import Admin, Operator, Reader, TheApp
from holdfast.web.documents import Moment
from holdfast.web.etag import expected_count, tagged
from holdfast.web.new_job import NAME_PATTERN
from holdfast.web.openapi import Responses, body_of
from holdfast.web.problem import Problem
from holdfast.web.queue_wanted import read_limits, read_pause

router = APIRouter(tags=["queues"])

QueueName = Annotated[str, Path(pattern=NAME_PATTERN)]
Known = Annotated[str | None, Header(alias="If-None-Match", max_length=1_000)]
IfMatch = Annotated[str | None, Header(max_length=1_000, description="The queue's ETag: change it only if nobody else has.")]
_ETAG: Final = {"ETag": {"description": "For If-Match.", "schema": {"type": "string"}}}


class PauseDocument(TypedDict):
    until: Annotated[Moment | None, Field(description="When it ends by itself; null: when it is resumed.")]
    by: Annotated[str | None, Field(description="The key or the user; `code`: its declaration.")]
    since: Moment | None
    reason: str


class BreakerDocument(TypedDict):
    state: Literal["closed", "open", "half-open"]
    failures: int
    until: Annotated[Moment | None, Field(description="When one job will be tried, while it is open.")]


class BlockDocument(TypedDict):
    kind: Literal["paused", "breaker", "probe", "concurrency", "gap", "rate"]
    until: Annotated[Moment | None, Field(description="When it ends by itself; null: with the end of a run, or by a resume.")]


class RateDocument(TypedDict):
    starts: float
    per: float
    burst: int | None


class BreakerLimitDocument(TypedDict):
    after: int
    base: float
    cap: float


class LimitsDocument(TypedDict):
    """null: there is no such limit."""

    max_depth: int | None
    concurrency: int | None
    gap: float | None
    rate: list[RateDocument] | None
    breaker: BreakerLimitDocument | None
    paused: bool


class QueueDocument(TypedDict):
    """A queue as it stands. Jobs that ended count until they are pruned."""

    name: str
    depth: Annotated[int, Field(description="Jobs accepted and not yet started: `ready` and `scheduled`.")]
    max_depth: int | None
    ready: int
    scheduled: int
    running: int
    processed: Annotated[int, Field(description="Jobs that succeeded.")]
    failed: int
    cancelled: int
    skipped: int
    workers: Annotated[int, Field(description="Living workers that take its jobs.")]
    average_seconds: Annotated[float | None, Field(description="How long its last runs took.")]
    estimated_wait: Annotated[float | None, Field(description="Seconds until a job enqueued now would start, about.")]
    paused: PauseDocument | None
    breaker: BreakerDocument | None
    blocks: Annotated[list[BlockDocument], Field(description="Why no job may start now; empty: one may.")]
    limits: LimitsDocument
    declared: Annotated[dict[str, Any] | None, Field(description="The limits that the code declares.")]
    live: Annotated[dict[str, Any] | None, Field(description="What was changed live, over that.")]
    change_count: Annotated[int, Field(description="The number of the latest change.")]


class QueuesDocument(TypedDict):
    queues: list[QueueDocument]


_ONE: Final[Responses] = {200: {"model": QueueDocument, "headers": _ETAG}, 404: {}}
_SAME: Final[Responses] = {304: {"description": "It is as If-None-Match says."}}


@router.get("/api/queues", summary="List queues", responses={200: {"model": QueuesDocument, "headers": _ETAG}, **_SAME})
async def list_queues(app: TheApp, caller: Reader, if_none_match: Known = None) -> Response:
    """Every queue that ever had a job, or has limits."""
    found = [queue for queue in await app.aqueues() if caller.may_see(queue.name)]
    content = msgspec.json.encode({"queues": [queue_document(queue) for queue in found]})
    return tagged(sum(queue.change_count for queue in found), content, if_none_match)


@router.get("/api/queues/{name}", summary="Look at a queue", responses={**_ONE, **_SAME})
async def look_at_a_queue(name: QueueName, app: TheApp, caller: Reader, if_none_match: Known = None) -> Response:
    """Where its jobs are, its limits, and what keeps jobs from starting now."""
    return _answer(await visible_queue(app, caller, name), if_none_match)


@router.patch(
    "/api/queues/{name}",
    summary="Change a queue's limits",
    responses={**_ONE, 412: {}},
    openapi_extra=body_of(
        "LimitsWanted", required=True, slower={"concurrency": 2, "rate": {"starts": 60, "per": 60}, "gap": None}
    ),
)
async def change_a_queue(request: Request, name: QueueName, app: TheApp, caller: Admin, if_match: IfMatch = None) -> Response:
    """Live, over what the code declares. null takes a limit away; what is left out stays. What runs goes on."""
    await visible_queue(app, caller, name)
    options, expected = read_limits(await request.body()), expected_count(if_match, "queue")
    await app.achange_queue(name, actor=caller.name, change_count=expected, **options)
    return _answer(await visible_queue(app, caller, name))


@router.post(
    "/api/queues/{name}/pause",
    summary="Pause a queue",
    responses=_ONE,
    openapi_extra=body_of("PauseWanted", required=False, ten_minutes={"seconds": 600, "reason": "the model is down"}),
)
async def pause_a_queue(request: Request, name: QueueName, app: TheApp, caller: Operator) -> Response:
    """Nothing of it starts, for so many seconds or until it is resumed. What runs goes on, and new jobs are accepted."""
    await visible_queue(app, caller, name)
    wanted = read_pause(await request.body())
    await app.apause(name, wanted.seconds, reason=wanted.reason, actor=caller.name)
    return _answer(await visible_queue(app, caller, name))


@router.post("/api/queues/{name}/resume", summary="Resume a queue", responses=_ONE)
async def resume_a_queue(name: QueueName, app: TheApp, caller: Operator) -> Response:
    """Its jobs start again. One that is not paused stays as it is."""
    await visible_queue(app, caller, name)
    await app.aresume(name, actor=caller.name)
    return _answer(await visible_queue(app, caller, name))


async def visible_queue(app: Holdfast, caller: Caller, name: str) -> Queue:
    """The queue, if there is one and this caller may know of it."""
    found = next((queue for queue in await app.aqueues() if queue.name == name), None) if caller.may_see(name) else None
    if found is None:
        raise Problem(404, f"there is no queue {name!r}: no job was ever put into it, and it has no limits")
    return found


def _answer(queue: Queue, known: str | None = None) -> Response:
    return tagged(queue.change_count, msgspec.json.encode(queue_document(queue)), known)
