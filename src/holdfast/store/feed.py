"""All that happens to all jobs, in an order that can be resumed at any event.

A place in it is two things: `since`, how far the database had come when everything up to there was given, and, while a part is
being given, `upto` and the last event of it. A part is what was committed between two looks, job by job: so nothing that is
committed late is left out, nothing comes twice, and no job's event comes before its own earlier ones. How far a database has
come is text that only its own statements understand: PostgreSQL's is a snapshot, SQLite's the newest job and event.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from holdfast.domain.bounds import EVENTS_PAGE_MAX, INTEGER_MAX
from holdfast.domain.event import Event
from holdfast.domain.text import show
from holdfast.errors import SettingError
from holdfast.store.op import Op, Row, Statement
from holdfast.store.rows import event_of, first_event

NEAR_MAX: Final = 50_000
"""So much can be put in order for every page of it; of more, each page is looked for where its jobs are."""
REACH_JOBS: Final = 10_000
"""So many jobs are looked through by one statement."""
MARK_CHARS: Final = 12
NUMBER_MAX: Final = 2**31 - 1
_PLACE: Final = r"[0-9]{1,19}:[0-9]{1,19}(?::(?:[0-9]{1,19}(?:,[0-9]{1,19}){0,9999})?)?"
_CURSOR: Final = re.compile(rf"([0-9a-f]{{{MARK_CHARS}}})\.({_PLACE})(?:\.({_PLACE})\.([0-9]{{1,18}})\.([0-9]{{1,10}}))?")


class Cursor(NamedTuple):
    """Where a reader stands. `upto` is empty between two parts."""

    mark: str
    since: str
    upto: str = ""
    job: int = 0
    number: int = 0

    @property
    def text(self) -> str:
        part = f".{self.upto}.{self.job}.{self.number}" if self.upto else ""
        return f"{self.mark}.{self.since}{part}"


class Page(NamedTuple):
    events: list[Event]
    cursor: Cursor
    """Where the next page begins."""
    more: bool
    """Whether it is known that there is one."""


class _Now(NamedTuple):
    """The columns of `feed_now.sql`."""

    mark: str
    here: str
    oldest: str
    known: bool
    size: int


def cursor_of(text: str) -> Cursor:
    found = _CURSOR.fullmatch(text) if isinstance(text, str) else None
    if found is None or not all(_is_place(place) for place in (found[2], found[3]) if place) or int(found[5] or 0) > NUMBER_MAX:
        raise _refused(text, "it is none that was given out")
    mark, since, upto, job, number = found.groups()
    return Cursor(mark, since, upto or "", int(job or 0), int(number or 0))


def job_number(cursor: str) -> int:
    """Of the job whose event has this cursor."""
    return int(cursor.split(".")[-2])


def feed_end() -> Op[Cursor]:
    """Behind everything that there is."""
    now = yield from _look(None)
    return Cursor(now.mark, now.here)


def feed_begin() -> Op[Cursor]:
    """Before the oldest that is kept."""
    now = yield from _look(None)
    return Cursor(now.mark, now.oldest)


def feed_check(cursor: Cursor) -> Op[Cursor]:
    """The same, if it can be gone on from. One that another kind of database would give is not even shown to this one."""
    oldest = (yield from _look(None)).oldest
    if any(place and place.count(":") != oldest.count(":") for place in (cursor.since, cursor.upto)):
        raise _refused(cursor.text, "it is one of another database")
    yield from _current(cursor)
    return cursor


def feed_page(cursor: Cursor, limit: int = EVENTS_PAGE_MAX) -> Op[Page]:
    now = yield from _current(cursor)
    if not cursor.upto and cursor.since == now.here:
        return Page([], cursor, more=False)
    part = cursor if cursor.upto else cursor._replace(upto=now.here)
    if now.size < NEAR_MAX:
        rows = yield Statement("feed_few", {**_between(part), "job": part.job, "number": part.number, "limit": limit})
        last = None
    else:
        if not part.job and part.since != now.oldest:
            first = yield Statement("feed_first", {**_between(part), "job_max": INTEGER_MAX})
            part = part._replace(job=first[0][0])
        found = yield Statement("feed_reach", {"job": part.job, "distance": REACH_JOBS})
        last = found[0][0] if found else None
        fields = {"job": part.job, "number": part.number, "limit": limit, "last": INTEGER_MAX if last is None else last}
        rows = yield Statement("feed_many", {**_between(part), **fields})
    return _page(part, rows, last, limit, now)


def _page(part: Cursor, rows: list[Row], last: int | None, limit: int, now: _Now) -> Page:
    """What was deleted between two statements is left out."""
    begin = f"{part.mark}.{part.since}.{part.upto}."
    events = [_event(row, f"{begin}{row[0]}.{row[1]}") for row in rows if row[2] is not None and row[4] is not None]
    if len(rows) == limit:
        return Page(events, part._replace(job=rows[-1][0], number=rows[-1][1]), more=True)
    if last is not None:
        return Page(events, part._replace(job=last, number=NUMBER_MAX), more=True)
    return Page(events, Cursor(part.mark, part.upto), more=part.upto != now.here)


def _event(row: Row, cursor: str) -> Event:
    _, number, id, kind, at, data, scheduled_for = row
    if number == 1:
        return first_event(id, at, scheduled_for, cursor)
    return event_of(id, (number, kind, at, data), cursor)


def _current(cursor: Cursor) -> Op[_Now]:
    """How far the database is now, if it is the one that the cursor is of, and is not behind it."""
    now = yield from _look(cursor.since, cursor.upto or None)
    if now.mark != cursor.mark:
        raise _refused(cursor.text, "it is one of another database")
    if not now.known:
        raise _refused(cursor.text, "it is ahead of the database, which may have been restored from an older copy")
    return now


def _look(since: str | None, upto: str | None = None) -> Op[_Now]:
    asked = {"since": since, "upto": upto, "near": NEAR_MAX}
    mark, here, oldest, known, size = (yield Statement("feed_now", asked))[0]
    return _Now(mark.replace("-", "")[:MARK_CHARS], here, oldest, bool(known), size)


def _between(part: Cursor) -> dict[str, str]:
    return {"since": part.since, "upto": part.upto}


def _is_place(place: str) -> bool:
    """The numbers of a snapshot grow."""
    low, high, *open_ = place.split(":")
    if not open_:
        return True
    between = [int(each) for each in open_[0].split(",") if each]
    return 1 <= int(low) <= int(high) and all(
        lower < upper for lower, upper in zip([int(low) - 1, *between], [*between, int(high)], strict=True)
    )


def _refused(cursor: object, why: str) -> SettingError:
    return SettingError(f"cursor {show(cursor)} cannot be gone on from: {why}; begin with after=None, or with after='' for all")
