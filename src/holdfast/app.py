"""The app: a database, its tasks, and the client API on both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar, overload

from holdfast.client import Client
from holdfast.client.on import CallerDatabase
from holdfast.domain.bounds import SECONDS_MAX
from holdfast.domain.callback import CALLBACK_DELAYS, CALLBACK_PRIORITY, CALLBACK_QUEUE, CALLBACK_TASK
from holdfast.domain.event import check_name, check_own_name
from holdfast.domain.job import Job, Options
from holdfast.domain.retry import Duration, Retry, seconds_of
from holdfast.errors import SettingError
from holdfast.events.feed import Feed
from holdfast.events.webhook.courier import TIMEOUT_SECONDS, Courier
from holdfast.hooks import Hook
from holdfast.registry import AnyTask, Registry
from holdfast.settings import (
    CONCURRENCY,
    GRACE_SECONDS,
    LEASE_SECONDS,
    PRIORITY,
    QUEUE,
    RETENTION_SECONDS,
    open_store,
    url_of,
)
from holdfast.store.clock import Clock
from holdfast.store.url import masked
from holdfast.task import Task, check_priority, task_name
from holdfast.worker.context import Context, Detached
from holdfast.worker.worker import Worker, check_lease

F = TypeVar("F", bound=Callable[..., Any])


class Holdfast(Client):
    """`app = Holdfast("sqlite:///jobs.db")`. The file is created, and brought to this version's layout, on first use."""

    def __init__(
        self,
        url: str | None = None,
        *,
        retention: Duration | None = RETENTION_SECONDS,
        clock: Clock | None = None,
        listen_url: str | None = None,
        webhook_secret: str | None = None,
    ) -> None:
        """`listen_url` leads past a pooler to the PostgreSQL server itself, for LISTEN; else $HOLDFAST_LISTEN_URL, else `url`.

        `webhook_secret` signs callbacks: `whsec_…`, or two with a space between; else $HOLDFAST_WEBHOOK_SECRET.
        """
        self.url = url_of(url)
        self.store = open_store(self.url, clock, listen_url)
        self.retention_seconds = None if retention is None else min(seconds_of("retention", retention), SECONDS_MAX)
        self.registry = Registry()
        super().__init__(self.store, self.registry, Feed(self.store))
        if webhook_secret is not None:
            self.courier = Courier(webhook_secret)

    # Tasks

    @overload
    def task(self, fn: F, /) -> Task[F]: ...
    @overload
    def task(
        self,
        fn: None = None,
        /,
        *,
        name: str | None = None,
        queue: str = QUEUE,
        priority: int = PRIORITY,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        retry: Retry | None = None,
        process: bool = False,
    ) -> TaskMaker: ...
    def task(
        self,
        fn: Any = None,
        /,
        *,
        name: str | None = None,
        queue: str = QUEUE,
        priority: int = PRIORITY,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        retry: Retry | None = None,
        process: bool = False,
    ) -> Any:
        """Register a function, `def` or `async def`, as a task.

        name      under which it is stored; `module.function` unless given
        queue     where its jobs go; priority: a lower number runs first, the default is 100
        timeout   how long one run may take, in seconds
        lease     after how many seconds without a sign of life its worker counts as dead, if not the worker's own
        retry     how often it may run and how long it pauses; three times in all, some seconds apart, unless given
        process   run it in a process of its own, which can be killed and may hold the interpreter's lock
        """
        maker = TaskMaker(self, name, queue, priority, timeout, lease, retry, process)
        return maker if fn is None else maker(fn)

    @property
    def tasks(self) -> Mapping[str, AnyTask]:
        """All tasks of this app, by name."""
        return self.registry.tasks

    def task_named(self, name: str) -> AnyTask:
        """The task of that name, or `UnknownTask`."""
        return self.registry.demand(name)

    @property
    def hooks(self) -> list[Hook]:
        """What is put around every enqueue, and around every run of a worker that starts later."""
        return self.registry.hooks

    # The caller's transaction

    def on(self, connection: Any) -> Client:
        """The same client inside the caller's transaction; nothing is committed here."""
        return Client(CallerDatabase(connection, self.store), self.registry, self._feed, self)

    # Work

    def worker(
        self,
        queues: list[str] | tuple[str, ...] | None = None,
        concurrency: int = CONCURRENCY,
        name: str | None = None,
        *,
        lease: Duration = LEASE_SECONDS,
        grace: Duration = GRACE_SECONDS,
        callbacks: bool = True,
    ) -> Worker:
        """Somebody who runs this app's tasks: `.run()`, `.run_until_empty()`, `.stop()`.

        callbacks  it also delivers callbacks, whatever queues it is for, so that they are not forgotten
        """
        if not self.registry.internal:
            self.registry.internal[CALLBACK_TASK] = _delivering(self)
        return Worker(
            self.store,
            self.registry,
            queues=queues,
            concurrency=concurrency,
            name=name,
            lease=lease,
            grace=grace,
            retention_seconds=self.retention_seconds,
            callbacks=callbacks,
        )

    # The store

    def migrate(self) -> list[str]:
        """Bring the database to this version's layout; the names of what was applied."""
        return [f"{applied.version:04d}_{applied.name}" for applied in self.store.migrate()]

    async def amigrate(self) -> list[str]:
        """The async twin of `migrate`."""
        return await asyncio.to_thread(self.migrate)

    def close(self) -> None:
        """Close all connections; the app can be used again afterwards."""
        self._feed.close()
        self.store.close()

    async def aclose(self) -> None:
        """The async twin of `close`."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Holdfast {masked(self.url)} with {len(self.registry.tasks)} tasks>"


class TaskMaker:
    """`@app.task(...)`: the options, waiting for their function."""

    def __init__(
        self,
        app: Holdfast,
        name: str | None,
        queue: str,
        priority: int,
        timeout: Duration | None,
        lease: Duration | None,
        retry: Retry | None,
        process: bool,
    ) -> None:
        self._app, self._name, self._process = app, None if name is None else check_own_name("task", name), process
        self._queue, self._priority = check_own_name("queue", queue), check_priority(priority)
        self._timeout = None if timeout is None else seconds_of("timeout", timeout, positive=True)
        self._lease = None if lease is None else check_lease(lease)
        if retry is not None and not isinstance(retry, Retry):
            raise SettingError(f"retry={retry!r} is no Retry; use for example retry=Retry(attempts=3)")
        self._retry = retry or Retry()

    def __call__(self, fn: F, /) -> Task[F]:
        if not callable(fn) or inspect.isclass(fn):
            raise SettingError(f"@app.task got {fn!r}; it takes a function")
        _check_function(fn, self._name)
        name = check_name("task", self._name or task_name(fn))
        if self._process and "<locals>" in fn.__qualname__:
            raise SettingError(f"task {name}: process=True needs a function at the top level of a module")
        task: Task[F] = Task(
            fn,
            self._app,
            name=name,
            options=Options(task=name, queue=self._queue, priority=self._priority, attempts=self._retry.attempts),
            retry=self._retry,
            timeout_seconds=self._timeout,
            lease_seconds=self._lease,
            process=self._process,
            takes_context=takes_context(fn),
            detached=lambda: _detached(name),
        )
        self._app.registry.add(task)
        return task


def _check_function(fn: Callable[..., Any], given: str | None) -> None:
    """A worker has to find it again by its name, and to call it with a job's arguments alone."""
    name = getattr(fn, "__qualname__", "")
    if given is None and name.endswith("<lambda>"):
        raise SettingError("@app.task got a lambda, which no worker can find by a name; write it as a def, or give it name=")
    first = next(iter(_signature(fn).parameters), "")
    if inspect.ismethod(fn) or first in ("self", "cls"):
        raise SettingError(f"@app.task got the method {name}, and a worker has no object to call it on; make it a function")


