"""Why a ready job waits where nobody will take it."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.app import Holdfast
from holdfast.domain.job import Job
from holdfast.domain.states import State

Reason = Callable[[Job], str]


def reasons(store: Holdfast) -> Reason:
    """For any job of this store, as its workers are now; empty where a living worker takes its queue."""
    workers = store.workers()

    def reason(job: Job) -> str:
        waits = job.state in (State.READY, State.SCHEDULED)
        return f"no living worker takes queue {job.queue}" if waits and not any(each.takes(job.queue) for each in workers) else ""

    return reason
