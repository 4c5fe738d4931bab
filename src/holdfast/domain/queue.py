"""A queue as it stands: how many of its jobs are where, what bounds it, and what keeps its jobs from starting now."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

import msgspec

from holdfast.domain.limits import NO_LIMITS, Limits


class QueuePause(msgspec.Struct, frozen=True):
    """The queue is paused."""

    until: datetime | None
    """When it ends by itself; None: when it is resumed."""
    by: str | None
    """Whoever paused it; `code`: its declaration."""
    since: datetime | None
    """When that was."""
    reason: str = ""
    """Why."""


class BreakerStatus(msgspec.Struct, frozen=True):
    """How the queue's breaker stands, or a stop that a task asked for (`RetryAfter(..., whole_queue=True)`)."""

    state: Literal["closed", "open", "half-open"]
    """open: nothing starts before `until`. half-open: one job is tried."""
    failures: int
    """Different jobs whose runs have failed since the last success, as far as the breaker counts them."""
    until: datetime | None
    """When one job will be tried, while it is open."""


class QueueBlock(msgspec.Struct, frozen=True):
    """A reason why no job of the queue may start now."""

    kind: str
    """paused, breaker, probe, concurrency, gap or rate."""
    until: datetime | None
    """When it ends by itself; None: with the end of a run, or when it is resumed."""


class Queue(msgspec.Struct, frozen=True):
    """What is known of one queue. Jobs that ended count until they are pruned."""

    name: str
    """Its name."""
    depth: int = 0
    """Jobs accepted and not yet started: those that are ready, and those for later."""
    max_depth: int | None = None
    """How many that may be; None: any number."""
    ready: int = 0
    """Jobs that are ready to run."""
    scheduled: int = 0
    """Jobs that must not run yet."""
    running: int = 0
    """Jobs that a worker has."""
    processed: int = 0
    """Jobs that succeeded."""
    failed: int = 0
    """Jobs that failed for good."""
    cancelled: int = 0
    """Jobs that were cancelled."""
    skipped: int = 0
    """Jobs that ended on purpose, without an error."""
    workers: int = 0
    """Living workers that take its jobs."""
    average_seconds: float | None = None
    """How long its runs take, by those among the last thousand jobs of all that succeeded."""
    estimated_wait: float | None = None
    """Seconds until a job that is enqueued now would start, about; None: nothing is known, or nothing runs it."""
    paused: QueuePause | None = None
    """Set while it is paused."""
    breaker: BreakerStatus | None = None
    """Set where it has a breaker, or a task has stopped it."""
    blocks: tuple[QueueBlock, ...] = ()
    """Why no job of it may start now; empty: one may. A claim decides by the same."""
    limits: Limits = NO_LIMITS
    """What holds: `live` over `declared`."""
    declared: dict[str, Any] | None = None
    """What the code declares, by the options of `app.queue`; None: nothing."""
    live: dict[str, Any] | None = None
    """What was changed live."""
    change_count: int = 0
    """The number of the latest entry in its log; see `app.queue_changes`."""

    @property
    def is_full(self) -> bool:
        """Whether a new job would be refused."""
        return self.max_depth is not None and self.depth >= self.max_depth
