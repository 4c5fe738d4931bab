"""Is claiming stalled: does a job wait although a worker of its queue has free slots, or because no such worker lives?

Cheap whatever the backlog, for it is asked every few seconds: only the first in line of each lane is looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import msgspec

from holdfast.store.op import Moment, Op, Row, Statement


class NextReady(NamedTuple):
    """The job that is next in a lane, and for how long it has been ready."""

    queue: str
    task: str
    id: str
    waited_seconds: float


class WorkerLoad(NamedTuple):
    """A living worker; a job that was claimed by hand counts as a worker without free slots."""

    name: str
    by_hand: bool
    queues: frozenset[str] | None
    slots: int
    running: int

    @classmethod
    def of(cls, row: Row) -> WorkerLoad:
        """A row of `worker_loads`."""
        name, by_hand, queues, slots, running = row
        return cls(name, bool(by_hand), _queues(queues), slots, running)

    def serves(self, queue: str) -> bool:
        return self.queues is None or queue in self.queues


class Snapshot(NamedTuple):
    heads: list[NextReady]
    duties: list[WorkerLoad]
    overdue_seconds: float
    """For how long a scheduled job is due that was not made ready."""

    @property
    def workers(self) -> list[WorkerLoad]:
        return [duty for duty in self.duties if not duty.by_hand]


class Stall(NamedTuple):
    queue: str | None
    task: str | None
    id: str | None
    seconds: float
    reason: str


def loads(moment: Moment) -> Statement:
    return Statement("worker_loads", moment.clocks)


def standing(moment: Moment) -> Op[Snapshot]:
    # Free slots are read first: a job that is ready afterwards has waited beside them.
    duties = [WorkerLoad.of(row) for row in (yield loads(moment))]
    heads = [
        NextReady(queue, task, id, max(0.0, (moment.now - ready_at) / 1e6))
        for queue, task, id, ready_at in (yield Statement("oldest_ready", {"now": moment.now}))
    ]
    due: int | None = (yield Statement("next_due", {"now": moment.now}))[0][0]
    return Snapshot(heads, duties, 0.0 if due is None else max(0.0, (moment.now - due) / 1e6))


def stalls(found: Snapshot, seconds: float, tasks: Collection[str] | None = None) -> list[Stall]:
    """What has waited for longer than this without a good reason; of these tasks only, where they are given.

    That all workers of its queue are busy is a good reason: jobs may take hours.
    """
    return [*_unpromoted(found, seconds), *_unclaimed(found, seconds, tasks)]


def _unpromoted(found: Snapshot, seconds: float) -> Iterator[Stall]:
    if found.overdue_seconds > seconds:
        reason = "a scheduled job is due, and no worker has made it ready; any worker would"
        yield Stall(None, None, None, found.overdue_seconds, reason)


def _unclaimed(found: Snapshot, seconds: float, tasks: Collection[str] | None) -> Iterator[Stall]:
    for head in found.heads:
        if head.waited_seconds <= seconds or (tasks is not None and head.task not in tasks):
            continue
        serving = [duty for duty in found.duties if duty.serves(head.queue)]
        free = [duty for duty in serving if duty.running < duty.slots]
        if not serving:
            reason = f"no living worker serves queue {head.queue}; start one"
        elif free:
            reason = f"worker {free[0].name} serves queue {head.queue} and has room, but does not take it; does it know the task?"
        else:
            continue
        yield Stall(head.queue, head.task, head.id, head.waited_seconds, reason)


def _queues(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(msgspec.json.decode(text, type=list[str]))
