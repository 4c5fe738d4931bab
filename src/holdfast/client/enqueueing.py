"""Jobs come in, one by one or in bounded chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from holdfast.batch import AsyncBatch, Batch
from holdfast.client.ahead import Ahead, AsyncAhead
from holdfast.client.asking import Asking
from holdfast.domain import codec
from holdfast.domain.bounds import BATCH_BYTES_MAX, ENQUEUE_BATCH_MAX
from holdfast.domain.job import Job, NewJob, callback_status, moment_of
from holdfast.domain.states import State
from holdfast.domain.text import show
from holdfast.errors import SettingError
from holdfast.hooks import Entering
from holdfast.store import browse
from holdfast.store.enqueue import Accepted, Plain, enqueue, enqueue_chunk, is_plain
from holdfast.store.op import Make, Moment, Op
from holdfast.store.rows import job_of_key
from holdfast.worker.loading import LOADING, refuse_while_loading

_RECEIPTS_MAX: Final = 256


class Enqueueing(Asking):
    def enqueue(self, job: NewJob) -> Job:
        """Accept one job, made by `task.bind(...)`: durable when this returns."""
        if type(job) is not NewJob or LOADING:
            refuse(job)
        if self._registry.hooks:
            with Entering(self._registry.hooks, job.options) as entry:
                accepted = self._enqueue(entry.mark(job))
                entry.accepted((accepted.id,))
                return accepted
        return self._enqueue(job)

    def _enqueue(self, job: NewJob) -> Job:
        mould = self._receipts.get(job.options)
        if mould is not None or is_plain(job.options):
            return self._accepted(job, self._door.write(Plain((job,), self._door.lanes)), mould)
        if job.options.callback is not None:
            self.courier.check(job.options.callback)
        return self._receipt(job, *self._door.write(self._enqueue_one(job)))

    async def aenqueue(self, job: NewJob) -> Job:
        """The async twin of `enqueue`."""
        if type(job) is not NewJob or LOADING:
            refuse(job)
        if self._registry.hooks:
            with Entering(self._registry.hooks, job.options) as entry:
                accepted = await self._aenqueue(entry.mark(job))
                entry.accepted((accepted.id,))
                return accepted
        return await self._aenqueue(job)

    async def _aenqueue(self, job: NewJob) -> Job:
        mould = self._receipts.get(job.options)
        if mould is not None or is_plain(job.options):
            return self._accepted(job, await self._door.awrite(Plain((job,), self._door.lanes)), mould)
        if job.options.callback is not None:
            await self.courier.acheck(job.options.callback)
        return self._receipt(job, *await self._door.awrite(self._enqueue_one(job)))

    def enqueue_many(self, jobs: Iterable[NewJob]) -> Batch:
        """Accept any number of jobs in bounded memory: each chunk of at most 2,000 is one transaction, in the order given."""
        refuse_while_loading("enqueues")
        with Entering(self._registry.hooks, None) as entry:
            batch = Batch(self._load)
            with Ahead(self._door.write, self._kept(batch), abreast=self._door.abreast) as ahead:
                for chunk in _chunks(entry.mark_all(jobs)):
                    for url in _callbacks(chunk):
                        self.courier.check(url)
                    ahead.put(enqueue_chunk(chunk, self._door.lanes), more=self._goes_on(chunk))
            entry.accepted(batch.ids)
            return batch

    async def aenqueue_many(self, jobs: Iterable[NewJob]) -> AsyncBatch:
        """The async twin of `enqueue_many`."""
        refuse_while_loading("enqueues")
        with Entering(self._registry.hooks, None) as entry:
            batch = AsyncBatch(self._aload)
            async with AsyncAhead(self._door.awrite, self._kept(batch)) as ahead:
                for chunk in _chunks(entry.mark_all(jobs)):
                    for url in _callbacks(chunk):
                        await self.courier.acheck(url)
                    await ahead.put(enqueue_chunk(chunk, self._door.lanes), more=self._goes_on(chunk))
            entry.accepted(batch.ids)
            return batch

    def _kept(self, batch: Batch | AsyncBatch) -> Callable[[Accepted], None]:
        def keep(accepted: Accepted) -> None:
            self._door.lanes.update(accepted.lanes)
            batch.add(accepted)

        return keep

    def _goes_on(self, chunk: list[NewJob]) -> bool:
        """Whether more is likely to come, and may be made meanwhile: somebody else's connection is for one thread."""
        return self._app is None and len(chunk) >= ENQUEUE_BATCH_MAX

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
        return self._new(job, accepted.id(0), accepted.created_at)

    def _accepted(self, job: NewJob, accepted: Accepted, mould: dict[str, Any] | None) -> Job:
        """The receipt for a plain job. Most are like an earlier one with the same options."""
        if accepted.lanes:
            self._door.lanes.update(accepted.lanes)
        if mould is not None:
            return Job.cast(mould, accepted.only or accepted.id(0), job.arguments, accepted.created_at)
        receipt = self._new(job, accepted.id(0), accepted.created_at)
        if job.options.is_ready and job.options.meta is None:
            if len(self._receipts) >= _RECEIPTS_MAX:
                self._receipts.clear()
            self._receipts[job.options] = receipt.mould()
            return receipt
        return receipt

    def _new(self, job: NewJob, id: str, now: int) -> Job:
        options = job.options
        run_at = options.run_at if options.run_at is not None else now + options.delay
        return Job(
            id=id,
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
            callback=options.callback,
            callback_status=callback_status(options.callback, None),
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


def _chunks(jobs: Iterable[NewJob]) -> Iterator[list[NewJob]]:
    """So many jobs at a time, and fewer where they are large."""
    chunk: list[NewJob] = []
    size = 0
    for job in jobs:
        if type(job) is not NewJob:
            refuse(job)
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
    refuse_while_loading("enqueues")


def _as_dict(text: str) -> dict[str, Any]:
    value = codec.decode(text)
    assert isinstance(value, dict)
    return value
