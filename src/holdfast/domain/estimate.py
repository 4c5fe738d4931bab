"""About how long a job that is enqueued now waits for its start. Pure; microseconds in, seconds out."""

from __future__ import annotations

from holdfast.domain.flow import Flow
from holdfast.domain.limits import NEVER


def estimated_wait(flow: Flow, ready: int, slots: int, average_seconds: float | None) -> float | None:
    """With so many ready jobs before it, and so many slots of living workers; None where nothing is known.

    Jobs before it that take as long as the last ones, on all slots: what else those slots run is not known. Not earlier than the
    rates, a breaker or the end of a pause allow.
    """
    if slots == 0 or any(block.kind == "paused" and block.until == NEVER for block in flow.blocks()):
        return None
    most = slots if flow.limits.concurrency is None else min(slots, flow.limits.concurrency)
    before = flow.running + ready - most + 1
    """So many runs end before it starts."""
    if before <= 0:
        by_slots = 0.0
    elif average_seconds is None:
        return None
    else:
        by_slots = before * (average_seconds / most + flow.limits.gap)
    return round(max(by_slots, _not_before(flow, ready)), 3)


def _not_before(flow: Flow, ready: int) -> float:
    """What holds by the clock alone."""
    closed = max((block.until - flow.now for block in flow.blocks() if block.until != NEVER), default=0)
    paced = [
        max(flow.memory.next_at[rate.interval], flow.now) + (ready - rate.at_once + 1) * rate.interval - flow.now
        for rate in flow.limits.rates
    ]
    return max(0, closed, *paced) / 1e6
