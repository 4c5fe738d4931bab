"""How many events of each kind and lane there are since a cursor; counted by the database, for there may be very many."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from holdfast.store.feed import Cursor, feed_check, feed_end
from holdfast.store.op import Op, Statement


class EventCount(msgspec.Struct, array_like=True, frozen=True):
    """So many events of a kind in a lane; the order of fields is that of `event_counts.sql`."""

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
