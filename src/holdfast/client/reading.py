"""What is there, what has happened, and waiting for what will."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

from holdfast.client.asking import Asking, id_of
from holdfast.domain.bounds import EVENTS_PAGE_MAX
from holdfast.domain.event import Event
from holdfast.domain.job import Job
from holdfast.domain.key import Key, Part, key_of
from holdfast.domain.retry import Duration, seconds_of
from holdfast.domain.states import State
from holdfast.errors import SettingError
from holdfast.store import browse
from holdfast.store.op import Make
from holdfast.task import Task

FOLLOW_SECONDS: Final = 5.0
"""The longest that a follower goes without looking for itself."""


class Reading(Asking):
    def get(self, id: str | Job) -> Job | None:
        """The job as it is now, or None."""
        wanted = id_of(id)
        return self._door.read(lambda _: browse.get(wanted, self._registry.names))

    async def aget(self, id: str | Job) -> Job | None:
        """The async twin of `get`."""
        wanted = id_of(id)
        return await self._door.aread(lambda _: browse.get(wanted, self._registry.names))

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
        task: Task[Any] | str | None = None,
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
        task: Task[Any] | str | None = None,
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
        task: Task[Any] | str | None,
        tag: str | None,
        parent: str | Job | None,
        newest: bool,
        limit: int,
        after: str | Job | None,
    ) -> Make[list[Job]]:
        chosen = browse.Filter(
            state=None if state is None else _state_of(state),
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

    def events(self, id: str | Job, after: int = 0, follow: bool = False) -> Iterator[Event]:
        """The job's log after event number `after`; with `follow`, on and on until the job has ended."""
        if follow:
            self._check_outside("events(follow=True)")
        wanted = id_of(id)
        return self._follow(wanted, after, self._door.read(_events_after(wanted, after)), follow)

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

    async def aevents(self, id: str | Job, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """The async twin of `events`."""
        if follow:
            self._check_outside("aevents(follow=True)")
        wanted = id_of(id)
        page = await self._door.aread(_events_after(wanted, after))
        while True:
            for event in page:
                yield event
            after = page[-1].number if page else after
            if len(page) < EVENTS_PAGE_MAX and not follow:
                return
            count = self._pulse.count
            job = await self.aget(wanted) if follow and len(page) < EVENTS_PAGE_MAX else None
            page = await self._door.aread(_events_after(wanted, after))
            if follow and not page:
                if job is None or job.final:
                    return
                await self._pulse.await_(count, FOLLOW_SECONDS)

    def wait(self, id: str | Job, timeout: Duration | None = None) -> Job:
        """The job, once it has ended; `TimeoutError` if that takes longer than `timeout`."""
        self._check_outside("wait()")
        wanted, deadline = id_of(id), _deadline(timeout)
        while True:
            count = self._pulse.count
            job = self._door.read(lambda _: browse.demand(wanted, self._registry.names))
            if job.final:
                return job
            self._pulse.wait(count, _left(deadline, job))

    async def await_(self, id: str | Job, timeout: Duration | None = None) -> Job:  # noqa: ASYNC109 (as its twin)
        """The async twin of `wait`; `await` itself is a keyword."""
        self._check_outside("await_()")
        wanted, deadline = id_of(id), _deadline(timeout)
        while True:
            count = self._pulse.count
            job = await self._door.aread(lambda _: browse.demand(wanted, self._registry.names))
            if job.final:
                return job
            await self._pulse.await_(count, _left(deadline, job))

    def _check_outside(self, method: str) -> None:
        """A transaction sees what was when it began: a wait in it could last for ever."""
        if self._app is not None:
            raise SettingError(f"{method} cannot be used inside a transaction, which does not see what others do; commit first")


def _state_of(state: State | str) -> State:
    try:
        return State(state)
    except ValueError:
        raise SettingError(f"state {state!r} is unknown; use one of {', '.join(State)}") from None


def _events_after(id: str, after: int) -> Make[list[Event]]:
    return lambda _: browse.events(id, after)


def _deadline(timeout: Duration | None) -> float | None:
    return None if timeout is None else time.monotonic() + seconds_of("timeout", timeout)


def _left(deadline: float | None, job: Job) -> float:
    if deadline is None:
        return FOLLOW_SECONDS
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"job {job.id} is still {job.state} after the time given")
    return min(left, FOLLOW_SECONDS)
