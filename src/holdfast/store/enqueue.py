"""Accepting jobs: any number of them in one transaction, keys decided inside it.

Every option is written in sets: a few statements for a batch, whatever its jobs ask for. Two cases cost less. Jobs that share
one set of options are written by `add_alike`, which is given the options once. A single simple job is one statement, which needs
no transaction around it (`Enqueue.alone`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.domain.bounds import SMALL_ENQUEUE_MAX
from holdfast.domain.callback import CALLBACK_QUEUE, CALLBACK_TASK
from holdfast.domain.job import NewJob, Options
from holdfast.domain.key import Holder, Key, holds
from holdfast.domain.message import NOTHING_HIDDEN, Hidden
from holdfast.errors import Conflict
from holdfast.store import control
from holdfast.store.callbacks import announce
from holdfast.store.ids import first_id, id_parts, id_text
from holdfast.store.lane import Pair, add_lanes, lanes_of
from holdfast.store.op import Alone, Moment, Op, Operation, Shortcut, Statement, json_of

NUMBERS_MAX: Final = 4_096
"""How many consecutive numbers one `next_job` gives at most."""
_CALLBACKS: Final[Pair] = (CALLBACK_QUEUE, CALLBACK_TASK)

_decode_seqs = msgspec.json.Decoder(list[int]).decode


class Existing(msgspec.Struct, frozen=True):
    """The job that already has the key of one that was asked for."""

    id: str
    same_arguments: bool = True
    ended: Holder | None = None
    """Set where the job itself was pruned and only its key is left."""


class Accepted(msgspec.Struct, frozen=True):
    """What became of a batch: job i has id `first_id + i`, unless the caller chose its id, or its key had a job already."""

    first_id: int
    count: int
    created_at: int
    chosen: dict[int, str] = {}
    existing: dict[int, Existing] = {}

    def id(self, index: int) -> str:
        existing = self.existing.get(index)
        if existing is not None:
            return existing.id
        return self.chosen.get(index) or id_text(self.first_id + index)

    def part(self, start: int, count: int) -> Accepted:
        """Some of the jobs in a row, where all ids are ours."""
        return Accepted(self.first_id + start, count, self.created_at)


class Enqueue(Shortcut[Accepted]):
    """The operation that accepts these jobs."""

    def __init__(self, jobs: Sequence[NewJob]) -> None:
        self.jobs = jobs

    def __call__(self, moment: Moment) -> Op[Accepted]:
        return enqueue(moment, self.jobs)

    def alone(self, moment: Moment) -> Alone[Accepted] | None:
        if len(self.jobs) != 1 or not self.jobs[0].options.is_simple:
            return None
        (job,) = self.jobs
        options, first = job.options, first_id(moment.now)
        fields = {
            "queue": options.queue,
            "task": options.task,
            "priority": options.priority,
            "attempts_max": options.attempts,
            "now": moment.now,
            "id": id_text(first),
            "arguments": job.arguments,
            "meta": options.meta,
            "parent": options.parent,
        }
        return Alone(Statement("add_job", fields), Accepted(first, 1, moment.now))

    @property
    def is_quick(self) -> bool:  # type: ignore[override]
        return len(self.jobs) <= SMALL_ENQUEUE_MAX and self.joins

    @property
    def joins(self) -> bool:
        """Without a key or an id of the caller's there is nothing to decide, and so nothing that could be refused."""
        first = self.jobs[0].options
        return all(job.options is first or _is_free(job.options) for job in self.jobs) and _is_free(first)

    def joined(self, others: Sequence[Enqueue]) -> Operation[list[Accepted]]:
        every = (self, *others)

        def run(moment: Moment) -> Op[list[Accepted]]:
            whole = yield from enqueue(moment, [job for each in every for job in each.jobs])
            parts, start = [], 0
            for each in every:
                parts.append(whole.part(start, len(each.jobs)))
                start += len(each.jobs)
            return parts

        return run


def _is_free(options: Options) -> bool:
    return options.key is None and options.id is None


class _New(NamedTuple):
    """A job that is asked for: its place in the batch, and what it gets if it is made."""

    at: int
    seq: int
    id: str
    lane: int
    options: Options
    arguments: str


