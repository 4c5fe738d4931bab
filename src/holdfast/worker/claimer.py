"""What there is to do for a worker, and the claim of it.

Nothing here is changed by an operation: a claim returns its cursor, which `committed` keeps once the transaction is committed.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.domain.limits import NEVER
from holdfast.registry import AnyTask
from holdfast.store import browse, claim, workers
from holdfast.store.browse import Left
from holdfast.store.claim import Claim, Cursor, Holder, Lane
from holdfast.store.op import Moment, Op
from holdfast.store.store import Store
from holdfast.store.workers import Work
from holdfast.worker.config import WorkerConfig


class Claimer:
    def __init__(self, store: Store, config: WorkerConfig, tasks: Mapping[str, AnyTask]) -> None:
        self._store, self._config = store, config
        self._tasks = sorted(tasks)
        self._leases = {name: int(task.lease_seconds * 1e6) for name, task in tasks.items() if task.lease_seconds}
        self._lease = int(config.lease_seconds * 1e6)
        self._cursor = Cursor() if store.is_remote else None
        self.next_due: int | None = None

    @property
    def lease_min(self) -> int:
        """The shortest lease of any task, in microseconds."""
        return min([self._lease, *self._leases.values()])

    def lease_of(self, task: str) -> int:
        return self._leases.get(task, self._lease)

    def due_in(self) -> float | None:
        """Seconds until the next scheduled job that is known of."""
        return None if self.next_due is None else (self.next_due - self._store.clock.now()) / 1e6

    def look(self, worker: int, claims: bool, retention: int | None) -> Work:
        """Whether there is something to claim, if that is asked, or to tend: such as jobs that ended so long ago."""

        def run(moment: Moment) -> Op[Work]:
            horizon = 0 if retention is None else moment.now - retention
            return (
                yield from workers.work_to_do(
                    moment, worker, self._config.queues, self._tasks, self._cursor, claims, horizon
                )
            )  # fmt: skip

        work = self._store.read(run, urgent=True)
        self.next_due = work.next_due
        return work

    def lanes(self, moment: Moment) -> Op[list[Lane]]:
        """Those of this worker's lanes that have something ready."""
        return claim.ready_lanes(moment, self._config.queues, self._tasks, self._cursor)

    def claim(self, moment: Moment, worker: int, since: int, lanes: list[Lane], limit: int, slots: int) -> Op[Claim]:
        holder = Holder(worker, self._config.name, self._lease, self._leases, since)
        return claim.claim(moment, holder, lanes, limit, self._cursor, slots)

    def start_over(self) -> None:
        """Nothing holds that was learned about the database before."""
        self._cursor = None if self._cursor is None else Cursor()
        self.next_due = None

    def committed(self, claimed: Claim) -> None:
        if self._cursor is not None:
            self._cursor = claimed.cursor

    def left(self) -> Left:
        """What there is in this worker's lanes."""

        def run(_: Moment) -> Op[Left]:
            lanes = yield from claim.lanes(self._config.queues, self._tasks)
            return (yield from browse.jobs_left(lanes))

        return self._store.read(run, urgent=True)

    def is_empty(self, patient: bool) -> bool:
        """Whether nothing is ready or running, here or elsewhere, in this worker's lanes.

        What is ready in a queue that lets nothing start does not count, if that has no end; nor, unless `patient`, if it has.
        """

        def run(moment: Moment) -> Op[bool]:
            lanes = yield from claim.lanes(self._config.queues, self._tasks)
            return not any((yield from browse.work_left(lanes, NEVER if patient else moment.now + 1)))

        return self._store.read(run, urgent=True)
