"""A worker of one's own: claim a job, renew its lease, say how it went."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from holdfast.client.part import ClientPart
from holdfast.domain import codec
from holdfast.domain.bounds import REASON_CHARS_MAX, RESULT_BYTES_MAX
from holdfast.domain.job import Job, Lease, moment_of
from holdfast.domain.outcome import Failed, JobError, Outcome, Released, Succeeded, outcome_of, settle
from holdfast.domain.retry import Duration, seconds_of
from holdfast.domain.secret import scrub
from holdfast.domain.text import clip
from holdfast.errors import LeaseLost
from holdfast.registry import Registry
from holdfast.settings import LEASE_SECONDS
from holdfast.store import browse, claim, tend, workers
from holdfast.store.lane import lane_of
from holdfast.store.op import Moment, Op, Operation, Statement
from holdfast.store.rows import job_of_claimed
from holdfast.store.settle import Report
from holdfast.store.settle import settle as write_reports
from holdfast.task import Task
from holdfast.worker.context import check_meter

BUSY_SECONDS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.0)
"""Pauses between looks at a queue that another transaction has locked: a claim of another worker takes a moment."""


class Busy:
    """Another transaction has locked a queue with limits: whether a job of it may start is not known yet."""


class ByHand(ClientPart):
    def claim(
        self,
        *,
        queues: Sequence[str] | str | None = None,
        tasks: Sequence[Task[Any] | str] | Task[Any] | str | None = None,
        worker: str | None = None,
        seconds: Duration = LEASE_SECONDS,
    ) -> Lease | None:
        """The most urgent job, leased for so many seconds; None if nothing is ready, or may start now."""
        operation = self._claim(queues, tasks, worker, seconds)
        for pause in BUSY_SECONDS:
            found = self._database.write(operation)
            if not isinstance(found, Busy):
                return found
            time.sleep(pause)
        return None

    async def aclaim(
        self,
        *,
        queues: Sequence[str] | str | None = None,
        tasks: Sequence[Task[Any] | str] | Task[Any] | str | None = None,
        worker: str | None = None,
        seconds: Duration = LEASE_SECONDS,
    ) -> Lease | None:
        """The async twin of `claim`."""
        operation = self._claim(queues, tasks, worker, seconds)
        for pause in BUSY_SECONDS:
            found = await self._database.awrite(operation)
            if not isinstance(found, Busy):
                return found
            await asyncio.sleep(pause)
        return None

    def _claim(
        self,
        queues: Sequence[str] | str | None,
        tasks: Sequence[Task[Any] | str] | Task[Any] | str | None,
        worker: str | None,
        seconds: Duration,
    ) -> Operation[Lease | Busy | None]:
        lease = seconds_of("lease", seconds, positive=True)
        several = [tasks] if isinstance(tasks, str | Task) else tasks  # text is a sequence too, but of letters
        wanted = None if several is None else [task.name if isinstance(task, Task) else task for task in several]
        queues = [queues] if isinstance(queues, str) else queues
        name = worker or f"{socket.gethostname()}-{os.getpid()}"

        def run(moment: Moment) -> Op[Lease | Busy | None]:
            yield from tend.expire(moment)
            yield from tend.promote(moment)
            lanes = yield from claim.ready_lanes(moment, queues, wanted)
            if not lanes:
                return None
            micros = int(lease * 1e6)
            host, pid = socket.gethostname(), os.getpid()
            worker = yield from workers.register(moment, name, host, pid, micros, by_hand=True, queues=queues)
            claimed = yield from claim.claim(moment, claim.Holder(worker, name, micros), lanes, 1)
            if not claimed.jobs:  # other workers are taking what is ready
                yield Statement("remove_worker_by_hand", {"worker": worker})
                return Busy() if claimed.busy else None
            (found,) = claimed.jobs
            lane = claimed.lanes[found.lane]
            job = job_of_claimed(found, lane.task, lane.queue, self._registry.decoders)
            return Lease(job, found.seq, found.token, worker, lease, moment_of(moment.now + micros))

        return run

    def renew(self, lease: Lease) -> Lease:
        """Another `lease.seconds` from now; `LeaseLost` if the job was taken meanwhile."""
        lease.expires_at = self._database.write(self._renew(lease))
        return lease

    async def arenew(self, lease: Lease) -> Lease:
        """The async twin of `renew`."""
        lease.expires_at = await self._database.awrite(self._renew(lease))
        return lease

    def _renew(self, lease: Lease) -> Operation[datetime]:
        def make(moment: Moment) -> Op[datetime]:
            yield from workers.renew(moment, lease.worker, lease.seq, lease.token)
            return moment_of(moment.now + int(lease.seconds * 1e6))

        return make

    def finish(self, lease: Lease, result: Any = None, meter: dict[str, float] | None = None) -> Job:
        """The job succeeded, with this result and these costs."""
        return self._database.write(self._finish(lease, result, meter))

    async def afinish(self, lease: Lease, result: Any = None, meter: dict[str, float] | None = None) -> Job:
        """The async twin of `finish`."""
        return await self._database.awrite(self._finish(lease, result, meter))

    def _finish(self, lease: Lease, result: Any, meter: dict[str, float] | None) -> Operation[Job]:
        task = self._registry.find(lease.job.task)
        text = codec.encode(result, "result", RESULT_BYTES_MAX) if task is None else task.signature.encode_result(result)
        return ending(self._registry, lease, Succeeded(text), meter)

    def fail(self, lease: Lease, error: BaseException | str) -> Job:
        """This attempt failed: the job is tried again, or fails for good, as its task's `Retry` says."""
        return self._database.write(self._fail(lease, error))

    async def afail(self, lease: Lease, error: BaseException | str) -> Job:
        """The async twin of `fail`."""
        return await self._database.awrite(self._fail(lease, error))

    def _fail(self, lease: Lease, error: BaseException | str) -> Operation[Job]:
        hidden = lease.job.secrets
        if isinstance(error, BaseException):
            return ending(self._registry, lease, outcome_of(error, self._registry.retry(lease.job.task), hidden=hidden))
        return ending(self._registry, lease, Failed(JobError("Error", clip(scrub(error, hidden), REASON_CHARS_MAX))))

    def release(self, lease: Lease) -> Job:
        """Hand the job back unfinished; costs no attempt."""
        return self._database.write(ending(self._registry, lease, Released("handed back by its holder")))

    async def arelease(self, lease: Lease) -> Job:
        """The async twin of `release`."""
        return await self._database.awrite(ending(self._registry, lease, Released("handed back by its holder")))


