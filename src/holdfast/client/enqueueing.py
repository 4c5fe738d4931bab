"""Jobs come in, one by one or in bounded chunks."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from holdfast.batch import AsyncBatch, Batch
from holdfast.client.bulk import AsyncBulkWriter, BulkWriter
from holdfast.client.part import ClientPart
from holdfast.domain import codec
from holdfast.domain.bounds import BATCH_BYTES_MAX, ENQUEUE_BATCH_MAX
from holdfast.domain.job import Job, NewJob, Options, callback_status, moment_of
from holdfast.domain.states import State
from holdfast.domain.text import show
from holdfast.errors import QueueFull, SettingError
from holdfast.hooks import Entering
from holdfast.store import browse
from holdfast.store.enqueue import Accepted, Enqueue, enqueue
from holdfast.store.op import Moment, Op, Operation
from holdfast.store.rows import job_of_key
from holdfast.worker.import_guard import IMPORTING, refuse_while_importing

WAIT_SECONDS: Final = (0.02, 1.0)
"""Between two looks for room in a full queue: at first, and at most."""
_chance: Final = random.SystemRandom()  # the program may have seeded the common one for itself


class Enqueueing(ClientPart):
    def enqueue(self, job: NewJob) -> Job:
        """Accept one job, made by `task.bind(...)`: durable when this returns."""
        if type(job) is not NewJob or IMPORTING:
            refuse(job)
        if self._registry.undeclared:
            self._declare()
        if self._registry.hooks:
            with Entering(self._registry.hooks, job.options) as entry:
                accepted = self._enqueue(entry.mark(job))
                entry.accepted((accepted.id,))
                return accepted
        return self._enqueue(job)

    def _enqueue(self, job: NewJob) -> Job:
        if not job.options.wait:
            return self._enqueue_now(job)
        waits = self._waits(job.options)
        while True:
            try:
                return self._enqueue_now(job)
            except QueueFull:
                seconds = next(waits, None)
                if seconds is None:
                    raise
                time.sleep(seconds)

    def _enqueue_now(self, job: NewJob) -> Job:
        options = job.options
        if options.callback is not None:
            self.courier.check(options.callback)
        if options.key is None:  # else another job may have it
            return self._new(job, self._all_of(self._database.write(self._one(job))))
        return self._accepted(job, *self._database.write(self._enqueue_one(job)))

    async def aenqueue(self, job: NewJob) -> Job:
        """The async twin of `enqueue`."""
        if type(job) is not NewJob or IMPORTING:
            refuse(job)
        if self._registry.undeclared:
            await self._adeclare()
        if self._registry.hooks:
            with Entering(self._registry.hooks, job.options) as entry:
                accepted = await self._aenqueue(entry.mark(job))
                entry.accepted((accepted.id,))
                return accepted
        return await self._aenqueue(job)

    async def _aenqueue(self, job: NewJob) -> Job:
        if not job.options.wait:
            return await self._aenqueue_now(job)
        waits = self._waits(job.options)
        while True:
            try:
                return await self._aenqueue_now(job)
            except QueueFull:
                seconds = next(waits, None)
                if seconds is None:
                    raise
                await asyncio.sleep(seconds)

    async def _aenqueue_now(self, job: NewJob) -> Job:
        options = job.options
        if options.callback is not None:
            await self.courier.acheck(options.callback)
        if options.key is None:  # else another job may have it
            return self._new(job, self._all_of(await self._database.awrite(self._one(job))))
        return self._accepted(job, *await self._database.awrite(self._enqueue_one(job)))

    def enqueue_many(self, jobs: Iterable[NewJob]) -> Batch:
        """Accept any number of jobs in bounded memory: each chunk of at most 2,000 is one transaction, in the order given."""
        refuse_while_importing("enqueues")
        if self._registry.undeclared:
            self._declare()
        with Entering(self._registry.hooks, None) as entry:
            batch = Batch(self._load)
            with BulkWriter(self._database.write, _keep_in(batch)) as writer:
                for chunk in _chunks(entry.mark_all(jobs)):
                    for url in _callbacks(chunk):
                        self.courier.check(url)
                    writer.put(Enqueue(chunk), more=self._goes_on(chunk))
            entry.accepted(batch.ids)
            return batch

    async def aenqueue_many(self, jobs: Iterable[NewJob]) -> AsyncBatch:
        """The async twin of `enqueue_many`."""
        refuse_while_importing("enqueues")
        if self._registry.undeclared:
            await self._adeclare()
        with Entering(self._registry.hooks, None) as entry:
            batch = AsyncBatch(self._aload)
            async with AsyncBulkWriter(self._database.awrite, _keep_in(batch)) as writer:
                for chunk in _chunks(entry.mark_all(jobs)):
                    for url in _callbacks(chunk):
                        await self.courier.acheck(url)
                    await writer.put(Enqueue(chunk), more=self._goes_on(chunk))
            entry.accepted(batch.ids)
            return batch

    def _waits(self, options: Options) -> Iterator[float]:
        if self._app is not None:
            raise SettingError("wait= cannot be used inside a transaction, which may keep others from making room; leave it out")
        return _pauses(options.wait)

    def _one(self, job: NewJob) -> Enqueue:
        return Enqueue((job,), bounded=job.options.queue in self._registry.bounded)

    def _all_of(self, accepted: Accepted) -> Accepted:
        if accepted.bounded:
            self._registry.bounded |= accepted.bounded
        return _all_of(accepted)

    def _goes_on(self, chunk: list[NewJob]) -> bool:
        """Whether more is likely to come, and may be made meanwhile: a caller's connection is for one thread."""
        return self._app is None and len(chunk) >= ENQUEUE_BATCH_MAX

    def _enqueue_one(self, job: NewJob) -> Operation[tuple[Accepted, Job | None]]:
        """Also the job that has its key, if that is another."""
        decoders = self._registry.decoders

        def run(moment: Moment) -> Op[tuple[Accepted, Job | None]]:
            accepted = yield from enqueue(moment, (job,))
            existing = _all_of(accepted).existing.get(0)
            if existing is None:
                return accepted, None
            if existing.ended is not None:
                return accepted, job_of_key(existing.ended, decoders)
            return accepted, (yield from browse.demand(existing.id, decoders))

        return run

    def _accepted(self, job: NewJob, accepted: Accepted, first: Job | None) -> Job:
        if first is not None:
            first.created, first.same_arguments = False, accepted.existing[0].same_arguments
            return first
        return self._new(job, accepted)

    def _new(self, job: NewJob, accepted: Accepted) -> Job:
        options = job.options
        new = Job(
            id=accepted.id(0),
            task=options.task,
            queue=options.queue,
            state=State.READY,
            priority=options.priority,
            attempt=0,
            attempts_max=options.attempts,
            token=0,
            arguments_json=job.arguments,
            parent=options.parent,
            created_at=moment_of(accepted.created_at),
            created=True,
            _decoders=self._registry.decoders,
        )
        if options.meta is not None:
            new.meta = _as_dict(options.meta)
        if not options.is_simple:
            _fill(new, options, accepted.created_at)
        return new

    def _load(self, ids: Sequence[str]) -> dict[str, Job]:
        return self._database.read(lambda _: browse.jobs_by_id(ids, self._registry.decoders))

    async def _aload(self, ids: Sequence[str]) -> dict[str, Job]:
        return await self._database.aread(lambda _: browse.jobs_by_id(ids, self._registry.decoders))


