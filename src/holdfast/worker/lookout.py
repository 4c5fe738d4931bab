"""The lookout: what there is to do for a worker, and the claim of it.

A look takes no lock, so an idle worker never holds one. Where it is a round trip, what it finds is taken with it: a job that
comes to an idle worker costs one statement, not eight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Final, NamedTuple

from holdfast.domain.job import Claimed
from holdfast.registry import AnyTask
from holdfast.store import browse, claim
from holdfast.store.op import Moment, Op, Single
from holdfast.store.store import Store
from holdfast.worker.terms import Terms

NEAR_MAX: Final = 4
"""So many lanes are asked one by one for what there is; if there are more, it is asked first which of them have something."""


class Picked(NamedTuple):
    """What was taken at once, the lease clock when it was, and what there is to do besides."""

    claimed: list[Claimed]
    tick: int
    left: claim.Idle


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

    def look(self, worker: int, looking: bool, retention: int | None) -> claim.Idle:
        """Whether there is something to claim, if that is looked for, or to tend: such as jobs that ended so long ago."""

        def make(moment: Moment) -> Op[claim.Idle]:
            horizon = 0 if retention is None else moment.now - retention
            return (yield from claim.idle(moment, worker, self._terms.queues, self._tasks, self._cursor, looking, horizon))

        left = self._store.read(make, urgent=True)
        self.next_due = left.next_due
        return left

    def beat(self, worker: int, last: int) -> int | None:
        """A beat and nothing else, as one statement; the lease clock when it was, or None if ours was not the last beat."""

        def make(moment: Moment) -> Op[int | None]:
            return moment.tick if (yield from claim.beat(moment, worker, last)) else None

        return self._store.write(Single(make, tells=lambda _: False))

    def may_pick_up(self) -> bool:
        """Whether a look is best made with the claim; not in the middle of a lane, where dead rows lie at the start."""
        return self._store.far and not self._cursor.places

    def pick_up(self, worker: int, beat_tick: int, room: int) -> Picked:
        """A look that takes what it finds."""
        holder = self._holder(worker, {task: int(seconds * 1e6) for task, seconds in self.leases.items()})

        def make(moment: Moment) -> Op[Picked]:
            claimed, left = yield from claim.pick_up(moment, holder, beat_tick, self._terms.queues, self._tasks, room)
            return Picked(claimed, moment.tick, left)

        picked = self._store.write(Single(make, tells=lambda picked: bool(picked.claimed)))
        self.next_due = picked.left.next_due
        if picked.claimed and picked.claimed[0].lane not in self.lanes:
            self.lanes = self._store.read(lambda _: browse.lane_names(), urgent=True)
        return picked

    @property
    def place(self) -> claim.Cursor:
        """Where it stands, to `return_to` if nothing was taken after all."""
        return copy(self._cursor)

    def return_to(self, place: claim.Cursor) -> None:
        self._cursor = copy(place)

    def near(self, moment: Moment, room: int) -> Op[list[claim.Offered]]:
        """What there is where the last claim left off, if that is in few lanes, and to look for them first would cost a way."""
        lanes = list(self._cursor.places)
        if room <= 0 or not self._store.far or not 0 < len(lanes) <= NEAR_MAX or not self.lanes.keys() >= set(lanes):
            return []
        return (yield from claim.offered(moment, self._cursor, lanes, room))

    def take_offered(self, moment: Moment, worker: int, offered: list[claim.Offered]) -> Op[list[Claimed]]:
        lanes = {lane for _, _, lane, _ in offered}
        return (yield from claim.take(moment, self._holder(worker, self._leases_of(lanes)), offered))

    def take(self, moment: Moment, worker: int, room: int) -> Op[list[Claimed]]:
        lanes = yield from claim.ready_lanes(self._terms.queues, self._tasks, self._cursor)
        if not self.lanes.keys() >= set(lanes):
            self.lanes = yield from browse.lane_names()
        return (yield from claim.claim(moment, self._holder(worker, self._leases_of(lanes)), lanes, room))

    def _leases_of(self, lanes: Iterable[int]) -> dict[int, int]:
        return {lane: int(self.leases[self.lanes[lane][1]] * 1e6) for lane in lanes if self.lanes[lane][1] in self.leases}

    def _holder(self, worker: int, leases: dict[int, int] | dict[str, int]) -> claim.Holder:
        return claim.Holder(worker, self._terms.name, int(self._terms.lease_seconds * 1e6), leases, self._cursor)

    def is_empty(self) -> bool:
        """Whether nothing is ready or running, here or elsewhere, in what this worker works on."""

        def make(_: Moment) -> Op[bool]:
            lanes = yield from claim.lanes(self._terms.queues, self._tasks)
            return not any((yield from browse.work_left(lanes)))

        return self._store.read(make, urgent=True)
