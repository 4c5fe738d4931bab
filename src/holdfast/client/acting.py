"""Moves by request: cancel, retry, skip, delete, prune.

With `event_count` a move is made only if the job has so many events, as when the caller looked at it; else it is `Changed`.
"""

from __future__ import annotations

from holdfast.client.by_hand import ending
from holdfast.client.part import ClientPart, id_of
from holdfast.domain.bounds import REASON_CHARS_MAX
from holdfast.domain.job import Job, Lease
from holdfast.domain.outcome import Skipped
from holdfast.domain.retry import Duration, seconds_of
from holdfast.domain.text import clip
from holdfast.store import browse, control, tend
from holdfast.store.op import Op, Operation


class Acting(ClientPart):
    def cancel(self, id: str | Job, reason: str = "cancelled by request", *, event_count: int | None = None) -> Job:
        """End the job now, running or not: a running one is asked to stop, and nothing that it still reports is written."""
        return self._database.write(self._cancel(id, reason, event_count))

    async def acancel(self, id: str | Job, reason: str = "cancelled by request", *, event_count: int | None = None) -> Job:
        """The async twin of `cancel`."""
        return await self._database.awrite(self._cancel(id, reason, event_count))

    def _cancel(self, job: str | Job, reason: str, event_count: int | None) -> Operation[Job]:
        id, why = id_of(job), clip(reason, REASON_CHARS_MAX)
        return lambda moment: self._then_read(control.cancel(moment, id, why, event_count), id)

    def retry(self, id: str | Job, *, event_count: int | None = None) -> Job:
        """Run a failed, cancelled or skipped job again, with fresh attempts."""
        return self._database.write(self._retry(id, event_count))

    async def aretry(self, id: str | Job, *, event_count: int | None = None) -> Job:
        """The async twin of `retry`."""
        return await self._database.awrite(self._retry(id, event_count))

    def _retry(self, job: str | Job, event_count: int | None) -> Operation[Job]:
        id = id_of(job)
        return lambda moment: self._then_read(control.retry(moment, id, event_count), id)

    def skip(self, id: str | Job | Lease, reason: str, *, event_count: int | None = None) -> Job:
        """End a job on purpose, by its id, or by the lease on it."""
        return self._database.write(self._skip(id, reason, event_count))

    async def askip(self, id: str | Job | Lease, reason: str, *, event_count: int | None = None) -> Job:
        """The async twin of `skip`."""
        return await self._database.awrite(self._skip(id, reason, event_count))

    def _skip(self, id: str | Job | Lease, reason: str, event_count: int | None) -> Operation[Job]:
        why = clip(reason, REASON_CHARS_MAX)
        if isinstance(id, Lease):
            return ending(self._registry, id, Skipped(why))
        wanted = id_of(id)
        return lambda moment: self._then_read(control.skip(moment, wanted, why, event_count), wanted)

    def delete(self, id: str | Job, *, event_count: int | None = None) -> None:
        """Remove a job that does not run, with its events, errors and key."""
        wanted = id_of(id)
        self._database.write(lambda _: control.delete(wanted, event_count))

    async def adelete(self, id: str | Job, *, event_count: int | None = None) -> None:
        """The async twin of `delete`."""
        wanted = id_of(id)
        await self._database.awrite(lambda _: control.delete(wanted, event_count))

    def prune(self, older_than: Duration, *, dry_run: bool = False) -> int:
        """Remove all jobs that ended longer ago than this; how many they were. With `dry_run`: how many they would be."""
        if dry_run:
            return self._database.read(self._count_old(older_than))
        make, pruned = self._prune(older_than), 0
        while batch := self._database.write(make):
            pruned += batch
        return pruned

    async def aprune(self, older_than: Duration, *, dry_run: bool = False) -> int:
        """The async twin of `prune`."""
        if dry_run:
            return await self._database.aread(self._count_old(older_than))
        make, pruned = self._prune(older_than), 0
        while batch := await self._database.awrite(make):
            pruned += batch
        return pruned

    def _prune(self, older_than: Duration) -> Operation[int]:
        age = _micros("older_than", older_than)
        return lambda moment: tend.prune(moment, moment.now - age)

    def _count_old(self, older_than: Duration) -> Operation[int]:
        age = _micros("older_than", older_than)
        return lambda moment: tend.count_old(moment.now - age)

    def _then_read(self, act: Op[None], id: str) -> Op[Job]:
        yield from act
        return (yield from browse.demand(id, self._registry.decoders))


def _micros(what: str, duration: Duration) -> int:
    return int(seconds_of(what, duration) * 1e6)
