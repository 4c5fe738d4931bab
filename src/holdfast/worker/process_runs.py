"""Runs of tasks that were declared `process=True`: from the desk to a child process, and its words back."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

import msgspec

from holdfast.domain.outcome import Failed, JobError, Outcome, error_of
from holdfast.store.settle import Gathered
from holdfast.worker.desk import Desk, Run
from holdfast.worker.hooked import Hooked
from holdfast.worker.processes import Died, ProcessPool
from holdfast.worker.runner import broken
from holdfast.worker.wire import Assignment, Message

START_SECONDS_MAX: Final = 300
"""How long a child may take to start and to load the task's module, before the task's own timeout counts."""


class ProcessRuns:
    def __init__(
        self, desk: Desk, context: Callable[[Run], Any], begin: Callable[[Run], None], hooked: Hooked | None = None
    ) -> None:
        self._desk, self._context, self._begin, self._hooked = desk, context, begin, hooked
        self._lock = threading.Lock()
        self._pool: ProcessPool | None = None
        # Not by the job's number: a job that was taken from us may come back before its old process is gone.
        self._numbers = itertools.count(1)
        self._runs: dict[int, Run] = {}
        self._told_end: dict[int, Callable[[Outcome], None]] = {}

    def start(self, runs: list[Run]) -> None:
        """From any thread."""
        pool = self._open()
        for run in runs:
            number = next(self._numbers)
            try:
                self._start(pool, run, number)
            except RuntimeError as error:  # the system has no thread for its process
                self._forget(number, Failed(JobError("StartError", str(error))))
                self._desk.refuse(run, error)
            except Exception as error:  # what it was claimed with is damaged
                self._forget(number, outcome := broken(error))
                self._desk.end(run, outcome, take_next=False)

    def stop(self, run: Run) -> None:
        """From any thread: kill its process."""
        self._open().kill(run.handle)

    def close(self, grace_seconds: float) -> None:
        if self._pool is not None:
            self._pool.close(grace_seconds)

    def _open(self) -> ProcessPool:
        with self._lock:
            if self._pool is None:
                self._pool = ProcessPool(self._desk.slots, self._told, self._ended)
            return self._pool

    def _start(self, pool: ProcessPool, run: Run, number: int) -> None:
        if not pool.free:
            self._abandon_stuck(pool)
        self._runs[number] = run
        self._context(run)
        self._begin(run)
        if run.deadline is not None:
            run.deadline += START_SECONDS_MAX * 1_000_000
        run.handle, run.pool = number, self
        if self._hooked is not None:
            self._told_end[number] = self._hooked.begin(run)
        pool.start(number, assignment_of(run))
        if run.stopping is not None:
            pool.kill(number)  # it was told to stop while it was on its way here

    def _abandon_stuck(self, pool: ProcessPool) -> None:
        """The desk gave their slots away, for they did not end when they were killed: so do we."""
        for number, run in list(self._runs.items()):
            if run.ended:
                pool.abandon(number)

    def _forget(self, number: int, outcome: Outcome) -> None:
        self._runs.pop(number, None)
        self._tell_end(number, outcome)

    def _tell_end(self, number: int, outcome: Outcome) -> None:
        tell = self._told_end.pop(number, None)
        if tell is not None:
            tell(outcome)

    def _told(self, number: int, message: Message) -> None:
        run = self._runs[number]
        if message.kind == "began":
            self._begin(run)
        elif run.context is not None and run.verdict is None:
            try:
                run.context._relay(msgspec.convert(message.data, Gathered))
            except Exception as error:  # more than can be kept
                run.verdict = Failed(error_of(error))
                self._open().kill(number)

    def _ended(self, number: int, result: Message | Died) -> None:
        run, outcome = self._runs.pop(number), outcome_of(result)
        run.micros = None if isinstance(result, Died) else result.data.get("micros")
        self._tell_end(number, outcome)
        following = self._desk.end(run, outcome)
        if following is not None:
            self._desk.start([following])


def outcome_of(result: Message | Died) -> Outcome:
    if isinstance(result, Died):
        return Failed(JobError("ProcessDied", f"the process that ran it {result.reason}"))
    try:
        outcome: Outcome = msgspec.convert(result.data, Outcome)
    except msgspec.ValidationError as error:
        return broken(error)
    return outcome


def assignment_of(run: Run) -> Assignment:
    """Where the child finds the function: in its module, or in the script that was started."""
    function = run.task.fn
    module, path = function.__module__, None
    if module == "__main__":
        module, path = _started()
    return Assignment(module, path, function.__qualname__, run.task.name, run.queue, run.claimed, run.began_at)


def _started() -> tuple[str, str | None]:
    """What this program was started as: a module by its name (`python -m`), or a file (`python script.py`)."""
    program = sys.modules["__main__"]
    spec = getattr(program, "__spec__", None)
    if spec is not None and spec.name != "__main__":
        return spec.name, None
    return "", getattr(program, "__file__", None)
