"""Reading: one job, a page of them, counts, events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.domain.bounds import EVENTS_PAGE_MAX, PAGE_MAX
from holdfast.domain.event import Event
from holdfast.domain.job import Decoders, Job
from holdfast.domain.key import Holder, Key, holds
from holdfast.domain.states import FINAL, State
from holdfast.domain.text import show
from holdfast.errors import JobNotFound, SettingError
from holdfast.store.op import Moment, Op, Row, Statement, json_of
from holdfast.store.rows import event_of, first_event, job_of, job_of_key

_decode_moved = msgspec.json.Decoder(list[tuple[int, int | None, str | None]]).decode
_decode_events = msgspec.json.Decoder(list[tuple[int, int, str, int, str | None]]).decode

_NARROW = frozenset({State.READY, State.SCHEDULED, State.RUNNING, State.FAILED, State.CANCELLED, State.SKIPPED})
"""States whose jobs are listed from a table or an index of their own."""


FEW, MORE, SMALL_BYTES = 10, 50, 8 * 1024
"""A page that is bounded by bytes is read by so many jobs at a time: more of them while they are small."""


class Filter(NamedTuple):
    state: State | None = None
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    parent: str | None = None
    newest: bool = True
    limit: int = 100
    after: str | None = None


def get(id: str, decoders: Decoders) -> Op[Job | None]:
    """The job; of one that was pruned while its key lives on, what the key remembers, as `enqueue` and `find` give it."""
    found = yield Statement("job", {"id": id})
    if found:
        return job_of(found[0], decoders)
    holder = yield from _outlived(id)
    return None if holder is None else job_of_key(holder, decoders)


def demand(id: str, decoders: Decoders) -> Op[Job]:
    _, job = yield from numbered(id, decoders)
    return job


def numbered(id: str, decoders: Decoders) -> Op[tuple[int, Job]]:
    """The job with its number; as `get`."""
    found = yield Statement("job", {"id": id})
    if found:
        return found[0][0], job_of(found[0], decoders)
    holder = yield from _demand_outlived(id)
    return holder.seq, job_of_key(holder, decoders)


def find(moment: Moment, key: Key, decoders: Decoders) -> Op[Job | None]:
    """The job that has the key now, or had it last; of one that was pruned, what its key remembers."""
    found = yield Statement("key_holders", {"keys": json_of([key.text])})
    if not found:
        return None
    holder = Holder(*found[0][1:])
    if holder.ended is not None:
        return job_of_key(holder, decoders) if holds(holder, moment.now) else None
    rows = yield Statement("job_by_seq", {"seq": holder.seq})
    return job_of(rows[0], decoders) if rows else None


def jobs_by_id(ids: Sequence[str], decoders: Decoders) -> Op[dict[str, Job]]:
    rows = yield Statement("jobs_by_id", {"ids": json_of(list(ids))})
    return {row[1]: job_of(row, decoders) for row in rows}


def queues_of(ids: Sequence[str], decoders: Decoders) -> Op[dict[int, str]]:
    """The queue of each of these jobs, by the job's number: an id may be used again, a number never is."""
    rows = yield Statement("jobs_by_id", {"ids": json_of(list(ids))})
    return {row[0]: job_of(row, decoders).queue for row in rows}


def jobs(chosen: Filter, decoders: Decoders) -> Op[list[Job]]:
    if not 1 <= chosen.limit <= PAGE_MAX:
        raise SettingError(f"limit {chosen.limit} must be from 1 to {PAGE_MAX}; page on with after=<id of the last job>")
    cursor = None if chosen.after is None else (yield from _seq(chosen.after))
    rows = yield _page(chosen, cursor)
    return [job_of(row, decoders) for row in rows]


def jobs_within(chosen: Filter, bytes_max: int, decoders: Decoders) -> Op[tuple[list[Job], bool]]:
    """As `jobs`, but no more than fit into so many bytes, and at least one; and whether the page ends before its limit for that.

    They are read a few at a time: how large a job is shows only when it was read.
    """
    found: list[Job] = []
    cursor = None if chosen.after is None else (yield from _seq(chosen.after))
    some, size = FEW, 0
    while len(found) < chosen.limit:
        some = min(some, chosen.limit - len(found))
        rows = yield _page(chosen._replace(limit=some), cursor)
        for row in rows:
            size += _size(row)
            if found and size > bytes_max:
                return found, True
            found.append(job_of(row, decoders))
        if len(rows) < some:
            break
        cursor, some = rows[-1][0], MORE if size < len(found) * SMALL_BYTES else FEW
    return found, False


def _size(row: Row) -> int:
    return sum(len(each) for each in row if isinstance(each, str))


