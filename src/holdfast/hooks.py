"""What may be put around every enqueue and every run of an app: tracing, for example.

`app.hooks` is a list, and empty: then nobody is asked. A hook that raises is left out of that one call and told of in the
log: a job is worth more than what is said about it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from holdfast.domain.job import Job, NewJob, Options
from holdfast.domain.outcome import Outcome

log = logging.getLogger("holdfast.hooks")

T = TypeVar("T")


class Entry(Protocol):
    """One `enqueue`, or one `enqueue_many`, on its way."""

    def mark(self, options: Options) -> Options:
        """The options of each job that goes in; what this gives is used instead."""

    def accepted(self, ids: Sequence[str]) -> None:
        """They are durable now, or will be with the caller's commit."""


class Hook(Protocol):
    def enqueueing(self, options: Options | None) -> AbstractContextManager[Entry]:
        """Around an enqueue; None: around an `enqueue_many`, whose jobs need not be alike."""

    def running(self, job: Job) -> AbstractContextManager[Callable[[Outcome], object]]:
        """Around one attempt, in the thread or asyncio task that makes it; what it gives is told how that ended.

        Of a job in a process of its own: in the worker, from before it starts until after it ended.
        """


class Around(Generic[T]):
    """The context managers of all hooks, one inside the other."""

    def __init__(self, openers: Iterable[Callable[[], AbstractContextManager[T]]]) -> None:
        self._openers = openers
        self._open: list[tuple[AbstractContextManager[T], T]] = []

    def __enter__(self) -> Around[T]:
        for opener in self._openers:
            try:
                manager = opener()
                self._open.append((manager, manager.__enter__()))
            except Exception:
                _complain()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        while self._open:
            manager, _ = self._open.pop()
            try:
                manager.__exit__(kind, error, trace)
            except Exception as raised:
                if raised is not error:
                    _complain()

    def tell(self, say: Callable[[T], object]) -> None:
        for _, told in self._open:
            try:
                say(told)
            except Exception:
                _complain()


class Entering(Around[Entry]):
    """Around an enqueue: jobs are marked on their way in."""

    def __init__(self, hooks: Sequence[Hook], options: Options | None) -> None:
        super().__init__(partial(hook.enqueueing, options) for hook in hooks)
        self._last: tuple[Options, Options] | None = None

    def __enter__(self) -> Entering:
        super().__enter__()
        return self

    def mark(self, job: NewJob) -> NewJob:
        if self._last is None or self._last[0] is not job.options:  # a million jobs may share theirs
            self._last = (job.options, self._marked(job.options))
        return msgspec.structs.replace(job, options=self._last[1])

    def mark_all(self, jobs: Iterable[NewJob]) -> Iterable[NewJob]:
        if not self._open:
            return jobs
        return (self.mark(job) if type(job) is NewJob else job for job in jobs)

    def accepted(self, ids: Sequence[str]) -> None:
        self.tell(lambda entry: entry.accepted(ids))

    def _marked(self, options: Options) -> Options:
        for _, entry in self._open:
            try:
                options = entry.mark(options)
            except Exception:
                _complain()
        return options


def running(hooks: Sequence[Hook], job: Callable[[], Job]) -> Around[Callable[[Outcome], Any]]:
    return Around(partial(_open_run, hook, job) for hook in hooks)


def _open_run(hook: Hook, job: Callable[[], Job]) -> AbstractContextManager[Callable[[Outcome], Any]]:
    return hook.running(job())


def _complain() -> None:
    log.warning("a hook failed; the job goes on without it", exc_info=True)
