"""Which job the code that runs now works for: for code far from the task's own function, and for its log."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Final

from holdfast.domain.job import Job
from holdfast.registry import Registry
from holdfast.store.rows import job_of_claimed
from holdfast.worker.desk import Run

RUNNING: Final[ContextVar[Run | None]] = ContextVar("holdfast_running", default=None)


def current_job() -> Job | None:
    """The job that this code works for, as it was when this attempt started; None outside of a job.

    In a task and in whatever it calls, also in `asyncio.to_thread` and in tasks that it starts; not in threads of its own.
    """
    run = RUNNING.get()
    if run is None:
        return None
    registry = Registry()
    registry.tasks[run.name] = run.task
    return job_of_claimed(run.claimed, run.name, run.queue, registry.decoders)


class JobFilter(logging.Filter):
    """Adds `job`, `task`, `queue` and `attempt` to every record of a handler: of the job that wrote it, None outside of one.

    `handler.addFilter(holdfast.JobFilter())`, then `%(job)s` in its format. `holdfast worker` has it already.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "job"):
            run = RUNNING.get()
            record.__dict__.update(NOWHERE if run is None else fields_of(run))
        return True


NOWHERE: Final = {"job": None, "task": None, "queue": None, "attempt": None}


def fields_of(run: Run) -> dict[str, str | int | None]:
    """What a record has of its job, beside the message."""
    return {"job": run.claimed.id, "task": run.name, "queue": run.queue, "attempt": run.claimed.attempt}
