"""Bounded queues: how many jobs wait, and whether there is room for more.

One row per queue says how many wait at most: what was counted last, and all that were accepted or came back since. Only when that
reaches the bound is it counted again. The row is locked by every enqueue into the queue, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from holdfast.domain.limits import COUNT_MAX, limits_of
from holdfast.store.op import Moment, Op, Statement

RETRY_SECONDS_MIN: Final = 1.0
RETRY_SECONDS_MAX: Final = 3_600.0
RETRY_SECONDS: Final = 10.0
"""When to try again, where no job has ended of late."""


class Full(msgspec.Struct, frozen=True):
    """A queue that had no room for a job."""

    queue: str
    depth: int
    max_depth: int
    retry_after: float


class Depth:
    """One bounded queue, locked for the rest of the transaction."""

    def __init__(self, queue: str, max_depth: int, jobs: int) -> None:
        self.queue, self.max_depth, self.jobs = queue, max_depth, jobs

    def room(self, wanted: int) -> Op[int]:
        """For how many of so many jobs there is room."""
        if self.jobs + wanted > self.max_depth:
            # In this order: what comes back in between is then counted twice, and not left out.
            yield Statement("drop_returned", {"queue": self.queue})
            self.jobs = (yield Statement("count_depth", {"queue": self.queue, "limit": self.max_depth}))[0][0]
        return min(wanted, max(0, self.max_depth - self.jobs))

    def keep(self) -> Op[None]:
        yield Statement("keep_depth", {"queue": self.queue, "count": self.jobs})

    def full(self, moment: Moment) -> Op[Full]:
        ended = [at for (at,) in (yield Statement("ended_lately", {"queue": self.queue}))]
        return Full(self.queue, self.jobs, self.max_depth, _retry_after(moment.now, ended))


def lock(queues: Iterable[str]) -> Op[dict[str, Depth]]:
    """Those of the queues that are bounded, in the order of their names."""
    found: dict[str, Depth] = {}
    for queue in sorted(set(queues)):
        yield Statement("add_depth", {"queue": queue, "count": COUNT_MAX})
        ((jobs, returned),) = yield Statement("lock_depth", {"queue": queue})
        ((declared, live),) = yield Statement("queue_limits", {"queue": queue})
        max_depth = limits_of(declared, live).max_depth
        if max_depth is not None:
            found[queue] = Depth(queue, max_depth, jobs + returned)
    return found


def _retry_after(now: int, ended: list[int]) -> float:
    """About how long until the next job has left, by how fast the last ones ended; the latest first."""
    if len(ended) < 2:
        return RETRY_SECONDS
    seconds = (max(now, ended[0]) - ended[-1]) / 1e6 / len(ended)
    return round(min(RETRY_SECONDS_MAX, max(RETRY_SECONDS_MIN, seconds)), 1)
