"""The tasks of one app, by name: the only way from a stored name to code."""

from __future__ import annotations

from typing import Any

from holdfast.domain import codec
from holdfast.domain.job import Decode, Decoders, Job
from holdfast.domain.message import Hidden, hidden_of
from holdfast.domain.retry import Retry
from holdfast.domain.secret import Marked
from holdfast.errors import PayloadError, SettingError, UnknownTask
from holdfast.hooks import Hook
from holdfast.task import Task

AnyTask = Task[Any]
_DEFAULT_RETRY = Retry()


class Registry:
    def __init__(self) -> None:
        self.tasks: dict[str, AnyTask] = {}
        self.internal: dict[str, AnyTask] = {}
        """Ours: run by every worker, enqueued by nobody else."""
        self.decoders: Decoders = _TypedDecoders(self.tasks)
        self.hooks: list[Hook] = []
        self.queues: dict[str, dict[str, Any]] = {}
        """What the code declares of its queues."""
        self.undeclared: dict[str, dict[str, Any]] = {}
        """Of these, what may not be in the database yet."""
        self.bounded: set[str] = set()
        """Queues that were seen to accept only so many jobs: a hint."""

    def add(self, task: AnyTask) -> None:
        if task.name in self.tasks or task.name in self.internal:
            raise SettingError(f"task {task.name!r} is registered twice; give one of them another name=")
        self.tasks[task.name] = task

    def declare(self, queue: str, fields: dict[str, Any]) -> None:
        self.queues[queue] = self.undeclared[queue] = fields

    def declared(self, written: dict[str, dict[str, Any]]) -> None:
        """These declarations are in the database now."""
        for queue, fields in written.items():
            if self.undeclared.get(queue) is fields:
                del self.undeclared[queue]

    def runnable(self) -> dict[str, AnyTask]:
        """All that a worker can run."""
        return {**self.internal, **self.tasks}

    def find(self, name: str) -> AnyTask | None:
        return self.tasks.get(name)

    def demand(self, name: str) -> AnyTask:
        task = self.tasks.get(name)
        if task is None:
            known = ", ".join(sorted(self.tasks)) or "none"
            raise UnknownTask(f"task {name!r} is not registered with this app; registered: {known}")
        return task

    def retry(self, name: str) -> Retry:
        task = self.tasks.get(name)
        return _DEFAULT_RETRY if task is None else task.retry

    def hidden(self, job: Job) -> Hidden:
        """What must not be told of a job to those outside."""
        task = self.tasks.get(job.task)
        return hidden_of(None if task is None else task.signature, job.arguments_json)


class _TypedDecoders(Decoders):
    """Stored JSON of a known task comes back typed by its annotations; if it no longer fits them, as plain JSON."""

    def __init__(self, tasks: dict[str, AnyTask]) -> None:
        self._tasks = tasks
        self._arguments: dict[str, Decode] = {}
        self._results: dict[str, Decode] = {}

    def arguments(self, task: str) -> Decode:
        decode = self._arguments.get(task)
        if decode is None and task in self._tasks:
            signature = self._tasks[task].signature
            decode = self._arguments[task] = _Lenient(signature.named, signature.secrets)
        return decode or codec.decode

    def result(self, task: str) -> Decode:
        decode = self._results.get(task)
        if decode is None and task in self._tasks:
            signature = self._tasks[task].signature
            decode = self._results[task] = _Lenient(signature.decode_result, signature.result_secrets)
        return decode or codec.decode


class _Lenient:
    """Reads stored JSON of one task, and knows what in it is secret."""

    __slots__ = ("_decode", "marked")

    def __init__(self, decode: Decode, marked: Marked) -> None:
        self._decode, self.marked = decode, marked

    def __call__(self, text: str) -> Any:
        try:
            return self._decode(text)
        except PayloadError:
            return codec.decode(text)
