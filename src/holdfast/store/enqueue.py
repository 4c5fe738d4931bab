"""Accepting jobs: any number of them in one transaction, keys decided inside it.

Every option is written in sets: a few statements for a batch, whatever its jobs ask for. Two cases cost less. Jobs that share
one set of options are written by `add_alike`, which is given the options once. A single simple job is one statement, which needs
no transaction around it (`Enqueue.alone`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from holdfast.domain.bounds import SMALL_ENQUEUE_MAX
from holdfast.domain.callback import CALLBACK_QUEUE, CALLBACK_TASK
from holdfast.domain.job import NewJob, Options
from holdfast.errors import Conflict
from holdfast.store import depth
from holdfast.store.callbacks import announce
from holdfast.store.depth import Depth, Full
from holdfast.store.ids import first_id, id_parts, id_text
from holdfast.store.keys import Batch, Existing, New, is_there, rounds, with_keys
from holdfast.store.lane import Pair, add_lanes, lanes_of
from holdfast.store.op import Alone, Moment, Op, Operation, Shortcut, Statement, json_of

NUMBERS_MAX: Final = 4_096
"""How many consecutive numbers one `next_job` gives at most."""
_CALLBACKS: Final[Pair] = (CALLBACK_QUEUE, CALLBACK_TASK)


class Accepted(msgspec.Struct, frozen=True):
    """What became of a batch: job i has id `first_id + i`, unless the caller chose its id, or its key had a job already."""

    first_id: int
    count: int
    created_at: int
    chosen: dict[int, str] = {}
    existing: dict[int, Existing] = {}
    bounded: frozenset[str] = frozenset()
    """Their queues that are bounded."""
    full: Full | None = None
    """Set where a bounded queue had no room: only the first `count` jobs were accepted."""

    def id(self, index: int) -> str:
        existing = self.existing.get(index)
        if existing is not None:
            return existing.id
        return self.chosen.get(index) or id_text(self.first_id + index)

    def part(self, start: int, count: int) -> Accepted:
        """Some of the jobs in a row, where all ids are ours."""
        accepted = max(0, min(count, self.count - start))
        return Accepted(self.first_id + start, accepted, self.created_at, full=self.full if accepted < count else None)


class Enqueue(Shortcut[Accepted]):
    """The operation that accepts these jobs."""

    def __init__(self, jobs: Sequence[NewJob], writing: Callable[[], None] = lambda: None, *, bounded: bool = False) -> None:
        """
        writing  Called when all is decided, and the statement that writes the jobs is the next.
        bounded  A hint that their queue is: then it may wait for the depth's row, which a caller's transaction can hold for long.
        """
        self.jobs, self._writing, self._bounded = jobs, writing, bounded

    def __call__(self, moment: Moment) -> Op[Accepted]:
        return enqueue(moment, self.jobs, self._writing)

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
        return not self._bounded and len(self.jobs) <= SMALL_ENQUEUE_MAX and self.joins

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


def enqueue(moment: Moment, jobs: Sequence[NewJob], writing: Callable[[], None] = lambda: None) -> Op[Accepted]:
    batch = Batch(moment, first_id(moment.now))
    count = 0
    while count < len(jobs) and batch.full is None:
        count += yield from _add(batch, count, jobs[count : count + NUMBERS_MAX], writing)
    if batch.replaced:  # not before: this adds jobs, and the numbers above were only looked up
        yield from announce(moment, batch.replaced)
    return Accepted(batch.first_id, count, moment.now, batch.chosen, batch.existing, frozenset(batch.bounded), batch.full)


def _add(batch: Batch, start: int, jobs: Sequence[NewJob], writing: Callable[[], None]) -> Op[int]:
    """How many of them were accepted: all, unless a bounded queue has no room."""
    pairs = _pairs(jobs)
    [[(number,)], found] = yield [Statement("next_job"), lanes_of(pairs)]
    lanes = yield from add_lanes(pairs, found)
    batch.lanes = lanes.numbers
    if lanes.bounded:
        batch.bounded |= lanes.bounded
        depths = yield from depth.lock(lanes.bounded)
        if depths:
            return (yield from _add_within(batch, start, number, jobs, writing, depths))
    yield from _add_all(batch, start, number, jobs, writing)
    return len(jobs)


def _add_all(batch: Batch, start: int, number: int, jobs: Sequence[NewJob], writing: Callable[[], None]) -> Op[int]:
    """How many of them are new."""
    options = jobs[0].options
    if options.is_alike and all(job.options is options for job in jobs):
        statement = _add_alike(batch, start, number, jobs)
        writing()
        yield statement
        return len(jobs)
    asked = [New(at, number + at - start, job.options, job.arguments) for at, job in enumerate(jobs, start)]
    new = 0
    for some in rounds(asked):
        made = yield from with_keys(batch, some)
        statements = _add_jobs(batch, made)
        writing()
        added = 0
        for statement in statements:
            added += (yield statement)[0][0]
        chosen = {new.at: id for new in made if (id := new.options.id) is not None}
        if added < len(made):
            yield from _refuse_ids(list(chosen.values()))
        batch.chosen.update(chosen)
        new += added
    return new


def _add_within(
    batch: Batch, start: int, number: int, jobs: Sequence[NewJob], writing: Callable[[], None], depths: dict[str, Depth]
) -> Op[int]:
    """As many in a row as the bounded queues have room for. A job that its key finds already there needs none."""
    done = 0
    while done < len(jobs):
        queue = jobs[done].options.queue
        alike = next((at for at in range(done, len(jobs)) if jobs[at].options.queue != queue), len(jobs))
        bounded = depths.get(queue)
        room = alike - done if bounded is None else (yield from bounded.room(alike - done))
        if room == 0 and bounded is not None and not (yield from is_there(batch, jobs[done])):
            batch.full = yield from bounded.full(batch.moment)
            break
        some = jobs[done : done + max(room, 1)]
        new = yield from _add_all(batch, start + done, number + done, some, writing)
        if bounded is not None:
            bounded.jobs += new
        done += len(some)
    for each in depths.values():
        yield from each.keep()
    return done


def _pairs(jobs: Sequence[NewJob]) -> list[Pair]:
    """The queues and tasks of the jobs. That of callbacks too, if any has one: whatever ends such a job must not wait for a
    transaction that is adding this lane."""
    several = {id(job.options): job.options for job in jobs}.values()
    pairs = {(options.queue, options.task): None for options in several}
    if any(options.callback is not None for options in several):
        pairs[_CALLBACKS] = None
    return list(pairs)


def _add_alike(batch: Batch, start: int, number: int, jobs: Sequence[NewJob]) -> Statement:
    options = jobs[0].options
    head, low = id_parts(batch.first_id + start)
    fields = {
        "first": number,
        "last": number + len(jobs) - 1,
        "id_head": head,
        "id_low": low,
        "lane": batch.lane(options),
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


def _add_jobs(batch: Batch, made: list[New]) -> list[Statement]:
    """One statement for all jobs that share a lane, a number of attempts and a callback: the rest may differ from job to job."""
    now = batch.moment.now
    groups: dict[tuple[int, int, str | None], list[New]] = {}
    for new in made:
        options = new.options
        groups.setdefault((batch.lane(options), options.attempts, options.callback), []).append(new)
    return [
        Statement("add_jobs", {"now": now, "lane": lane, "attempts_max": attempts, "callback": callback, **_rows(batch, some)})
        for (lane, attempts, callback), some in groups.items()
    ]


def _rows(batch: Batch, some: list[New]) -> dict[str, Any]:
    """The jobs by their distance from the first one; without the last columns, where none of the jobs has them."""
    first, now = some[0], batch.moment.now
    head, low = id_parts(batch.first_id + first.at)
    columns = list(zip(*[
        (arguments, options.priority, None if options.key is None else options.key.text, options.tags_json, options.meta,
         options.run_after(now), options.parent, options.id)
        for _, _, options, arguments in some
    ], strict=True))  # fmt: skip
    used = [column.count(None) < len(some) for column in columns]
    width = max(place for place, is_used in enumerate(used, 1) if is_used)
    rows = zip(*columns[:width], strict=True)
    return {
        "first": first.seq,
        "id_head": head,
        "id_low": low,
        "jobs": json_of({new.seq - first.seq: row for new, row in zip(some, rows, strict=True)}),
        "width": width,
        "seqs": json_of([new.seq for new in some]),
        "are_tagged": used[3],
        "are_scheduled": used[5],
    }


def _refuse_ids(ids: list[str]) -> Op[None]:
    """One of the ids that callers chose is taken, or was chosen twice."""
    rows = yield Statement("jobs_by_id", {"ids": json_of(ids)})
    taken = next((row[1] for row in rows), ids[0])
    raise Conflict(f"job id {taken!r} is taken; leave the id out, or use a key to get the job that exists")
