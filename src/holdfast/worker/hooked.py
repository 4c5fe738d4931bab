"""Runs with an app's hooks around them. A worker of an app that has none does not come here."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.domain.job import Job
from holdfast.domain.outcome import Outcome
from holdfast.hooks import Around, running
from holdfast.registry import Registry
from holdfast.store.rows import job_of_claimed
from holdfast.worker.current import RUNNING
from holdfast.worker.desk import Run, decided
from holdfast.worker.runner import acall, call


class Hooked:
    def __init__(self, registry: Registry) -> None:
        self._hooks, self._names = tuple(registry.hooks), registry.decoders

    def call(self, run: Run, context: Callable[[Run], Any]) -> Outcome:
        """In this thread, for which it is one of many: nothing of it stays behind."""
        return contextvars.copy_context().run(self._call, run, context)

    def _call(self, run: Run, context: Callable[[Run], Any]) -> Outcome:
        RUNNING.set(run)
        with running(self._hooks, partial(self._job, run)) as around:
            outcome = call(run, context)
            _tell(around, run, outcome)
            return outcome

    async def acall(self, run: Run, context: Callable[[Run], Any]) -> Outcome:
        """In this asyncio task, which is its own."""
        RUNNING.set(run)
        with running(self._hooks, partial(self._job, run)) as around:
            outcome = await acall(run, context)
            _tell(around, run, outcome)
            return outcome

    def begin(self, run: Run) -> Callable[[Outcome], None]:
        """Of a job in another process; to be told in any thread how it ended."""
        context, around = contextvars.copy_context(), running(self._hooks, partial(self._job, run))
        context.run(RUNNING.set, run)
        context.run(around.__enter__)

        def end(outcome: Outcome) -> None:
            context.run(_tell, around, run, outcome)
            context.run(around.__exit__, None, None, None)

        return end

    def _job(self, run: Run) -> Job:
        return job_of_claimed(run.claimed, run.task.name, run.queue, self._names)


def _tell(around: Around[Callable[[Outcome], Any]], run: Run, outcome: Outcome) -> None:
    how = decided(run.verdict, outcome)
    around.tell(lambda told: told(how))
