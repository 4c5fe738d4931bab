"""What an application can ask: every method sync, and async with an `a` in front, from the same operations.

`Client` is used in two places: the app itself, which commits by its own connection, and `app.on(connection)`, which runs
the same operations inside the caller's transaction.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeVar

from holdfast.batch import AsyncBatch, Batch
from holdfast.domain import codec
from holdfast.domain.bounds import ENQUEUE_BATCH_MAX, EVENTS_PAGE_MAX, REASON_CHARS_MAX, RESULT_BYTES_MAX
from holdfast.domain.codec import clip
from holdfast.domain.event import Event
from holdfast.domain.job import Job, Lease, NewJob, moment_of
from holdfast.domain.key import Key, Part, key_of
from holdfast.domain.outcome import Failed, JobError, Outcome, Released, Skipped, Succeeded, outcome_of, settle
from holdfast.domain.retry import Duration, seconds_of
from holdfast.domain.states import State
from holdfast.errors import LeaseLost, SettingError
from holdfast.events.pulse import Pulse
from holdfast.registry import Registry
from holdfast.settings import LEASE_SECONDS
from holdfast.store import browse, claim, control, tend
from holdfast.store.enqueue import Accepted, Plain, enqueue, is_plain
from holdfast.store.op import Make, Moment, Op, Statement
from holdfast.store.rows import job_of_claimed, job_of_key
from holdfast.store.settle import Report
from holdfast.store.settle import settle as write_reports
from holdfast.task import Task
from holdfast.worker.context import check_meter

T = TypeVar("T")
FOLLOW_SECONDS = 5.0
"""The longest that a follower goes without looking for itself."""


class Door(Protocol):
    """How operations reach a database: our own connections, or the caller's."""

    def write(self, make: Make[T]) -> T: ...
    async def awrite(self, make: Make[T]) -> T: ...
    def read(self, make: Make[T]) -> T: ...
    async def aread(self, make: Make[T]) -> T: ...


