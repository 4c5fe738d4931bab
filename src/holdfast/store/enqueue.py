"""Accepting jobs: one transaction for any number of them, keys decided inside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.domain.job import NewJob, Options
from holdfast.domain.key import Holder, Key, holds
from holdfast.domain.states import State
from holdfast.errors import Conflict
from holdfast.store import control
from holdfast.store.ids import first_id, id_text
from holdfast.store.op import Moment, Op, Row, Statement


class Known(msgspec.Struct, frozen=True):
    """An accepted job whose id is not the next in the run: the caller chose it, or its key had a job already."""

    id: str
    created: bool
    same_arguments: bool = True
    ended: Holder | None = None
    """Set where the job itself was pruned and only its key is left."""


class Accepted(msgspec.Struct, frozen=True):
    """What became of a batch: job i has id `first_id + i`, but for those in `known`."""

    first_id: int
    count: int
    created_at: int
    known: dict[int, Known]

    def id(self, index: int) -> str:
        known = self.known.get(index)
        return id_text(self.first_id + index) if known is None else known.id


def enqueue(moment: Moment, jobs: Sequence[NewJob]) -> Op[Accepted]:
    now = moment.now
    last = (yield Statement("next_numbers", {"name": "job", "count": len(jobs)}))[0][0]
    first, base = last - len(jobs) + 1, first_id(now)
    rows: list[Row] = []
    known: dict[int, Known] = {}
    template: _Template | None = None
    for index, job in enumerate(jobs):
        options = job.options
        if template is None or template.options is not options:
            template = yield from _template(options, now)
        id = id_text(base + index)
        if template.special:
            special = yield from _special(moment, template, job, first + index, id)
            if special is not None:
                known[index] = special
                if not special.created:
                    continue
                id = special.id
        rows.append((first + index, id, *template.head, job.arguments, *template.tail))
    if rows:
        yield Statement("add_jobs", rows=rows)
        yield from _index(first, last, {row[3] for row in rows})
    return Accepted(base, len(jobs), now, known)


def _index(first: int, last: int, states: set[str]) -> Op[None]:
    span = {"first": first, "last": last}
    if State.READY in states:
        yield Statement("add_ready", span)
    if State.SCHEDULED in states:
        yield Statement("add_scheduled", span)
    yield Statement("add_first_events", span)


class _Template(msgspec.Struct, frozen=True):
    """The columns that all jobs with the same options share, on either side of the arguments."""

    options: Options
    lane: int
    head: tuple[Any, ...]
    tail: tuple[Any, ...]
    special: bool


def _template(options: Options, now: int) -> Op[_Template]:
    lane = yield from _lane(options.queue, options.task)
    run_at = options.run_at if options.run_at is not None else now + options.delay
    later = run_at > now
    state = str(State.SCHEDULED if later else State.READY)
    key = None if options.key is None else options.key.text
    tags = msgspec.json.encode(options.tags).decode() if options.tags else None
    return _Template(
        options=options,
        lane=lane,
        head=(lane, state, options.priority, options.attempts, now, run_at if later else None),
        tail=(key, tags, options.meta, options.parent),
        special=key is not None or options.id is not None or bool(options.tags),
    )


def _lane(queue: str, task: str) -> Op[int]:
    names = {"queue": queue, "task": task}
    found = yield Statement("lane", names)
    if not found:
        found = yield Statement("add_lane", names)
    lane: int = found[0][0]
    return lane


def _special(moment: Moment, template: _Template, job: NewJob, seq: int, id: str) -> Op[Known | None]:
    """A key, an id of the caller's, tags: decided one by one. None: nothing but tags."""
    options = template.options
    if options.key is not None:
        first = yield from _holder(moment, options.key, job)
        if first is not None:
            return first
    if options.id is not None:
        yield from _check_free(options.id)
        id = options.id
    if options.key is not None:
        yield Statement("hold_key", _held(options.key, seq, id, template.lane, moment.now))
    if options.tags:
        yield Statement("add_tags", rows=[(tag, seq) for tag in options.tags])
    return Known(id, created=True) if options.id is not None else None


def _holder(moment: Moment, key: Key, job: NewJob) -> Op[Known | None]:
    """The job that has the key, if it still counts; None: the key is ours to take."""
    found = yield Statement("key_holder", {"key": key.text})
    if not found:
        return None
    holder = Holder(*found[0])
    if not holds(holder, moment.now):
        return None
    if key.conflict == "replace" and holder.ended is None:
        yield from control.cancel_if_open(moment, holder.id, f"replaced by a newer job with key {key.text}")
        return None
    if key.conflict == "replace":
        return None
    if key.conflict == "raise":
        raise Conflict(f"key {key.text} is held by job {holder.id} ({holder.state or holder.ended or 'ready'}); "
                       "use conflict='return' to get that job, or another key")  # fmt: skip
    if holder.ended is not None:
        return Known(holder.id, created=False, ended=holder)
    stored = yield Statement("job_arguments", {"seq": holder.seq})
    same = not stored or stored[0][0] == job.arguments
    return Known(holder.id, created=False, same_arguments=same)


def _check_free(id: str) -> Op[None]:
    if (yield Statement("job_state", {"id": id})):
        raise Conflict(f"job id {id!r} is taken; leave the id out, or use a key to get the job that exists")


def _held(key: Key, seq: int, id: str, lane: int, now: int) -> dict[str, Any]:
    timed = isinstance(key.scope, float)
    return {
        "key": key.text,
        "seq": seq,
        "id": id,
        "scope": "seconds" if timed else key.scope,
        "until": now + int(key.scope * 1e6) if isinstance(key.scope, float) else None,
        "failed": key.failed,
        "lane": lane,
        "created_at": now,
    }
