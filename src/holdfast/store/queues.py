"""Counting: how many jobs of each queue and task are in which state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.domain.queue import Queue
from holdfast.domain.states import State
from holdfast.store.op import Op, Statement

_FIELDS: Final = {State.READY.value: "depth"}
"""Where a count goes that is not called as the state is."""

Counts = dict[str, dict[str, int]]


def queues() -> Op[list[Queue]]:
    """Every queue that ever had a job, by name."""
    counts: Counts = {}
    for queue, _, state, jobs in (yield Statement("queues")):
        fields = counts.setdefault(queue, {})
        if state is not None:
            field: str = _FIELDS.get(state) or state
            fields[field] = fields.get(field, 0) + jobs
    return [Queue(name, **fields) for name, fields in counts.items()]


def stats(may_see: Callable[[str], bool] = lambda _: True) -> Op[Counts]:
    """Task -> state -> how many jobs, in the queues that `may_see` allows."""
    counts: Counts = {}
    for queue, task, state, jobs in (yield Statement("queues")):
        if state is not None and may_see(queue):
            states = counts.setdefault(task, {})
            states[state] = states.get(state, 0) + jobs
    return dict(sorted(counts.items()))
