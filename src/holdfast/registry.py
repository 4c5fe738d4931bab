"""The tasks of one app, by name: the only way from a stored name to code."""

from __future__ import annotations

from typing import Any

from holdfast.domain import codec
from holdfast.domain.job import Thaw
from holdfast.domain.retry import Retry
from holdfast.errors import PayloadError, SettingError, UnknownTask
from holdfast.store.rows import Names
from holdfast.task import Task

AnyTask = Task[Any]
_DEFAULT_RETRY = Retry()


class Registry:
    def __init__(self) -> None:
        self.tasks: dict[str, AnyTask] = {}
        self.names: Names = _TypedNames(self.tasks)

    def add(self, task: AnyTask) -> None:
        if task.name in self.tasks:
            raise SettingError(f"task {task.name!r} is registered twice; give one of them another name=")
        self.tasks[task.name] = task

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


class _TypedNames(Names):
    """Stored JSON of a known task comes back typed by its annotations; if it no longer fits them, as plain JSON."""

    def __init__(self, tasks: dict[str, AnyTask]) -> None:
        self._tasks = tasks
        self._arguments: dict[str, Thaw] = {}
        self._results: dict[str, Thaw] = {}

    def arguments(self, task: str) -> Thaw:
        thaw = self._arguments.get(task)
        if thaw is None and task in self._tasks:
            thaw = self._arguments[task] = _lenient(self._tasks[task].signature.named)
        return thaw or codec.decode

    def result(self, task: str) -> Thaw:
        thaw = self._results.get(task)
        if thaw is None and task in self._tasks:
            thaw = self._results[task] = _lenient(self._tasks[task].signature.decode_result)
        return thaw or codec.decode


def _lenient(thaw: Thaw) -> Thaw:
    def read(text: str) -> Any:
        try:
            return thaw(text)
        except PayloadError:
            return codec.decode(text)

    return read
