"""Reading: one job, a page of them, counts, events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from holdfast.domain.bounds import EVENTS_PAGE_MAX, PAGE_MAX
from holdfast.domain.event import Event
from holdfast.domain.job import Job
from holdfast.domain.key import Holder, Key, holds
from holdfast.domain.states import State
from holdfast.domain.text import show
from holdfast.errors import JobNotFound, SettingError
from holdfast.store.op import Moment, Op, Row, Statement
from holdfast.store.rows import Names, event_of, job_of, job_of_key

_NARROW = frozenset({State.READY, State.SCHEDULED, State.RUNNING, State.FAILED, State.CANCELLED, State.SKIPPED})
"""States whose jobs are listed from a table or an index of their own."""


class Filter(NamedTuple):
    state: State | None = None
    queue: str | None = None
    task: str | None = None
    tag: str | None = None
    parent: str | None = None
    newest: bool = True
    limit: int = 100
    after: str | None = None


def get(id: str, names: Names) -> Op[Job | None]:
    found = yield Statement("job", {"id": id})
    return job_of(found[0], names) if found else None


def demand(id: str, names: Names) -> Op[Job]:
    job = yield from get(id, names)
    if job is None:
        raise JobNotFound(f"there is no job {show(id)}; it may have been deleted or pruned")
    return job


def find(moment: Moment, key: Key, names: Names) -> Op[Job | None]:
    """The job that has the key now, or had it last; of one that was pruned, what its key remembers."""
    found = yield Statement("key_holder", {"key": key.text})
    if not found:
        return None
    holder = Holder(*found[0])
    if holder.ended is not None:
        return job_of_key(holder, names) if holds(holder, moment.now) else None
    rows = yield Statement("job_by_seq", {"seq": holder.seq})
    return job_of(rows[0], names) if rows else None


def jobs_by_id(ids: Sequence[str], names: Names) -> Op[dict[str, Job]]:
    rows = yield Statement("jobs_by_id", {"ids": msgspec.json.encode(list(ids)).decode()})
    return {row[1]: job_of(row, names) for row in rows}


def jobs(chosen: Filter, names: Names) -> Op[list[Job]]:
    if not 1 <= chosen.limit <= PAGE_MAX:
        raise SettingError(f"limit {chosen.limit} must be from 1 to {PAGE_MAX}; page on with after=<id of the last job>")
    cursor = None if chosen.after is None else (yield from _seq(chosen.after))
    rows = yield _page(chosen, cursor)
    return [job_of(row, names) for row in rows]


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


def stats() -> Op[dict[str, dict[str, int]]]:
    counts: dict[str, dict[str, int]] = {}
    for task, state, jobs in (yield Statement("stats")):
        counts.setdefault(task, {})[state] = jobs
    return counts


def events(id: str, after: int, limit: int = EVENTS_PAGE_MAX) -> Op[list[Event]]:
    seq = yield from _seq(id)
    rows = yield Statement("events", {"seq": seq, "after": after, "limit": limit})
    return [event_of(id, row) for row in rows]


def workers() -> Op[list[Row]]:
    return (yield Statement("workers"))


def lane_names() -> Op[dict[int, tuple[str, str]]]:
    return {lane: (queue, task) for lane, queue, task in (yield Statement("lane_names"))}


def work_left(lanes: Sequence[int]) -> Op[tuple[bool, bool]]:
    """Whether anything is ready, and whether anything is running, in these lanes."""
    ready, running = (yield Statement("work_left", {"lanes": msgspec.json.encode(list(lanes)).decode()}))[0]
    return bool(ready), bool(running)


def _seq(id: str) -> Op[int]:
    found = yield Statement("job_state", {"id": id})
    if not found:
        raise JobNotFound(f"there is no job {show(id)}; it may have been deleted or pruned")
    seq: int = found[0][0]
    return seq
