"""What happens to all jobs, over HTTP: as a page, or as a live stream without an end. A cursor says where to go on."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from holdfast.app import Holdfast
from holdfast.client.event_batches import EventBatches, feed_batches
from holdfast.domain.document import event_document
from holdfast.domain.event import Event
from holdfast.errors import SettingError
from holdfast.store import browse
from holdfast.store.feed import Cursor, Page, cursor_of, feed_begin, feed_check, feed_end, feed_page, job_number
from holdfast.store.op import Moment, Op
from holdfast.web.access import Caller
from holdfast.web.dependencies import Reader, TheApp, TheSettings
from holdfast.web.documents import EventDocument, Json
from holdfast.web.events import PAGE, PAGE_MAX, STREAM, Shown, wants_stream
from holdfast.web.frame import frame
from holdfast.web.problem import Problem
from holdfast.web.stream import EventStream, piece_of

router = APIRouter(tags=["events"])

CURSOR_CHARS_MAX: Final = 6_000
KNOWN_MAX: Final = 10_000


class FeedEventDocument(EventDocument):
    cursor: Annotated[str | None, Field(description="Where to go on from, behind this event.")]


class FeedPage(TypedDict):
    """A page of what happened, of at most some 4 MB. `next` is the `after` of the next page; `more`: there is one by now."""

    events: list[FeedEventDocument]
    next: str
    more: bool


@router.get(
    "/api/events",
    summary="Read or follow the events of all jobs",
    responses={200: {"model": FeedPage, "description": "By `Accept`: a page, or a stream.", "content": STREAM}},
)
async def all_events(
    request: Request,
    app: TheApp,
    settings: TheSettings,
    caller: Reader,
    after: Annotated[
        str | None,
        Query(max_length=CURSOR_CHARS_MAX, description="A cursor; empty: from the oldest that is kept; not given: from now on."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX, description="Of a page.")] = PAGE,
    last_event_id: Annotated[
        str | None, Header(max_length=CURSOR_CHARS_MAX, description="Goes before `after`: what a browser sends.")
    ] = None,
) -> Response:
    """Each job's events in their order, nothing left out and nothing twice. The `id` of a frame is its cursor."""
    start = after if last_event_id is None else _checked(last_event_id)
    sight = Sight(app, caller)
    if wants_stream(request):
        return EventStream(FeedSource(sight, await feed_batches(app, start)), caller, settings, request.app.state.closing)
    shown = Shown(limit)
    page = Page([], await app.store.aread(lambda _: _begin(start)), more=True)
    while page.more and shown.room:
        page = await app.store.aread(partial(_next, page.cursor, shown.room))
        shown.add([_document(event) for event in await sight.of(page.events)], len(page.events))
        if not page.events:
            break
    return Json({"events": shown.documents, "next": page.cursor.text, "more": page.more}, headers={"vary": "accept"})


class Sight:
    """What a caller may see. A job's queue is not in its events: who may see some only has it looked up, once per job."""

    def __init__(self, app: Holdfast, caller: Caller) -> None:
        self._app, self._caller = app, caller
        self._known: OrderedDict[int, bool] = OrderedDict()

    async def of(self, events: Sequence[Event]) -> Sequence[Event]:
        if self._caller.queues is None:
            return events
        numbered = [(job_number(event.cursor or ""), event) for event in events]
        await self._learn({event.job for number, event in numbered if number not in self._known})
        return [event for number, event in numbered if self._known.get(number, False)]

    async def _learn(self, ids: set[str]) -> None:
        if ids:
            found = await self._app.store.aread(lambda _: browse.queues_of(sorted(ids), self._app.registry.decoders))
            self._known.update((number, self._caller.may_see(queue)) for number, queue in found.items())
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)


class FeedSource:
    def __init__(self, sight: Sight, lots: EventBatches) -> None:
        self._sight, self._lots = sight, lots
        self._waiting: deque[Event] = deque()

    async def next(self, seconds: float) -> bytes | None:
        while not self._waiting:
            lot = await self._lots.next(seconds)
            if not lot:
                return None if lot is None else b""
            self._waiting.extend(await self._sight.of(lot))
        return piece_of(self._waiting, _frame)

    def close(self) -> None:
        self._lots.close()


def _frame(event: Event) -> bytes:
    return frame(event.kind, _document(event), event.cursor)


def _document(event: Event) -> dict[str, Any]:
    return {**event_document(event), "cursor": event.cursor}


def _begin(after: str | None) -> Op[Cursor]:
    return feed_end() if after is None else feed_check(cursor_of(after)) if after else feed_begin()


def _next(cursor: Cursor, limit: int, _: Moment) -> Op[Page]:
    return feed_page(cursor, limit)


def _checked(last_event_id: str) -> str:
    try:
        return cursor_of(last_event_id).text
    except SettingError as error:
        raise Problem(400, f"Last-Event-ID: {error}") from None
