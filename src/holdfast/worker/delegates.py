"""Runs of tasks that were declared `process=True`: from the desk to a child process, and its words back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.domain.outcome import Failed, JobError, Outcome
from holdfast.worker.context import Said
from holdfast.worker.desk import Desk, Run
from holdfast.worker.processes import Assignment, Died, Message, ProcessPool


class Delegates:
    def __init__(self, desk: Desk, context: Callable[[Run], Any], begin: Callable[[Run], None]) -> None:
        self._desk, self._context, self._begin = desk, context, begin
        self._runs: dict[int, Run] = {}
        self._pool: ProcessPool | None = None

    def start(self, runs: list[Run]) -> None:
        """From any thread."""
        if self._pool is None:
            self._pool = ProcessPool(self._desk.slots, self._told, self._ended)
        pool = self._pool
        for run in runs:
            seq = run.claimed.seq
            self._runs[seq] = run
            self._context(run)
            self._begin(run)
            run.stop = lambda seq=seq: pool.kill(seq)
            pool.start(seq, assignment_of(run))
            if run.stopping is not None:
                pool.kill(seq)

    def close(self, grace_seconds: float) -> None:
        if self._pool is not None:
            self._pool.close(grace_seconds)

    def _told(self, seq: int, message: Message) -> None:
        run = self._runs[seq]
        if run.context is not None:
            run.context.relay(msgspec.convert(message.data, Said))

    def _ended(self, seq: int, result: Message | Died) -> None:
        run = self._runs.pop(seq)
        if isinstance(result, Died):
            outcome: Outcome = Failed(JobError("ProcessDied", f"the process that ran it {result.reason}"))
        else:
            outcome = _outcome(result.data)
        following = self._desk.end(run, outcome)
        if following is not None:
            self._desk.start([following])


def _outcome(data: dict[str, Any]) -> Outcome:
    outcome: Outcome = msgspec.convert(data, Outcome)
    return outcome


def assignment_of(run: Run) -> Assignment:
    """Where the child finds the function: in its module, or in the script that was started."""
    function = run.task.fn
    script = sys.modules["__main__"]
    is_script = function.__module__ == "__main__" and getattr(script, "__spec__", None) is None
    module = "" if is_script else function.__module__
    if module == "__main__":
        module = script.__spec__.name  # type: ignore[union-attr]
    path = getattr(script, "__file__", None) if is_script else None
    return Assignment(module, path, function.__qualname__, run.claimed, run.queue)
