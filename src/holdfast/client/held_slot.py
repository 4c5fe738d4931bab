"""A job that waits for another one keeps its slot meanwhile: if all slots are kept like that, the other one never starts."""

from __future__ import annotations

import logging
import time
from typing import Final

from holdfast.domain.job import Job
from holdfast.domain.states import State
from holdfast.worker.current import RUNNING

log = logging.getLogger("holdfast.worker")

UNSTARTED_SECONDS: Final = 5.0
"""After which a job that is waited for, and that no worker starts, is warned of; later warnings come ever more rarely."""


class HeldSlot:
    """Of the job whose code waits; outside of a task it does nothing."""

    def __init__(self) -> None:
        self._run = RUNNING.get()
        self._began_at = time.monotonic()
        self._patience = UNSTARTED_SECONDS

    def within(self, seconds: float | None) -> float | None:
        """How long to wait before the next look."""
        if self._run is None:
            return seconds
        look = max(0.01, self._began_at + self._patience - time.monotonic())
        return look if seconds is None else min(look, seconds)

    def look(self, job: Job) -> None:
        """At the job that is waited for."""
        waited = time.monotonic() - self._began_at
        if self._run is None or waited < self._patience:
            return
        self._patience = waited + self._patience * 2
        if job.state is State.READY:
            log.warning(
                "job %s (%s) waits for job %s (%s), which no worker has started for %.0f s: a job that waits keeps its slot; "
                "raise the concurrency, give %s a queue with workers of its own, or enqueue it without waiting for it",
                self._run.claimed.id, self._run.task.name, job.id, job.task, waited, job.task,
            )  # fmt: skip
