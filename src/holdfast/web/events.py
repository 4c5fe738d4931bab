"""What happened, over HTTP: a job's events as a page or as a live stream."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from holdfast.app import Holdfast
from holdfast.client.event_batches import EventBatches, job_batches
from holdfast.domain.bounds import EVENTS_PER_JOB_MAX
from holdfast.domain.document import event_document
from holdfast.domain.event import Event
from holdfast.store import browse
from holdfast.store.op import Moment, Op
from holdfast.web.dependencies import JobId, Reader, TheApp, TheSettings, visible_job
from holdfast.web.documents import EventDocument, Json
from holdfast.web.frame import event_frame, frame
from holdfast.web.jobs import PAGE_BYTES_MAX
from holdfast.web.paths import JOBS
from holdfast.web.problem import Problem
from holdfast.web.stream import MEDIA_TYPE, EventStream, piece_of

router = APIRouter(tags=["events"])

PAGE: Final = 100
PAGE_MAX: Final = 1_000
AT_ONCE: Final = 32
"""So many are read at a time: at most 2 MB."""
STREAM: Final = {
    MEDIA_TYPE: {
        "schema": {"type": "string"},
        "example": 'retry: 2000\n\nid: 1\nevent: enqueued\ndata: {"job":"run-1","number":1,"kind":"enqueued",…}\n\n',
    }
}
_NUMBER: Final = re.compile(r"[0-9]{1,10}")


class EventsPage(TypedDict):
    """A page of events, of at most some 4 MB. `next` is the `after` of the page that follows, or null if these are all by now."""

    events: list[EventDocument]
    next: Annotated[int | None, Field(description="To be sent as `after`.")]


@router.get(
    f"{JOBS}/{{id}}/events",
    summary="Read or follow a job's events",
    responses={200: {"model": EventsPage, "description": "By `Accept`: a page, or a stream.", "content": STREAM}, 404: {}},
)
async def job_events(
    request: Request,
    id: JobId,
    app: TheApp,
    settings: TheSettings,
    caller: Reader,
    after: Annotated[int, Query(ge=0, le=EVENTS_PER_JOB_MAX * 10, description="Only events after this number.")] = 0,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="Of a page.")] = PAGE,
    last_event_id: Annotated[
        str | None,
        Header(description="Goes before `after`: what a browser sends.", json_schema_extra={"pattern": r"^[0-9]{1,10}$"}),
    ] = None,
) -> Response:
    """With `Accept: text/event-stream`, on and on until the job has ended."""
    start = after if last_event_id is None else _number(last_event_id)
    await visible_job(app, caller, id)
    if wants_stream(request):
        source = JobSource(app, id, await job_batches(app, id, start))
        return EventStream(source, caller, settings, request.app.state.closing)
    shown = Shown(limit)
    more = True
    while more and shown.room:
        some = shown.room
        found = await app.store.aread(partial(_events, id, start, some + 1))
        more, found = len(found) > some, found[:some]
        shown.add([event_document(event) for event in found])
        start = found[-1].number if found else start
    return Json({"events": shown.documents, "next": start if more else None}, headers={"vary": "accept"})


class Shown:
    """A page of events, read a few at a time, for how large one is shows when it was read: it ends at its limit or its bytes."""

    def __init__(self, limit: int) -> None:
        self.documents: list[dict[str, Any]] = []
        self._left, self._bytes = limit, 0

    @property
    def room(self) -> int:
        """How many events may be read next."""
        return min(self._left, AT_ONCE) if self._bytes < PAGE_BYTES_MAX else 0

    def add(self, documents: Sequence[dict[str, Any]], read: int | None = None) -> None:
        """`read` counts those too that the caller may not see."""
        self.documents += documents
        self._left -= len(documents) if read is None else read
        self._bytes += len(msgspec.json.encode(documents))


def _events(id: str, after: int, limit: int, _: Moment) -> Op[list[Event]]:
    return browse.events(id, after, limit)


class JobSource:
    """The frames of one job, and one more when it has ended."""

    def __init__(self, app: Holdfast, id: str, lots: EventBatches) -> None:
        self._app, self._id, self._lots = app, id, lots
        self._waiting: deque[Event] = deque()
        self._over = False

    async def next(self, seconds: float) -> bytes | None:
        if not self._waiting:
            lot = None if self._over else await self._lots.next(seconds)
            if lot is None:
                return await self._end()
            self._waiting.extend(lot)
        return piece_of(self._waiting, event_frame)

    async def _end(self) -> bytes | None:
        if self._over:
            return None
        self._over = True
        job = await self._app.aget(self._id)
        return frame("end", {"job": self._id, "state": None if job is None else job.state})

    def close(self) -> None:
        self._lots.close()


def wants_stream(request: Request) -> bool:
    kinds = [each.partition(";")[0].strip().lower() for each in request.headers.get("accept", "").split(",")]
    return MEDIA_TYPE in kinds


def _number(last_event_id: str) -> int:
    if not _NUMBER.fullmatch(last_event_id):
        raise Problem(400, f"Last-Event-ID {last_event_id[:100]!r} is no event's number; send the id of the last frame")
    return int(last_event_id)
