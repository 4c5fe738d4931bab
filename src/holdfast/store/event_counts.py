"""What the feed of all jobs adds up to since somebody last looked: added up by the database, for there may be very much of it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast.store.feed import Cursor, feed_check, feed_end
from holdfast.store.op import Op, Statement


class EventCount(msgspec.Struct, array_like=True, frozen=True):
    """So many events of a kind in a lane; the order of fields is the order in `feed_sums.sql`."""

    lane: int
    kind: str
    number: int
    micros: int | None
    """Of a start, how long the job had been ready; of the end of a run, how long it took. Then `number` is 1."""


class EventCounts(NamedTuple):
    counts: list[EventCount]
    cursor: Cursor
    """Where to go on from."""


_decode = msgspec.json.Decoder(list[EventCount]).decode


def event_counts(cursor: Cursor) -> Op[EventCounts]:
    yield from feed_check(cursor)
    end = yield from feed_end()
    if end.since == cursor.since:
        return EventCounts([], cursor)
    rows = yield Statement("event_counts", {"since": cursor.since, "upto": end.since})
    return EventCounts(_decode(rows[0][0]), end)
