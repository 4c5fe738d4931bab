"""What is there."""

from __future__ import annotations

from datetime import date
from typing import Any, TypeVar, overload

from holdfast.client.part import ClientPart, id_of
from holdfast.domain.explain import Explanation
from holdfast.domain.job import Job
from holdfast.domain.key import Key, Part, key_of
from holdfast.domain.meter import Meter
from holdfast.domain.queue import Queue
from holdfast.domain.states import State
from holdfast.domain.worker_status import WorkerStatus
from holdfast.errors import SettingError
from holdfast.store import browse, explain, meters, queues, workers
from holdfast.store.op import Operation
from holdfast.task import Task

R = TypeVar("R")


class Reading(ClientPart):
    @overload
    def get(self, id: Job[R]) -> Job[R] | None: ...
    @overload
    def get(self, id: str) -> Job | None: ...
    def get(self, id: str | Job) -> Job | None:
        """The job as it is now, or None. Of one that was pruned while its key lives on: how it ended (`job.pruned`)."""
        wanted = id_of(id)
        return self._database.read(lambda _: browse.get(wanted, self._registry.decoders))

    @overload
    async def aget(self, id: Job[R]) -> Job[R] | None: ...
    @overload
    async def aget(self, id: str) -> Job | None: ...
    async def aget(self, id: str | Job) -> Job | None:
        """The async twin of `get`."""
        wanted = id_of(id)
        return await self._database.aread(lambda _: browse.get(wanted, self._registry.decoders))

    def find(self, key: Key | Part | tuple[Part, ...]) -> Job | None:
        """The job that has this key, or None."""
        return self._database.read(self._find(key))

    async def afind(self, key: Key | Part | tuple[Part, ...]) -> Job | None:
        """The async twin of `find`."""
        return await self._database.aread(self._find(key))

    def _find(self, key: Key | Part | tuple[Part, ...]) -> Operation[Job | None]:
        wanted = key_of(key)
        return lambda moment: browse.find(moment, wanted, self._registry.decoders)

    def jobs(
        self,
        *,
        state: State | str | None = None,
        queue: str | None = None,
        task: Task[Any] | str | None = None,
        tag: str | None = None,
        parent: str | Job | None = None,
        newest: bool = True,
        limit: int = 100,
        after: str | Job | None = None,
    ) -> list[Job]:
        """A page of jobs; the next one with `after=` the last job of this one."""
        chosen = browse.Filter(_state_of(state), queue, _name_of(task), tag, _id_of(parent), newest, limit, _id_of(after))
        return self._database.read(lambda _: browse.jobs(chosen, self._registry.decoders))

    async def ajobs(
        self,
        *,
        state: State | str | None = None,
        queue: str | None = None,
        task: Task[Any] | str | None = None,
        tag: str | None = None,
        parent: str | Job | None = None,
        newest: bool = True,
        limit: int = 100,
        after: str | Job | None = None,
    ) -> list[Job]:
        """The async twin of `jobs`."""
        chosen = browse.Filter(_state_of(state), queue, _name_of(task), tag, _id_of(parent), newest, limit, _id_of(after))
        return await self._database.aread(lambda _: browse.jobs(chosen, self._registry.decoders))

    def stats(self) -> dict[str, dict[str, int]]:
        """Task -> state -> how many jobs."""
        return self._database.read(lambda _: queues.stats())

    async def astats(self) -> dict[str, dict[str, int]]:
        """The async twin of `stats`."""
        return await self._database.aread(lambda _: queues.stats())

    def explain(self, id: str | Job) -> Explanation:
        """Why the job does not run yet: every reason, until when, and what would start it."""
        wanted = id_of(id)
        return self._database.read(lambda moment: explain.explain(moment, wanted, self._registry.decoders))

    async def aexplain(self, id: str | Job) -> Explanation:
        """The async twin of `explain`."""
        wanted = id_of(id)
        return await self._database.aread(lambda moment: explain.explain(moment, wanted, self._registry.decoders))

    def queues(self) -> list[Queue]:
        """Every queue that ever had a job or was set up: where its jobs are, its limits, and what keeps jobs from starting."""
        return self._database.read(queues.queues)

    async def aqueues(self) -> list[Queue]:
        """The async twin of `queues`."""
        return await self._database.aread(queues.queues)

    def meters(
        self,
        *,
        since: date | None = None,
        until: date | None = None,
        queue: str | None = None,
        task: Task[Any] | str | None = None,
        name: str | None = None,
    ) -> list[Meter]:
        """What jobs metered (`ctx.meter`), summed by day (UTC), queue, task and name.

        since  The first day; 30 days are read if it is not given.
        until  The last day; today if it is not given.
        """
        chosen = meters.Chosen(since, until, queue, _name_of(task), name)
        return self._database.read(lambda moment: meters.meters(moment, chosen))

    async def ameters(
        self,
        *,
        since: date | None = None,
        until: date | None = None,
        queue: str | None = None,
        task: Task[Any] | str | None = None,
        name: str | None = None,
    ) -> list[Meter]:
        """The async twin of `meters`."""
        chosen = meters.Chosen(since, until, queue, _name_of(task), name)
        return await self._database.aread(lambda moment: meters.meters(moment, chosen))

    def workers(self) -> list[WorkerStatus]:
        """Every worker that the store knows, the oldest first; those that died stay for an hour."""
        return self._database.read(workers.statuses)

    async def aworkers(self) -> list[WorkerStatus]:
        """The async twin of `workers`."""
        return await self._database.aread(workers.statuses)


def _name_of(task: Task[Any] | str | None) -> str | None:
    return task.name if isinstance(task, Task) else task


def _id_of(job: Job | str | None) -> str | None:
    return job.id if isinstance(job, Job) else job


def _state_of(state: State | str | None) -> State | None:
    try:
        return None if state is None else State(state)
    except ValueError:
        raise SettingError(f"state {state!r} is unknown; use one of {', '.join(State)}") from None
