"""How many jobs a worker claims: its free slots, and as many more as it will start within a moment.

Slow jobs are thus left for other workers; no-op jobs come by the hundred.
"""

from __future__ import annotations

import time

from holdfast.domain.bounds import CLAIM_BATCH_MAX
from holdfast.worker.desk import Desk
from holdfast.worker.timing import DELAY_SECONDS_MAX, PREFETCH_SECONDS, RATE_SECONDS


class Prefetch:
    """Measures the rate at which runs end, of late, and decides by it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._rate = 0.0
        self._counted_at = time.monotonic()

    def count(self, now: float, ended: int) -> None:
        """So many runs have ended since the last call."""
        elapsed = now - self._counted_at
        if elapsed > 0:
            weight = min(1.0, elapsed / RATE_SECONDS)
            self._rate += weight * (ended / elapsed - self._rate)
            self._counted_at = now

    def claim_size(self) -> int:
        """How many jobs to claim now."""
        desk = self._desk
        ahead = self._ahead()
        room = desk.slots + ahead - desk.held()
        # Half of it at a time, so that claims come in batches and not one by one.
        return room if room * 2 >= ahead or desk.held() < desk.slots else 0

    def may_delay_commit(self, reports: int, since_filed: float) -> bool:
        """While the pools have plenty to do, a larger batch of reports holds up no run and saves commits."""
        half = self._ahead() // 2
        return len(self._desk.waiting) > half and reports < half and since_filed < DELAY_SECONDS_MAX

    def _ahead(self) -> int:
        return int(min(self._rate * PREFETCH_SECONDS, CLAIM_BATCH_MAX))