def _page(chosen: Filter, cursor: int | None) -> Statement:
    parameters = {
        "cursor": cursor,
        "state": chosen.state,
        "queue": chosen.queue,
        "task": chosen.task,
        "tag": chosen.tag,
        "parent": chosen.parent,
        "direction": -1 if chosen.newest else 1,
        "limit": chosen.limit,
    }
    if chosen.tag is not None:
        return Statement("jobs_by_tag", parameters)
    if chosen.parent is not None:
        return Statement("jobs_by_parent", parameters)
    if chosen.state in _NARROW:
        return Statement("jobs_by_state", parameters)
    return Statement("jobs_newest" if chosen.newest else "jobs_oldest", parameters)


def events(id: str, after: int, limit: int = EVENTS_PAGE_MAX) -> Op[list[Event]]:
    return (yield from log(id, after, limit)).events


class Log(NamedTuple):
    """A page of a job's events, with the job's number and the place behind the page."""

    seq: int
    events: list[Event]
    place: int
    ended: bool
    """The job has ended, and this is the last page."""


def log(id: str, after: int, limit: int = EVENTS_PAGE_MAX) -> Op[Log]:
    """A place beyond the last event is the last event: a number of another job's, or of a log that was longer once."""
    found = yield Statement("job_log", {"id": id})
    if not found:
        return Log((yield from _demand_outlived(id)).seq, [], 0, ended=True)
    seq, created_at, scheduled_for, count, state = found[0]
    after = min(after, count)
    first = [first_event(id, created_at, scheduled_for)] if after < 1 else []
    rows = yield Statement("events", {"seq": seq, "after": after, "limit": limit - len(first)})
    events = first + [event_of(id, row) for row in rows]
    place = events[-1].number if events else after
    return Log(seq, events, place, ended=state in FINAL and place >= count)


class Moved(NamedTuple):
    """A job that has more events than were known; of one that is gone there is neither count nor state."""

    seq: int
    event_count: int | None
    state: State | None


def changed(known: Mapping[int, int]) -> Op[list[Moved]]:
    """Those of many jobs, {seq: event count}, that have moved on."""
    rows = _decode_moved((yield Statement("changed_jobs", {"asked": json_of(known)}))[0][0])
    return [Moved(seq, count, None if state is None else State(state)) for seq, count, state in rows]


def events_of(spans: Mapping[int, tuple[str, int, int]]) -> Op[dict[int, list[Event]]]:
    """Events of many jobs, {seq: (id, after, up to)}; never the first of one."""
    asked = [(seq, after, upto) for seq, (_, after, upto) in spans.items()]
    rows = _decode_events((yield Statement("events_of", {"spans": json_of(asked)}))[0][0])
    found: dict[int, list[Event]] = {}
    for seq, *row in sorted(rows):
        found.setdefault(seq, []).append(event_of(spans[seq][0], tuple(row)))
    return found


def workers() -> Op[list[Row]]:
    rows: list[Row] = yield Statement("workers")
    return rows


def lane_names() -> Op[dict[int, tuple[str, str]]]:
    return {lane: (queue, task) for lane, queue, task in (yield Statement("lane_names"))}


def work_left(lanes: Sequence[int], closed: int) -> Op[tuple[bool, bool]]:
    """Whether anything is ready, and whether anything is running, in these lanes; without queues that are closed until then."""
    ready, running = (yield Statement("work_left", {"lanes": json_of(list(lanes)), "closed": closed}))[0]
    return bool(ready), bool(running)


def _outlived(id: str) -> Op[Holder | None]:
    found = yield Statement("outlived_key", {"id": id})
    return Holder(*found[0][1:]) if found else None


def _demand_outlived(id: str) -> Op[Holder]:
    holder = yield from _outlived(id)
    if holder is None:
        raise JobNotFound(f"there is no job {show(id)}; it may have been deleted or pruned")
    return holder


class Left(NamedTuple):
    """Jobs that a worker which ran until nothing was left did not run."""

    ready: int
    running: int
    """Elsewhere."""
    scheduled: int
    """For later: delayed, or backing off."""
    retrying: int
    """Those of the scheduled that were tried before."""

    def __str__(self) -> str:
        if not any(self):
            return "nothing is left"
        back_off = f" ({self.retrying} of them back off)" if self.retrying else ""
        return f"left are {self.scheduled} scheduled{back_off}, {self.ready} ready and {self.running} running jobs"


def jobs_left(lanes: Sequence[int]) -> Op[Left]:
    """Counted: for the end of a worker, not for its turns."""
    return Left(*(yield Statement("jobs_left", {"lanes": json_of(list(lanes))}))[0])


def _seq(id: str) -> Op[int]:
    found = yield Statement("job_to_move", {"id": id})
    if not found:
        raise JobNotFound(f"there is no job {show(id)}; it may have been deleted or pruned")
    seq: int = found[0][0]
    return seq
