"""Accepting jobs: one transaction for any number of them, keys decided inside it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.domain.callback import CALLBACK_QUEUE, CALLBACK_TASK
from holdfast.domain.job import NewJob, Options
from holdfast.domain.key import Holder, Key, holds
from holdfast.domain.message import NOTHING_HIDDEN, Hidden
from holdfast.errors import Conflict
from holdfast.store import control
from holdfast.store.callbacks import announce
from holdfast.store.ids import first_id, id_parts, id_text
from holdfast.store.lane import lane_of
from holdfast.store.op import Make, Moment, Op, Statement

NUMBERS_MAX: Final = 4_096
"""How many consecutive numbers one `next_job` gives at most."""
NUMBERS_AHEAD: Final = 8
_TELLING: Final = (CALLBACK_QUEUE, CALLBACK_TASK)


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
    lanes: dict[tuple[str, str], int]
    """The lanes of these jobs, by queue and task: true once this is committed, and for good."""
    only: str | None = None
    """Its id, where it is one job and nothing had to be decided."""

    def id(self, index: int) -> str:
        known = self.known.get(index)
        return id_text(self.first_id + index) if known is None else known.id


class Plain(msgspec.Struct):
    """Jobs with no key, id, tags or callback: nothing to decide, so callers that come together are written as one batch."""

    jobs: Sequence[NewJob]
    lanes: Mapping[tuple[str, str], int]

    def __call__(self, moment: Moment) -> Op[Accepted]:
        if len(self.jobs) == 1 and self.jobs[0].options.is_ready:
            return _enqueue_one(moment, self.jobs[0], self.lanes)
        return enqueue(moment, self.jobs, self.lanes)

    def at_once(self, now: int, many: bool = False) -> tuple[Statement, Accepted] | None:
        """The one statement that does all of it, and what it answers, where that is enough: it needs no transaction around.

        many  The database has one for many jobs, too.
        """
        lane = self.lane
        if lane is None:
            return None
        if len(self.jobs) == 1:
            return _whole(now, self.jobs[0], lane)
        return _all_of_them(now, self.jobs, lane) if many else None

    @property
    def lane(self) -> int | None:
        """That of the first one, if it is known, and the job is ready at once."""
        options = self.jobs[0].options
        return self.lanes.get((options.queue, options.task)) if options.is_ready else None

    def together(self, others: Sequence[Plain]) -> Make[list[Accepted]]:
        def make(moment: Moment) -> Op[list[Accepted]]:
            all_of_them = yield from enqueue(moment, [job for each in (self, *others) for job in each.jobs], self.lanes)
            parts, first = [], all_of_them.first_id
            for each in (self, *others):
                parts.append(Accepted(first, len(each.jobs), moment.now, {}, all_of_them.lanes))
                first += len(each.jobs)
            return parts

        return make


class Overtaken(Exception):
    """Nothing of a chunk was kept: it can only be written when the one before it is done."""


class InTurn(msgspec.Struct):
    """A chunk of a bulk that is written beside the one before it, in a transaction of its own, and kept only if that one is.

    Both were given their numbers beforehand, so that they are in their order, whoever is first.
    """

    chunk: Plain
    number: int
    """Of the first of its jobs."""
    before: int | None
    """The same of the chunk before, if that was not known to be kept."""
    sent: Callable[[], None]
    """Called when the server has it: one that comes behind may be sent now."""

    def __call__(self, moment: Moment) -> Op[Accepted]:
        statements, accepted = self.at_once(moment.now)
        for each in statements:
            _ = yield each
        return accepted

    def at_once(self, now: int) -> tuple[list[Statement], Accepted]:
        """The statements that do all of it, in one transaction, and what they answer."""
        whole = self.chunk.at_once(now, many=True)
        if whole is None:
            raise Overtaken
        (verb, fields, _), accepted = whole
        statements = [Statement(verb, {**fields, "first": self.number})]
        if self.before is not None:
            statements.append(Statement("behind", {"first": self.before}))
        return statements, accepted


def take_numbers(_: Moment) -> Op[list[int]]:
    """For a few chunks, one after the other."""
    rows = yield Statement("next_chunks", {"count": NUMBERS_AHEAD})
    return [number for (number,) in rows]


def is_plain(options: Options) -> bool:
    return is_alike(options) and options.callback is None


def is_alike(options: Options) -> bool:
    """Whether jobs with the same options differ in nothing but their arguments."""
    return options.key is None and options.id is None and not options.tags


def _enqueue_one(moment: Moment, job: NewJob, lanes: Mapping[tuple[str, str], int]) -> Op[Accepted]:
    """What `enqueue` does, for what a caller waits for most often."""
    names = (job.options.queue, job.options.task)
    lane = lanes.get(names) or (yield from lane_of(*names))
    statement, accepted = _whole(moment.now, job, lane)
    yield statement
    accepted.lanes[names] = lane
    return accepted


def _whole(now: int, job: NewJob, lane: int) -> tuple[Statement, Accepted]:
    """A plain job, ready at once, is one statement."""
    options, first = job.options, first_id(now)
    id = id_text(first)
    fields = {
        "lane": lane,
        "priority": options.priority,
        "attempts_max": options.attempts,
        "now": now,
        "id": id,
        "arguments": job.arguments,
        "meta": options.meta,
        "parent": options.parent,
    }
    return Statement("add_job", fields), Accepted(first, 1, now, {}, {}, id)


def _all_of_them(now: int, jobs: Sequence[NewJob], lane: int) -> tuple[Statement, Accepted] | None:
    """Jobs that differ in nothing but their arguments are one statement, too; these go a line each: JSON of ours has no other."""
    options, lines = jobs[0].options, "\n".join([job.arguments for job in jobs])
    alike = all(job.options is options for job in jobs) and lines.count("\n") == len(jobs) - 1
    if not alike or len(jobs) > NUMBERS_MAX:
        return None
    first = first_id(now)
    head, low = id_parts(first)
    fields = {
        "lane": lane,
        "priority": options.priority,
        "attempts_max": options.attempts,
        "now": now,
        "id_head": head,
        "id_low": low,
        "lines": lines,
        "count": len(jobs),
        "first": None,
        "meta": options.meta,
        "parent": options.parent,
    }
    return Statement("add_many", fields), Accepted(first, len(jobs), now, {}, {})


def enqueue_chunk(jobs: Sequence[NewJob], lanes: Mapping[tuple[str, str], int]) -> Make[Accepted]:
    """A part of a bulk."""
    first = jobs[0].options
    if is_plain(first) and all(job.options is first or is_plain(job.options) for job in jobs):
        return Plain(jobs, lanes)
    return partial(enqueue, jobs=jobs, lanes=lanes)


def enqueue(moment: Moment, jobs: Sequence[NewJob], lanes: Mapping[tuple[str, str], int] = MappingProxyType({})) -> Op[Accepted]:
    """`lanes` are those that are known to be in the store; the others are looked up, or made."""
    found: dict[tuple[str, str], int] = {}
    known: dict[int, Known] = {}
    replaced: dict[int, Hidden] = {}
    first = first_id(moment.now)
    for start in range(0, len(jobs), NUMBERS_MAX):
        part = jobs[start : start + NUMBERS_MAX]
        number: int = (yield Statement("next_job", {"count": len(part)}))[0][0]
        batch = _Batch(moment, number - start, first, replaced)
        spans = yield from _spans(moment, part, start, lanes, found)
        yield from _add(batch, spans, known)
    if replaced:  # not before: the numbers above were only looked up, and this takes the next ones
        yield from announce(moment, replaced)
    return Accepted(first, len(jobs), moment.now, known, found)


def _spans(
    moment: Moment, jobs: Sequence[NewJob], start: int, lanes: Mapping[tuple[str, str], int], found: dict[tuple[str, str], int]
) -> Op[list[_Span]]:
    """The jobs, those with the same options together; their lanes go into `found`."""
    spans: list[_Span] = []
    for _, run in itertools.groupby(jobs, key=lambda job: id(job.options)):
        span = list(run)
        options = span[0].options
        lane = (options.queue, options.task)
        if lane not in found:
            found[lane] = lanes.get(lane) or (yield from lane_of(*lane))
        if options.callback is not None:
            # Made now, while there is time: whoever ends the job must not wait for another that makes this lane.
            found[_TELLING] = lanes.get(_TELLING) or (yield from lane_of(*_TELLING))
        spans.append(_Span(start, _template(options, found[lane], moment.now), span))
        start += len(span)
    return spans


def _add(batch: _Batch, spans: list[_Span], known: dict[int, Known]) -> Op[None]:
    fresh = yield from _take_keys(batch, spans)
    for start, template, jobs in spans:
        if is_alike(template.options):
            yield from _add_alike(batch, template, start, [job.arguments for job in jobs])
            continue
        for offset, job in enumerate(jobs, start):
            special = yield from _add_special(batch, template, offset, job, offset in fresh)
            if special is not None:
                known[offset] = special


class _Batch(NamedTuple):
    """Job i of a batch gets seq `first_seq + i` and, unless its caller chose one, id `first_id + i`."""

    moment: Moment
    first_seq: int
    first_id: int
    replaced: dict[int, Hidden]
    """Jobs that lost their key to one of this batch, and are to be told of."""


class _Template(NamedTuple):
    """What all jobs with the same options share: the parameters of the statements that write them."""

    options: Options
    lane: int
    fields: dict[str, Any]


class _Span(NamedTuple):
    """Jobs in a row with the same options; the first has this index in the batch."""

    start: int
    template: _Template
    jobs: list[NewJob]


def _template(options: Options, lane: int, now: int) -> _Template:
    run_at = options.run_at if options.run_at is not None else now + options.delay
    fields = {
        "lane": lane,
        "priority": options.priority,
        "attempts_max": options.attempts,
        "run_after": run_at if run_at > now else None,
        "now": now,
        "key": None if options.key is None else options.key.text,
        "tags": msgspec.json.encode(options.tags).decode() if options.tags else None,
        "meta": options.meta,
        "parent": options.parent,
        "callback": options.callback,
    }
    return _Template(options, lane, fields)


def _add_alike(batch: _Batch, template: _Template, index: int, arguments: list[str]) -> Op[None]:
    """Jobs in a row that differ in nothing but their arguments: a few statements for all of them."""
    first = batch.first_seq + index
    head, low = id_parts(batch.first_id + index)
    fields = {**template.fields, "first": first, "last": first + len(arguments) - 1, "id_head": head, "id_low": low}
    yield Statement("add_bodies", {**fields, "arguments": msgspec.json.encode(arguments).decode()})
    yield _placed(fields)


def _placed(fields: dict[str, Any]) -> Statement:
    """A span of bodies goes into the narrow table of its state."""
    return Statement("add_ready" if fields["run_after"] is None else "add_scheduled", fields)


def _take_keys(batch: _Batch, spans: list[_Span]) -> Op[set[int]]:
    """The jobs whose key nobody had. All other keys are locked now: in their order, so that nobody waits in a circle."""
    keyed = [
        (template.options.key, offset, template)
        for start, template, jobs in spans
        if template.options.key is not None
        for offset in range(start, start + len(jobs))
    ]
    fresh: set[int] = set()
    for key, offset, template in sorted(keyed, key=lambda each: (each[0].text, each[1])):
        if (yield Statement("take_key", _held(batch, template, key, offset))):
            fresh.add(offset)
    return fresh


def _add_special(batch: _Batch, template: _Template, index: int, job: NewJob, fresh: bool) -> Op[Known | None]:
    """A key, an id of the caller's, tags: decided and written one by one. None: new, with an id of ours."""
    options, seq, id = template.options, batch.first_seq + index, _id(batch, template, index)
    if options.key is not None and not fresh:
        first = yield from _holder(batch, options.key, job)
        if first is not None:
            return first
        yield Statement("hold_key", _held(batch, template, options.key, index))
    fields = {**template.fields, "first": seq, "last": seq}
    if not (yield Statement("add_body", {**fields, "seq": seq, "id": id, "chosen": options.id, "arguments": job.arguments})):
        raise Conflict(f"job id {id!r} is taken; leave the id out, or use a key to get the job that exists")
    if options.tags:
        yield Statement("add_tags", rows=[(tag, seq) for tag in options.tags])
    yield _placed(fields)
    return Known(id, created=True) if options.id is not None else None


def _id(batch: _Batch, template: _Template, index: int) -> str:
    return template.options.id or id_text(batch.first_id + index)


def _holder(batch: _Batch, key: Key, job: NewJob) -> Op[Known | None]:
    """The job that has the key, if it still counts; None: the key is ours to take."""
    found = yield Statement("key_holder", {"key": key.text})
    if not found:
        return None
    holder = Holder(*found[0])
    if not holds(holder, batch.moment.now):
        return None
    if key.conflict == "replace" and holder.ended is None:
        why = f"replaced by a newer job with key {key.text}"
        told = yield from control.cancel_if_open(batch.moment, holder.id, why)
        if told is not None:
            batch.replaced[told] = NOTHING_HIDDEN
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


def _held(batch: _Batch, template: _Template, key: Key, index: int) -> dict[str, Any]:
    now = batch.moment.now
    timed = isinstance(key.scope, float)
    return {
        "key": key.text,
        "seq": batch.first_seq + index,
        "id": _id(batch, template, index),
        "scope": "seconds" if timed else key.scope,
        "until": now + int(key.scope * 1e6) if isinstance(key.scope, float) else None,
        "failed": key.failed,
        "lane": template.lane,
        "created_at": now,
    }