def _delivering(app: Holdfast) -> AnyTask:
    """The one task that is ours: it decides itself when it is tried again."""
    retry = Retry(delays=CALLBACK_DELAYS)
    return Task(
        app.courier.deliver,
        app,
        name=CALLBACK_TASK,
        options=Options(CALLBACK_TASK, CALLBACK_QUEUE, CALLBACK_PRIORITY, retry.attempts),
        retry=retry,
        timeout_seconds=TIMEOUT_SECONDS,
        lease_seconds=None,
        process=False,
        takes_context=True,
        detached=lambda: _detached(CALLBACK_TASK),
    )


def takes_context(fn: Callable[..., Any]) -> bool:
    """Whether the first parameter is annotated as Context. Anywhere else it is a mistake."""
    annotated = [_is_context(parameter.annotation) for parameter in _signature(fn).parameters.values()]
    if any(annotated[1:]):
        raise SettingError(f"task {fn.__qualname__}: the Context must be its first parameter")
    return bool(annotated) and annotated[0]


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(fn, eval_str=True)
    except Exception:
        return inspect.signature(fn)  # a name that only a type checker can see: its text must do


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation.rpartition(".")[2] == Context.__name__
    return annotation is Context


def _detached(name: str) -> Context:
    def no_job() -> Job:
        raise SettingError(f"task {name} was called directly: there is no job; enqueue it to have one")

    return Context(Detached(no_job), token=0, progress={}, meter={})