class _Batch:
    """What is decided about the jobs of one operation, as it is decided."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment
        self.first_id = first_id(moment.now)
        self.chosen: dict[int, str] = {}
        self.existing: dict[int, Existing] = {}
        self.replaced: dict[int, Hidden] = {}
        """Jobs with a callback that lost their key to one of this batch, by their numbers."""


def enqueue(moment: Moment, jobs: Sequence[NewJob]) -> Op[Accepted]:
    batch = _Batch(moment)
    for start in range(0, len(jobs), NUMBERS_MAX):
        yield from _add(batch, start, jobs[start : start + NUMBERS_MAX])
    if batch.replaced:  # not before: this adds jobs, and the numbers above were only looked up
        yield from announce(moment, batch.replaced)
    return Accepted(batch.first_id, len(jobs), moment.now, batch.chosen, batch.existing)


def _add(batch: _Batch, start: int, jobs: Sequence[NewJob]) -> Op[None]:
    pairs = _pairs(jobs)
    [[(number,)], found] = yield [Statement("next_job"), lanes_of(pairs)]
    lanes = yield from add_lanes(pairs, found)
    options = jobs[0].options
    if options.is_alike and all(job.options is options for job in jobs):
        yield _add_alike(batch, start, number, lanes[options.queue, options.task], jobs)
        return
    rounds: list[dict[str, _New]] = [{}]
    times: Counter[str] = Counter()
    for at, job in enumerate(jobs, start):
        options = job.options
        name = options.id or id_text(batch.first_id + at)
        new = _New(at, number + at - start, name, lanes[options.queue, options.task], options, job.arguments)
        name = name if options.key is None else options.key.text
        if times[name] == len(rounds):
            rounds.append({})
        rounds[times[name]][name] = new
        times[name] += 1
    first, *repeated = rounds
    made = yield from _with_keys(batch, list(first.values()))
    if made:
        yield from _write(batch, made)
    for again in repeated:  # the same key or id once more: decided when the job before it is written
        for new in (yield from _with_keys(batch, list(again.values()))):
            yield from _write(batch, [new])


def _pairs(jobs: Sequence[NewJob]) -> list[Pair]:
    """The queues and tasks of the jobs. That of callbacks too, if any has one: whatever ends such a job must not wait for a
    transaction that is adding this lane."""
    several = {id(job.options): job.options for job in jobs}.values()
    pairs = {(options.queue, options.task): None for options in several}
    if any(options.callback is not None for options in several):
        pairs[_CALLBACKS] = None
    return list(pairs)


def _add_alike(batch: _Batch, start: int, number: int, lane: int, jobs: Sequence[NewJob]) -> Statement:
    options = jobs[0].options
    head, low = id_parts(batch.first_id + start)
    fields = {
        "first": number,
        "last": number + len(jobs) - 1,
        "id_head": head,
        "id_low": low,
        "lane": lane,
        "priority": options.priority,
        "attempts_max": options.attempts,
        "now": batch.moment.now,
        "run_after": options.run_after(batch.moment.now),
        "arguments": json_of([job.arguments for job in jobs]),
        "meta": options.meta,
        "parent": options.parent,
        "callback": options.callback,
    }
    return Statement("add_alike", fields)


def _write(batch: _Batch, made: list[_New]) -> Op[None]:
    """All rows of these jobs. No job that is written already has a number between theirs."""
    now = batch.moment.now
    fields = {"now": now, "first": made[0].seq, "last": made[-1].seq, "jobs": json_of([_columns(new, now) for new in made])}
    added = (yield Statement("add_jobs", fields))[0][0]
    chosen = {new.at: new.id for new in made if new.options.id is not None}
    if added < len(made):
        yield from _refuse_ids(list(chosen.values()))
    batch.chosen.update(chosen)


def _columns(new: _New, now: int) -> tuple[Any, ...]:
    options = new.options
    return (
        new.seq, new.id, new.lane, options.priority, options.attempts, options.run_after(now), new.arguments,
        None if options.key is None else options.key.text, json_of(options.tags) if options.tags else None, options.meta,
        options.parent, options.callback,
    )  # fmt: skip


def _refuse_ids(ids: list[str]) -> Op[None]:
    """One of the ids that callers chose is taken, or was chosen twice."""
    rows = yield Statement("jobs_by_id", {"ids": json_of(ids)})
    taken = next((row[1] for row in rows), ids[0])
    raise Conflict(f"job id {taken!r} is taken; leave the id out, or use a key to get the job that exists")


def _with_keys(batch: _Batch, asked: list[_New]) -> Op[list[_New]]:
    """Those of the jobs that are to be made: they have no key, or it is theirs now."""
    keyed = [(new, new.options.key) for new in asked if new.options.key is not None]
    if not keyed:
        return asked
    now = batch.moment.now
    taken = yield Statement("take_keys", {"now": now, "keys": json_of([_held(new, key, now) for new, key in keyed])})
    fresh = set(_decode_seqs(taken[0][0]))
    contested = [(new, key) for new, key in keyed if new.seq not in fresh]
    if not contested:
        return asked
    rows = yield Statement("key_holders", {"keys": json_of([key.text for _, key in contested])})
    holders = {row[0]: Holder(*row[1:]) for row in rows}
    given: list[tuple[_New, Key]] = []
    found: list[tuple[_New, Holder]] = []
    for new, key in contested:
        holder = holders.get(key.text)
        if holder is None or (yield from _gives_way(batch, holder, key)):
            given.append((new, key))
        else:
            found.append((new, holder))
    if given:
        yield Statement("hold_keys", {"now": now, "keys": json_of([_held(new, key, now) for new, key in given])})
    if found:
        batch.existing.update((yield from _existing(found)))
    return [new for new in asked if new.at not in batch.existing]


def _gives_way(batch: _Batch, holder: Holder, key: Key) -> Op[bool]:
    """Whether a key is free although it was given to a job before; `replace` cancels that job."""
    if not holds(holder, batch.moment.now):
        return True
    if key.conflict == "raise":
        raise Conflict(f"key {key.text} is held by job {holder.id} ({holder.state or holder.ended or 'ready'}); "
                       "use conflict='return' to get that job, or another key")  # fmt: skip
    if key.conflict == "replace" and holder.ended is None:
        why = f"replaced by a newer job with key {key.text}"
        told = yield from control.cancel_if_open(batch.moment, holder.id, why)
        if told is not None:
            batch.replaced[told] = NOTHING_HIDDEN
    return key.conflict == "replace"


def _existing(found: Iterable[tuple[_New, Holder]]) -> Op[dict[int, Existing]]:
    """The jobs that have the keys, and whether each was asked for with the same arguments."""
    kept = [(holder.seq, new.arguments) for new, holder in found if holder.ended is None]
    others = set(_decode_seqs((yield Statement("other_arguments", {"jobs": json_of(kept)}))[0][0])) if kept else set()
    return {
        new.at: Existing(holder.id, holder.seq not in others, holder if holder.ended is not None else None)
        for new, holder in found
    }


def _held(new: _New, key: Key, now: int) -> tuple[Any, ...]:
    until = now + int(key.scope * 1e6) if isinstance(key.scope, float) else None
    return key.text, new.seq, new.id, "seconds" if isinstance(key.scope, float) else key.scope, until, key.failed, new.lane
