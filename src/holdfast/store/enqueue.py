"""Accepting jobs: one transaction for any number of them, keys decided inside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.domain.job import NewJob, Options
from holdfast.domain.key import Holder, Key, holds
from holdfast.domain.states import EVENTS, move
from holdfast.errors import Conflict
from holdfast.store import control
from holdfast.store.ids import first_id, id_text
from holdfast.store.op import Make, Moment, Op, Row, Statement


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


class Plain:
    """Jobs with no key, no id and no tags: nothing to decide, so callers that come together are written as one batch."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs

    def __call__(self, moment: Moment) -> Op[Accepted]:
        return enqueue(moment, self.jobs)

    def together(self, others: Sequence[Plain]) -> Make[list[Accepted]]:
        def make(moment: Moment) -> Op[list[Accepted]]:
            all_of_them = yield from enqueue(moment, [job for each in (self, *others) for job in each.jobs])
            parts, first = [], all_of_them.first_id
            for each in (self, *others):
                parts.append(Accepted(first, len(each.jobs), moment.now, {}))
                first += len(each.jobs)
            return parts

        return make


def is_plain(options: Options) -> bool:
    return options.key is None and options.id is None and not options.tags


def enqueue(moment: Moment, jobs: Sequence[NewJob]) -> Op[Accepted]:
    last = (yield Statement("next_numbers", {"name": "job", "count": len(jobs)}))[0][0]
    first, base = last - len(jobs) + 1, first_id(moment.now)
    rows: list[Row] = []
    spans: list[_Span] = []
    known: dict[int, Known] = {}
    chosen: set[str] = set()
    template: _Template | None = None
    for index, job in enumerate(jobs):
        if template is None or template.options is not job.options:
            template = yield from _template(job.options, moment.now)
            spans.append(_Span(template, first + index))
        id = id_text(base + index)
        if template.special:
            key = job.options.key
            if rows and key is not None and key.conflict == "replace":
                # The job that is to be replaced may be one of these: it can only be cancelled once it is written.
                yield from _write(rows, spans, first + index - 1, moment.now)
                rows, spans = [], [_Span(template, first + index)]
            special = yield from _special(moment, template, job, first + index, id)
            if special is not None:
                known[index] = special
                if not special.created:
                    continue
                id = special.id
                if id in chosen:
                    raise _taken(id)
                chosen.add(id)
        rows.append((first + index, id, job.arguments, *template.tail))
    if rows:
        yield from _write(rows, spans, last, moment.now)
    return Accepted(base, len(jobs), moment.now, known)


def _write(rows: list[Row], spans: list[_Span], last: int, now: int) -> Op[None]:
    yield Statement("add_bodies", rows=rows)
    yield from _add_spans(spans, last, now)


class _Template(msgspec.Struct, frozen=True):
    """What all jobs with the same options share."""

    options: Options
    lane: int
    run_at: int | None
    """Set if it lies in the future."""
    tail: tuple[Any, ...]
    special: bool


class _Span(NamedTuple):
    """Jobs in a row that share a template, from this seq on."""

    template: _Template
    first: int


def _add_spans(spans: list[_Span], last: int, now: int) -> Op[None]:
    """The rows that change, the narrow tables and the first events: by span, not job by job."""
    ends = [span.first - 1 for span in spans[1:]] + [last]
    for (template, first), end in zip(spans, ends, strict=True):
        verb = "enqueue" if template.run_at is None else "schedule"
        fields = {
            "first": first,
            "last": end,
            "lane": template.lane,
            "state": move(None, verb),
            "priority": template.options.priority,
            "attempts_max": template.options.attempts,
            "run_after": template.run_at,
            "kind": EVENTS[verb],
            "now": now,
        }
        yield Statement("add_jobs", fields)
        yield Statement("add_ready" if template.run_at is None else "add_scheduled", fields)
        yield Statement("add_first_events", fields)


def _template(options: Options, now: int) -> Op[_Template]:
    lane = yield from _lane(options.queue, options.task)
    run_at = options.run_at if options.run_at is not None else now + options.delay
    key = None if options.key is None else options.key.text
    tags = msgspec.json.encode(options.tags).decode() if options.tags else None
    return _Template(
        options=options,
        lane=lane,
        run_at=run_at if run_at > now else None,
        tail=(key, tags, options.meta, options.parent),
        special=not is_plain(options),
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
        raise _taken(id)


def _taken(id: str) -> Conflict:
    return Conflict(f"job id {id!r} is taken; leave the id out, or use a key to get the job that exists")


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