def _all_of(accepted: Accepted, ids: Sequence[str] = ()) -> Accepted:
    """As it is; `QueueFull` if there was no room for some of the jobs."""
    full = accepted.full
    if full is None:
        return accepted
    raise QueueFull(
        f"queue {full.queue} is full: {full.depth} of {full.max_depth} jobs wait; try again in about {full.retry_after:g} s",
        full.retry_after,
        depth=full.depth,
        max_depth=full.max_depth,
        accepted=ids,
    )


def _pauses(seconds: float) -> Iterator[float]:
    """Between two looks for room: short at first, then longer; in all, so many seconds."""
    deadline = time.monotonic() + seconds
    pause, longest = WAIT_SECONDS
    while (left := deadline - time.monotonic()) > 0:
        yield min(left, pause * _chance.uniform(0.5, 1.0))
        pause = min(longest, pause * 2)


def _keep_in(batch: Batch | AsyncBatch) -> Callable[[Accepted], None]:
    def keep(accepted: Accepted) -> None:
        batch.ids._add(accepted)
        _all_of(accepted, batch.ids)

    return keep


def _chunks(jobs: Iterable[NewJob]) -> Iterator[list[NewJob]]:
    """So many jobs at a time, and fewer where they are large."""
    chunk: list[NewJob] = []
    size = 0
    for job in jobs:
        if type(job) is not NewJob:
            refuse(job)
        if job.options.wait:
            raise SettingError(f"wait={job.options.wait:g} is for single jobs; leave it out, and go on from QueueFull.accepted")
        chunk.append(job)
        size += len(job.arguments)
        if len(chunk) >= ENQUEUE_BATCH_MAX or size >= BATCH_BYTES_MAX:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _callbacks(jobs: list[NewJob]) -> set[str]:
    return {url for job in jobs if (url := job.options.callback) is not None}


def refuse(job: object) -> None:
    """Because of what it is, or of when it comes."""
    if type(job) is not NewJob:
        raise SettingError(f"{show(job)} is no job to be enqueued; make one with task.bind(...), or use task.enqueue(...)")
    refuse_while_importing("enqueues")


def _fill(new: Job, options: Options, now: int) -> None:
    """What a simple job does not have."""
    run_after = options.run_after(now)
    if run_after is not None:
        new.state, new.run_after = State.SCHEDULED, moment_of(run_after)
    if options.key is not None:
        new.key = options.key.parts
    new.tags, new.callback, new.callback_status = options.tags, options.callback, callback_status(options.callback, None)


def _as_dict(text: str) -> dict[str, Any]:
    value = codec.decode(text)
    assert isinstance(value, dict)
    return value