class Client:
    """The whole client API."""

    def __init__(self, door: Door, registry: Registry, pulse: Pulse, app: Client | None = None) -> None:
        self._door = door
        self._registry = registry
        self._pulse = pulse
        self._app = app

    def on(self, connection: Any) -> Client:
        """The same client inside the caller's transaction."""
        assert self._app is not None
        return self._app.on(connection)

    # Enqueue

    def enqueue(self, job: NewJob) -> Job:
        """Accept one job, made by `task.bind(...)`: durable when this returns."""
        if is_plain(job.options):
            return self._receipt(job, self._door.write(Plain((job,))), None)
        return self._receipt(job, *self._door.write(self._enqueue_one(job)))

    async def aenqueue(self, job: NewJob) -> Job:
        if is_plain(job.options):
            return self._receipt(job, await self._door.awrite(Plain((job,))), None)
        return self._receipt(job, *await self._door.awrite(self._enqueue_one(job)))

    def enqueue_many(self, jobs: Iterable[NewJob]) -> Batch:
        """Accept any number of jobs in bounded memory: each chunk of 2,000 is one transaction."""
        batch = Batch(self._load)
        for chunk in _chunks(jobs):
            batch.add(self._door.write(partial(enqueue, jobs=chunk)))
        return batch

    async def aenqueue_many(self, jobs: Iterable[NewJob]) -> AsyncBatch:
        batch = AsyncBatch(self._aload)
        for chunk in _chunks(jobs):
            batch.add(await self._door.awrite(partial(enqueue, jobs=chunk)))
        return batch

    def _enqueue_one(self, job: NewJob) -> Make[tuple[Accepted, Job | None]]:
        names = self._registry.names

        def make(moment: Moment) -> Op[tuple[Accepted, Job | None]]:
            accepted = yield from enqueue(moment, (job,))
            known = accepted.known.get(0)
            if known is None or known.created:
                return accepted, None
            if known.ended is not None:
                return accepted, job_of_key(known.ended, names)
            return accepted, (yield from browse.demand(known.id, names))

        return make

    def _receipt(self, job: NewJob, accepted: Accepted, first: Job | None) -> Job:
        if first is not None:
            first.created, first.same_arguments = False, accepted.known[0].same_arguments
            return first
        options, now = job.options, accepted.created_at
        run_at = options.run_at if options.run_at is not None else now + options.delay
        return Job(
            id=accepted.id(0),
            task=options.task,
            queue=options.queue,
            state=State.SCHEDULED if run_at > now else State.READY,
            priority=options.priority,
            attempt=0,
            attempts_max=options.attempts,
            token=0,
            arguments=job.arguments,
            key=None if options.key is None else options.key.parts,
            tags=options.tags,
            meta=None if options.meta is None else _as_dict(options.meta),
            parent=options.parent,
            created_at=moment_of(now),
            run_after=moment_of(run_at) if run_at > now else None,
            created=True,
            thaw_arguments=self._registry.names.arguments(options.task),
            thaw_result=self._registry.names.result(options.task),
        )

    def _load(self, ids: Sequence[str]) -> dict[str, Job]:
        return self._door.read(lambda _: browse.jobs_by_id(ids, self._registry.names))

    async def _aload(self, ids: Sequence[str]) -> dict[str, Job]:
        return await self._door.aread(lambda _: browse.jobs_by_id(ids, self._registry.names))

    # Read

    def get(self, id: str) -> Job | None:
        """The job, or None."""
        return self._door.read(lambda _: browse.get(id, self._registry.names))

    async def aget(self, id: str) -> Job | None:
        return await self._door.aread(lambda _: browse.get(id, self._registry.names))

    def find(self, key: Key | Part | tuple[Part, ...]) -> Job | None:
        """The job that has this key, or None."""
        return self._door.read(self._find(key))

    async def afind(self, key: Key | Part | tuple[Part, ...]) -> Job | None:
        return await self._door.aread(self._find(key))

    def _find(self, key: Key | Part | tuple[Part, ...]) -> Make[Job | None]:
        wanted = key_of(key)
        return lambda moment: browse.find(moment, wanted, self._registry.names)

    def jobs(
        self,
        *,
        state: State | str | None = None,
        queue: str | None = None,
        task: Task[Any, Any] | str | None = None,
        tag: str | None = None,
        parent: str | Job | None = None,
        newest: bool = True,
        limit: int = 100,
        after: str | Job | None = None,
    ) -> list[Job]:
        """A page of jobs; the next one with `after=` the last job of this one."""
        return self._door.read(self._jobs(state, queue, task, tag, parent, newest, limit, after))

    async def ajobs(
        self,
        *,
        state: State | str | None = None,
        queue: str | None = None,
        task: Task[Any, Any] | str | None = None,
        tag: str | None = None,
        parent: str | Job | None = None,
        newest: bool = True,
        limit: int = 100,
        after: str | Job | None = None,
    ) -> list[Job]:
        return await self._door.aread(self._jobs(state, queue, task, tag, parent, newest, limit, after))

    def _jobs(
        self,
        state: State | str | None,
        queue: str | None,
        task: Task[Any, Any] | str | None,
        tag: str | None,
        parent: str | Job | None,
        newest: bool,
        limit: int,
        after: str | Job | None,
    ) -> Make[list[Job]]:
        chosen = browse.Filter(
            state=None if state is None else state_of(state),
            queue=queue,
            task=task.name if isinstance(task, Task) else task,
            tag=tag,
            parent=parent.id if isinstance(parent, Job) else parent,
            newest=newest,
            limit=limit,
            after=after.id if isinstance(after, Job) else after,
        )
        return lambda _: browse.jobs(chosen, self._registry.names)

    def stats(self) -> dict[str, dict[str, int]]:
        """Task -> state -> how many jobs."""
        return self._door.read(lambda _: browse.stats())

    async def astats(self) -> dict[str, dict[str, int]]:
        return await self._door.aread(lambda _: browse.stats())

    def events(self, id: str, after: int = 0, follow: bool = False) -> Iterator[Event]:
        """The job's log after event number `after`; with `follow`, on and on until the job has ended."""
        if follow:
            self._check_outside("events(follow=True)")
        first = self._door.read(lambda _: browse.events(id, after))
        return self._follow(id, after, first, follow)

    def _follow(self, id: str, after: int, page: list[Event], follow: bool) -> Iterator[Event]:
        while True:
            yield from page
            after = page[-1].number if page else after
            if len(page) < EVENTS_PAGE_MAX and not follow:
                return
            count = self._pulse.count
            job = self.get(id) if follow and len(page) < EVENTS_PAGE_MAX else None
            page = self._door.read(_events_after(id, after))
            if follow and not page:
                if job is None or job.final:
                    return
                self._pulse.wait(count, FOLLOW_SECONDS)

    async def aevents(self, id: str, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        if follow:
            self._check_outside("aevents(follow=True)")
        page = await self._door.aread(lambda _: browse.events(id, after))
        while True:
            for event in page:
                yield event
            after = page[-1].number if page else after
            if len(page) < EVENTS_PAGE_MAX and not follow:
                return
            count = self._pulse.count
            job = await self.aget(id) if follow and len(page) < EVENTS_PAGE_MAX else None
            page = await self._door.aread(_events_after(id, after))
            if follow and not page:
                if job is None or job.final:
                    return
                await self._pulse.await_(count, FOLLOW_SECONDS)

    def wait(self, id: str, timeout: Duration | None = None) -> Job:
        """The job, once it has ended; `TimeoutError` if that takes longer than `timeout`."""
        self._check_outside("wait()")
        deadline = _deadline(timeout)
        while True:
            count = self._pulse.count
            job = self._door.read(lambda _: browse.demand(id, self._registry.names))
            if job.final:
                return job
            self._pulse.wait(count, _left(deadline, job))

    async def await_(self, id: str, timeout: Duration | None = None) -> Job:
        """The async twin of `wait`; `await` itself is a keyword."""
        self._check_outside("await_()")
        deadline = _deadline(timeout)
        while True:
            count = self._pulse.count
            job = await self._door.aread(lambda _: browse.demand(id, self._registry.names))
            if job.final:
                return job
            await self._pulse.await_(count, _left(deadline, job))

    def _check_outside(self, method: str) -> None:
        """A transaction sees what was when it began: a wait in it could last for ever."""
        if self._app is not None:
            raise SettingError(f"{method} cannot be used inside a transaction, which does not see what others do; commit first")

    # Act

    def cancel(self, id: str, reason: str = "cancelled by request") -> Job:
        """End the job now, running or not: a running one is stopped, and nothing it still does counts."""
        return self._door.write(self._cancel(id, reason))

    async def acancel(self, id: str, reason: str = "cancelled by request") -> Job:
        return await self._door.awrite(self._cancel(id, reason))

    def _cancel(self, id: str, reason: str) -> Make[Job]:
        why = clip(reason, REASON_CHARS_MAX)
        return lambda moment: self._then_read(control.cancel(moment, id, why), id)

    def retry(self, id: str) -> Job:
        """Run a failed, cancelled or skipped job again, with fresh attempts."""
        return self._door.write(lambda moment: self._then_read(control.retry(moment, id), id))

    async def aretry(self, id: str) -> Job:
        return await self._door.awrite(lambda moment: self._then_read(control.retry(moment, id), id))

    def skip(self, id: str | Lease, reason: str) -> Job:
        """End a job on purpose, by its id, or by the lease on it."""
        return self._door.write(self._skip(id, reason))

    async def askip(self, id: str | Lease, reason: str) -> Job:
        return await self._door.awrite(self._skip(id, reason))

    def _skip(self, id: str | Lease, reason: str) -> Make[Job]:
        why = clip(reason, REASON_CHARS_MAX)
        if isinstance(id, Lease):
            return self._end(id, Skipped(why))
        return lambda moment: self._then_read(control.skip(moment, id, why), id)

    def delete(self, id: str) -> None:
        """Remove a job that does not run, with its events, errors and key."""
        self._door.write(lambda _: control.delete(id))

    async def adelete(self, id: str) -> None:
        await self._door.awrite(lambda _: control.delete(id))

    def prune(self, older_than: Duration) -> int:
        """Remove all jobs that ended longer ago than this; how many they were."""
        make, pruned = self._prune(older_than), 0
        while batch := self._door.write(make):
            pruned += batch
        return pruned

    async def aprune(self, older_than: Duration) -> int:
        make, pruned = self._prune(older_than), 0
        while batch := await self._door.awrite(make):
            pruned += batch
        return pruned

    def _prune(self, older_than: Duration) -> Make[int]:
        age = int(seconds_of("older_than", older_than) * 1e6)
        return lambda moment: tend.prune(moment, moment.now - age)

    # By hand

    def claim(
        self,
        *,
        queues: Sequence[str] | None = None,
        tasks: Sequence[Task[Any, Any] | str] | None = None,
        worker: str | None = None,
        seconds: Duration = LEASE_SECONDS,
    ) -> Lease | None:
        """The most urgent job, leased for so many seconds; None if nothing is ready."""
        return self._door.write(self._claim(queues, tasks, worker, seconds))

    async def aclaim(
        self,
        *,
        queues: Sequence[str] | None = None,
        tasks: Sequence[Task[Any, Any] | str] | None = None,
        worker: str | None = None,
        seconds: Duration = LEASE_SECONDS,
    ) -> Lease | None:
        return await self._door.awrite(self._claim(queues, tasks, worker, seconds))

    def _claim(
        self,
        queues: Sequence[str] | None,
        tasks: Sequence[Task[Any, Any] | str] | None,
        worker: str | None,
        seconds: Duration,
    ) -> Make[Lease | None]:
        lease = seconds_of("lease", seconds, positive=True)
        wanted = None if tasks is None else [task.name if isinstance(task, Task) else task for task in tasks]
        name = worker or f"{socket.gethostname()}-{os.getpid()}"

        def make(moment: Moment) -> Op[Lease | None]:
            yield from tend.expire(moment)
            yield from tend.promote(moment)
            lanes = yield from claim.lanes(queues, wanted)
            if not (yield from browse.work_left(lanes))[0]:
                return None
            micros = int(lease * 1e6)
            holder = yield from claim.register(moment, name, socket.gethostname(), os.getpid(), micros, by_hand=True)
            claimed = (yield from claim.claim(moment, claim.Holder(holder, name, micros), lanes, 1))[0]
            queue, task = (yield from browse.lane_names())[claimed.lane]
            job = job_of_claimed(claimed, task, queue, self._registry.names)
            return Lease(job, claimed.seq, claimed.token, holder, lease, moment_of(moment.now + micros))

        return make

    def renew(self, lease: Lease) -> Lease:
        """Another `lease.seconds` from now; `LeaseLost` if the job was taken meanwhile."""
        lease.expires_at = self._door.write(self._renew(lease))
        return lease

    async def arenew(self, lease: Lease) -> Lease:
        lease.expires_at = await self._door.awrite(self._renew(lease))
        return lease

    def _renew(self, lease: Lease) -> Make[datetime]:
        def make(moment: Moment) -> Op[datetime]:
            yield from claim.renew(moment, lease.worker, lease.seq, lease.token)
            return moment_of(moment.now + int(lease.seconds * 1e6))

        return make

    def finish(self, lease: Lease, result: Any = None, meter: dict[str, float] | None = None) -> Job:
        """The job succeeded, with this result and these costs."""
        return self._door.write(self._finish(lease, result, meter))

    async def afinish(self, lease: Lease, result: Any = None, meter: dict[str, float] | None = None) -> Job:
        return await self._door.awrite(self._finish(lease, result, meter))

    def _finish(self, lease: Lease, result: Any, meter: dict[str, float] | None) -> Make[Job]:
        task = self._registry.find(lease.job.task)
        text = codec.encode(result, "result", RESULT_BYTES_MAX) if task is None else task.signature.encode_result(result)
        return self._end(lease, Succeeded(text), meter)

    def fail(self, lease: Lease, error: BaseException | str) -> Job:
        """This attempt failed: the job is tried again, or fails for good, as its task's `Retry` says."""
        return self._door.write(self._fail(lease, error))

    async def afail(self, lease: Lease, error: BaseException | str) -> Job:
        return await self._door.awrite(self._fail(lease, error))

    def _fail(self, lease: Lease, error: BaseException | str) -> Make[Job]:
        if isinstance(error, BaseException):
            return self._end(lease, outcome_of(error, self._registry.retry(lease.job.task)))
        return self._end(lease, Failed(JobError("Error", clip(error, REASON_CHARS_MAX))))

    def release(self, lease: Lease) -> Job:
        """Hand the job back unfinished; costs no attempt."""
        return self._door.write(self._end(lease, Released("handed back by its holder")))

    async def arelease(self, lease: Lease) -> Job:
        return await self._door.awrite(self._end(lease, Released("handed back by its holder")))

    def _end(self, lease: Lease, outcome: Outcome, meter: dict[str, float] | None = None) -> Make[Job]:
        retry, spent = self._registry.retry(lease.job.task), None if meter is None else check_meter(meter)
        job = lease.job
        change = settle(job.attempt, job.attempts_max, outcome, retry, random.random())
        total = None if spent is None else _total(job.meter, spent)

        def make(moment: Moment) -> Op[Job]:
            lane = (yield Statement("lane", {"queue": job.queue, "task": job.task}))[0][0]
            report = Report(
                seq=lease.seq, token=lease.token, lane=lane, attempt=job.attempt, change=change, meter=total, spent=spent
            )
            if (yield from write_reports(moment, [report])):
                raise LeaseLost(
                    f"job {job.id}: token {lease.token} is not the current one; the job was taken, cancelled or ended meanwhile"
                )
            yield Statement("remove_worker", {"worker": lease.worker})
            return (yield from browse.demand(job.id, self._registry.names))

        return make

    def _then_read(self, act: Op[None], id: str) -> Op[Job]:
        yield from act
        return (yield from browse.demand(id, self._registry.names))


def state_of(state: State | str) -> State:
    try:
        return State(state)
    except ValueError:
        raise SettingError(f"state {state!r} is unknown; use one of {', '.join(State)}") from None


def _total(before: dict[str, float], spent: dict[str, float]) -> str:
    total = {name: before.get(name, 0.0) + spent.get(name, 0.0) for name in (*before, *spent)}
    return codec.encode(total, "meter", RESULT_BYTES_MAX)


def _events_after(id: str, after: int) -> Make[list[Event]]:
    return lambda _: browse.events(id, after)


def _chunks(jobs: Iterable[NewJob]) -> Iterator[list[NewJob]]:
    source = iter(jobs)
    while chunk := list(itertools.islice(source, ENQUEUE_BATCH_MAX)):
        yield chunk


def _as_dict(text: str) -> dict[str, Any]:
    value = codec.decode(text)
    assert isinstance(value, dict)
    return value


def _deadline(timeout: Duration | None) -> float | None:
    return None if timeout is None else time.monotonic() + seconds_of("timeout", timeout)


def _left(deadline: float | None, job: Job) -> float:
    if deadline is None:
        return FOLLOW_SECONDS
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"job {job.id} is still {job.state} after the time given")
    return min(left, FOLLOW_SECONDS)
