"""A task: a function that can be enqueued. Calling it runs it, as before."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Protocol, TypeVar, overload

import msgspec

from holdfast.domain import codec
from holdfast.domain.bounds import META_BYTES_MAX, PRIORITY_MAX, TAGS_MAX
from holdfast.domain.callback import check_callback
from holdfast.domain.event import check_name, check_own_name
from holdfast.domain.job import Job, NewJob, Options, check_id, micros_of
from holdfast.domain.key import Key, Part, key_of
from holdfast.domain.retry import Duration, Retry, check_attempts, seconds_of
from holdfast.domain.signature import Signature
from holdfast.domain.text import show
from holdfast.errors import SettingError

if TYPE_CHECKING:
    from holdfast.worker.context import Context

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any], covariant=True)
Async = Coroutine[Any, Any, R]
"""What an `async def` that returns R gives when it is called."""


class Enqueuer(Protocol):
    """What a task needs of the app."""

    def enqueue(self, job: NewJob) -> Job: ...
    async def aenqueue(self, job: NewJob) -> Job: ...
    def on(self, connection: Any) -> Enqueuer: ...


class Task(Generic[F]):
    """A registered function. `task(...)` runs it here; `task.enqueue(...)` asks a worker to.

    What takes the function's arguments is typed like the function, without its Context: the first of each pair of
    overloads is for functions that have one. Where a job comes back, each of the pair is a pair: `async def`, then `def`.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        app: Enqueuer,
        *,
        name: str,
        options: Options,
        retry: Retry,
        timeout_seconds: float | None,
        lease_seconds: float | None,
        process: bool,
        takes_context: bool,
        detached: Callable[[], Any],
    ) -> None:
        self.fn, self.app, self.name = fn, app, name
        self.options, self.retry = options, retry
        self.timeout_seconds, self.lease_seconds = timeout_seconds, lease_seconds
        self.process, self.takes_context = process, takes_context
        self.is_async = inspect.iscoroutinefunction(fn)
        self.signature = Signature.of(fn, takes_context=takes_context)
        self._detached = detached
        self.__doc__, self.__name__, self.__wrapped__ = fn.__doc__, fn.__name__, fn

    @overload
    def __call__(self: Task[Callable[Concatenate[Context, P], R]], *args: P.args, **kwargs: P.kwargs) -> R: ...
    @overload
    def __call__(self: Task[Callable[P, R]], *args: P.args, **kwargs: P.kwargs) -> R: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function here and now; a context that leads nowhere stands in for the worker's."""
        return self.fn(self._detached(), *args, **kwargs) if self.takes_context else self.fn(*args, **kwargs)

    @overload
    def bind(self: Task[Callable[Concatenate[Context, P], R]], *args: P.args, **kwargs: P.kwargs) -> NewJob: ...
    @overload
    def bind(self: Task[Callable[P, R]], *args: P.args, **kwargs: P.kwargs) -> NewJob: ...
    def bind(self, *args: Any, **kwargs: Any) -> NewJob:
        """A job to be enqueued later, for `enqueue_many`; its arguments are checked now."""
        return NewJob(self.options, self.signature.bind(args, kwargs))

    @overload
    def enqueue(self: Task[Callable[Concatenate[Context, P], Async[R]]], *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    def enqueue(self: Task[Callable[Concatenate[Context, P], R]], *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    def enqueue(self: Task[Callable[P, Async[R]]], *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    def enqueue(self: Task[Callable[P, R]], *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    def enqueue(self, *args: Any, **kwargs: Any) -> Job:
        """Ask for one run with these arguments; the job is durable when this returns."""
        return self.app.enqueue(NewJob(self.options, self.signature.bind(args, kwargs)))

    @overload
    async def aenqueue(self: Task[Callable[Concatenate[Context, P], Async[R]]], *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    async def aenqueue(self: Task[Callable[Concatenate[Context, P], R]], *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    async def aenqueue(self: Task[Callable[P, Async[R]]], *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    @overload
    async def aenqueue(self: Task[Callable[P, R]], *args: P.args, **kwargs: P.kwargs) -> Job[R]: ...
    async def aenqueue(self, *args: Any, **kwargs: Any) -> Job:
        """The async twin of `enqueue`."""
        return await self.app.aenqueue(NewJob(self.options, self.signature.bind(args, kwargs)))

    def using(
        self,
        *,
        key: Key | Part | tuple[Part, ...] | None = None,
        priority: int | None = None,
        run_after: datetime | Duration | None = None,
        queue: str | None = None,
        attempts: int | None = None,
        id: str | None = None,
        tags: Sequence[str] | None = None,
        meta: dict[str, Any] | None = None,
        parent: str | Job | None = None,
        callback: str | None = None,
        wait: Duration | None = None,
        on: Any = None,
    ) -> Task[F]:
        """The same task with other options for the jobs that are enqueued through it.

        key        one job per key: a `Key`, or its parts
        priority   a lower number runs first; the default is 100
        run_after  an aware datetime, or seconds (or a timedelta) from now
        queue      another queue than the task's
        attempts   how often it may run in all, instead of what the task's `Retry` says
        id         a name of your own for the job, unique in the database; else it gets one of 32 hex digits
        tags       names to find it by: `app.jobs(tag=...)`
        meta       plain data that is kept with it
        parent     a job, or the id of one, to find it by: `app.jobs(parent=...)`
        callback   a URL that is told when the job has ended
        wait       seconds for which `enqueue` waits for room if the queue is full, before it raises `QueueFull`
        on         a connection or session of yours, in whose transaction the job is enqueued
        """
        options = changed(
            self.options, key=key, priority=priority, run_after=run_after, queue=queue, attempts=attempts, id=id, tags=tags,
            meta=meta, parent=parent, callback=callback, wait=wait,
        )  # fmt: skip
        twin: Task[F] = Task.__new__(Task)
        twin.__dict__.update(self.__dict__, options=options)
        if on is not None:
            twin.app = self.app.on(on)
        return twin

    @property
    def queue(self) -> str:
        """Where its jobs go."""
        return self.options.queue

    def __repr__(self) -> str:
        return f"<Task {self.signature.text} as {self.name}>"


def changed(options: Options, **given: Any) -> Options:
    """Options with what was given put in, checked."""
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if value is not None:
            check = _CHECKS.get(name)
            if check is None:
                raise SettingError(f"option {name!r} is unknown; known: {', '.join(_CHECKS)}")
            fields |= check(value)
    return msgspec.structs.replace(options, **fields)


def check_priority(priority: int) -> int:
    if isinstance(priority, bool) or not isinstance(priority, int) or abs(priority) > PRIORITY_MAX:
        raise SettingError(f"priority {priority!r} must be a whole number (a lower one runs first; the default is 100)")
    return priority


def task_name(fn: Callable[..., Any]) -> str:
    """`module.function`; a script that is run directly counts as the module of its file's name."""
    module = fn.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        file = getattr(main, "__file__", None)
        module = spec.name if spec is not None else Path(file).stem if file else module
    return re.sub(r"<locals>\.|[<>]", "", f"{module}.{fn.__qualname__}")


def _run_after(when: datetime | Duration) -> dict[str, Any]:
    if isinstance(when, datetime):
        return {"run_at": micros_of(when), "delay": 0}
    return {"run_at": None, "delay": int(seconds_of("run_after", when) * 1e6)}


def _tags(tags: Sequence[str]) -> dict[str, Any]:
    if not isinstance(tags, list | tuple | set | frozenset) or len(tags) > TAGS_MAX:
        raise SettingError(f"tags {show(tags)} must be a list of at most {TAGS_MAX} names")
    try:
        return _checked_tags(tuple(tags))
    except TypeError:  # one that cannot be hashed is no name
        return _checked_tags.__wrapped__(tuple(tags))


@lru_cache(maxsize=1_024)
def _checked_tags(tags: tuple[str, ...]) -> dict[str, Any]:
    checked = tuple(dict.fromkeys(check_name("tag", tag) for tag in tags))
    return {"tags": checked, "tags_json": msgspec.json.encode(checked).decode() if checked else None}


def _meta(meta: dict[str, Any]) -> str:
    if not isinstance(meta, dict):
        raise SettingError(f"meta {show(meta)} must be a dict")
    return codec.encode(meta, "meta", META_BYTES_MAX)


_CHECKS: Final[dict[str, Callable[[Any], dict[str, Any]]]] = {
    "key": lambda key: {"key": key_of(key)},
    "priority": lambda priority: {"priority": check_priority(priority)},
    "run_after": _run_after,
    "queue": lambda queue: {"queue": check_own_name("queue", queue)},
    "attempts": lambda attempts: {"attempts": check_attempts(attempts)},
    "id": lambda name: {"id": check_id(name)},
    "tags": _tags,
    "meta": lambda meta: {"meta": _meta(meta)},
    "parent": lambda parent: {"parent": check_id(parent.id if isinstance(parent, Job) else parent)},
    "callback": lambda url: {"callback": check_callback(url)},
    "wait": lambda wait: {"wait": seconds_of("wait", wait, positive=True)},
}
"""For each option of `using`, the fields of `Options` that it sets, checked."""

__all__ = ["Enqueuer", "Task", "changed", "check_priority", "task_name"]
