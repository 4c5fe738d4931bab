"""The lookout: what there is to do for a worker, and the claim of it.

A look takes no lock, so an idle worker never holds one. Where it is a round trip, what it finds is taken with it: a job that
comes to an idle worker costs one statement, not eight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.domain.job import Claimed
from holdfast.registry import AnyTask
from holdfast.store import browse, claim
from holdfast.store.op import Moment, Op, Single
from holdfast.store.store import Store
from holdfast.worker.terms import Terms


class Found(NamedTuple):
    """What there is to do."""

    ready: bool
    to_tend: bool
    claimed: list[Claimed]
    """What was taken at once, and the lease clock when it was."""
    tick: int


class Lookout:
    def __init__(self, store: Store, terms: Terms, tasks: Mapping[str, AnyTask]) -> None:
        self._store, self._terms = store, terms
        self._tasks = sorted(tasks)
        self.leases = {name: task.lease_seconds for name, task in tasks.items() if task.lease_seconds}
        """In seconds, of tasks that have one of their own."""
        self.lanes: dict[int, tuple[str, str]] = {}
        """Queue and task by lane, of those that anything was claimed from."""
        self.next_due: int | None = None
        self._cursor = claim.Cursor()

    @property
    def lease_min(self) -> float:
        return min([self._terms.lease_seconds, *self.leases.values()])

    @property
    def partial(self) -> bool:
        """Whether the last claim got less than it asked for because it did not look everywhere."""
        return self._cursor.partial

    def due_in(self) -> float | None:
        """Seconds until the next scheduled job that is known of."""
        return None if self.next_due is None else (self.next_due - self._store.clock.now()) / 1e6

    def look(self, worker: int, room: int, retention: int | None) -> Found:
        """Room for nothing: only whether there is something to tend. Jobs that ended longer ago than `retention` are, too."""
        if room and self._store.far and not self._cursor.places:
            found = self._store.write(Single(lambda moment: self._pick_up(moment, worker, room, retention), _took_something))
        else:
            found = self._store.read(lambda moment: self._ask(moment, worker, room > 0, retention))
        if any(claimed.lane not in self.lanes for claimed in found.claimed):
            self.lanes = self._store.read(lambda _: browse.lane_names())
        return found

    def _pick_up(self, moment: Moment, worker: int, room: int, retention: int | None) -> Op[Found]:
        holder = self._holder(worker, {task: int(seconds * 1e6) for task, seconds in self.leases.items()})
        queues, horizon = self._terms.queues, _horizon(moment, retention)
        claimed, left = yield from claim.pick_up(moment, holder, queues, self._tasks, room, horizon)
        self.next_due = left.next_due
        return Found(left.ready, left.to_tend, claimed, moment.tick)

    def _ask(self, moment: Moment, worker: int, looking: bool, retention: int | None) -> Op[Found]:
        queues, horizon = self._terms.queues, _horizon(moment, retention)
        left = yield from claim.idle(moment, worker, queues, self._tasks, self._cursor, looking, horizon)
        self.next_due = left.next_due
        return Found(left.ready, left.to_tend, [], moment.tick)

    def take(self, moment: Moment, worker: int, room: int) -> Op[list[Claimed]]:
        lanes = yield from claim.ready_lanes(self._terms.queues, self._tasks, self._cursor)
        if not self.lanes.keys() >= set(lanes):
            self.lanes = yield from browse.lane_names()
        leases = {lane: int(self.leases[self.lanes[lane][1]] * 1e6) for lane in lanes if self.lanes[lane][1] in self.leases}
        return (yield from claim.claim(moment, self._holder(worker, leases), lanes, room))

    def _holder(self, worker: int, leases: dict[int, int] | dict[str, int]) -> claim.Holder:
        return claim.Holder(worker, self._terms.name, int(self._terms.lease_seconds * 1e6), leases, self._cursor)

    def is_empty(self) -> bool:
        """Whether nothing is ready or running, here or elsewhere, in what this worker works on."""

        def make(_: Moment) -> Op[bool]:
            lanes = yield from claim.lanes(self._terms.queues, self._tasks)
            return not any((yield from browse.work_left(lanes)))

        return self._store.read(make)


def _took_something(found: Found) -> bool:
    return bool(found.claimed)


def _horizon(moment: Moment, retention: int | None) -> int:
    return 0 if retention is None else moment.now - retention
