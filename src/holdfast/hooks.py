"""What may be put around every enqueue and every run of an app: tracing, for example, or fresh connections for each job.

`app.hooks` is a list, and empty: then nothing is called. A hook that raises is left out of that one call and named in the
log: a job is worth more than what is said about it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.domain.job import Job, NewJob, Options
from holdfast.domain.outcome import Outcome

log = logging.getLogger("holdfast.hooks")

T = TypeVar("T")


class Entry:
    """One `enqueue`, or one `enqueue_many`, on its way. Override what you need."""

    def mark(self, options: Options) -> Options:
        """The options of each job that goes in; what this gives is used instead."""
        return options

    def accepted(self, ids: Sequence[str]) -> None:
        """They are durable now, or will be with the caller's commit."""


Told = Callable[[Outcome], object] | None
"""Is called with how a run ended; None: not wanted."""


class Hook:
    """Put around every enqueue and every run: `app.hooks.append(MyHook())`. Override what you need; the rest does nothing.

    Each method gives a context manager, as a generator with `@contextmanager` does. It may yield None.
    """

    def enqueueing(self, options: Options | None) -> AbstractContextManager[Entry | None]:
        """Around an enqueue; None: around an `enqueue_many`, whose jobs need not be alike."""
        return nullcontext()

    def running(self, job: Job) -> AbstractContextManager[Told]:
        """Around one attempt, in the thread or asyncio task that makes it; what it gives is called with how that ended.

        Of a job in a process of its own: in the worker, from before it starts until after it ended.
        """
        return nullcontext()


class Around(Generic[T]):
    """The context managers of all hooks that have this method, one inside the other."""

    def __init__(self, hooks: Sequence[Hook], method: str, subject: Callable[[], Any]) -> None:
        self._hooks, self._method, self._subject = hooks, method, subject
        self._open: list[tuple[AbstractContextManager[T | None], T | None]] = []

    def __enter__(self) -> Around[T]:
        for hook in self._hooks:
            try:
                opener = getattr(hook, self._method, None)
                if opener is not None:
                    manager = opener(self._subject())
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
                if told is not None:
                    say(told)
            except Exception:
                _complain()


class Entering(Around[Entry]):
    """Around an enqueue: jobs are marked on their way in."""

    def __init__(self, hooks: Sequence[Hook], options: Options | None) -> None:
        super().__init__(hooks, "enqueueing", lambda: options)
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
                options = options if entry is None else entry.mark(options)
            except Exception:
                _complain()
        return options


def running(hooks: Sequence[Hook], job: Callable[[], Job]) -> Around[Callable[[Outcome], Any]]:
    return Around(hooks, "running", job)


def _complain() -> None:
    log.warning("a hook failed; the job goes on without it", exc_info=True)