def ending(registry: Registry, lease: Lease, outcome: Outcome, meter: dict[str, float] | None = None) -> Operation[Job]:
    """The operation that files how a leased job went, and reads the job."""
    retry, spent = registry.retry(lease.job.task), None if meter is None else check_meter(meter)
    job, told = lease.job, None if lease.job.callback is None else registry.hidden(lease.job)
    change = settle(job.attempt, job.attempts_max, outcome, retry, random.random())
    total = None if spent is None else _total(job.meter, spent)

    def make(moment: Moment) -> Op[Job]:
        lane = yield from lane_of(job.queue, job.task)
        report = Report(
            seq=lease.seq,
            token=lease.token,
            lane=lane,
            attempt=job.attempt,
            change=change,
            meter=total,
            spent=spent,
            callback=told,
        )
        if (yield from write_reports(moment, [report], lease.worker)).lost:
            raise LeaseLost(
                f"job {job.id}: token {lease.token} is not the current one; the job was taken, cancelled or ended meanwhile"
            )
        yield Statement("remove_worker_by_hand", {"worker": lease.worker})
        return (yield from browse.demand(job.id, registry.decoders))

    return make


def _total(before: dict[str, float], spent: dict[str, float]) -> str:
    total = {name: before.get(name, 0.0) + spent.get(name, 0.0) for name in (*before, *spent)}
    return codec.encode(total, "meter", RESULT_BYTES_MAX)
