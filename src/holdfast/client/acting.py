"""Moves that somebody asks for: cancel, retry, skip, delete, prune."""

from __future__ import annotations

from holdfast.client.asking import Asking, id_of
from holdfast.client.by_hand import ending
from holdfast.domain.bounds import REASON_CHARS_MAX
from holdfast.domain.job import Job, Lease
from holdfast.domain.outcome import Skipped
from holdfast.domain.retry import Duration, seconds_of
from holdfast.domain.text import clip
from holdfast.store import browse, control, tend
from holdfast.store.op import Make, Op


class Acting(Asking):
    def cancel(self, id: str | Job, reason: str = "cancelled by request") -> Job:
        """End the job now, running or not: a running one is told to stop, and nothing it still does counts."""
        return self._door.write(self._cancel(id, reason))

    async def acancel(self, id: str | Job, reason: str = "cancelled by request") -> Job:
        return await self._door.awrite(self._cancel(id, reason))

    def _cancel(self, job: str | Job, reason: str) -> Make[Job]:
        id, why = id_of(job), clip(reason, REASON_CHARS_MAX)
        return lambda moment: self._then_read(control.cancel(moment, id, why), id)

    def retry(self, id: str | Job) -> Job:
        """Run a failed, cancelled or skipped job again, with fresh attempts."""
        return self._door.write(self._retry(id))

    async def aretry(self, id: str | Job) -> Job:
        """The async twin of `retry`."""
        return await self._door.awrite(self._retry(id))

    def _retry(self, job: str | Job) -> Make[Job]:
        id = id_of(job)
        return lambda moment: self._then_read(control.retry(moment, id), id)

    def skip(self, id: str | Job | Lease, reason: str) -> Job:
        """End a job on purpose, by its id, or by the lease on it."""
        return self._door.write(self._skip(id, reason))

    async def askip(self, id: str | Job | Lease, reason: str) -> Job:
        return await self._door.awrite(self._skip(id, reason))

    def _skip(self, id: str | Job | Lease, reason: str) -> Make[Job]:
        why = clip(reason, REASON_CHARS_MAX)
        if isinstance(id, Lease):
            return ending(self._registry, id, Skipped(why))
        wanted = id_of(id)
        return lambda moment: self._then_read(control.skip(moment, wanted, why), wanted)

    def delete(self, id: str | Job) -> None:
        """Remove a job that does not run, with its events, errors and key."""
        wanted = id_of(id)
        self._door.write(lambda _: control.delete(wanted))

    async def adelete(self, id: str | Job) -> None:
        """The async twin of `delete`."""
        wanted = id_of(id)
        await self._door.awrite(lambda _: control.delete(wanted))

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

    def _then_read(self, act: Op[None], id: str) -> Op[Job]:
        yield from act
        return (yield from browse.demand(id, self._registry.names))
