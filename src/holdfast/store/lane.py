"""A lane is a (queue, task) pair; the first job of a pair makes it."""

from __future__ import annotations

from holdfast.store.op import Op, Statement


def lane_of(queue: str, task: str) -> Op[int]:
    names = {"queue": queue, "task": task}
    found = yield Statement("lane", names)
    if not found:
        found = yield Statement("add_lane", names)
    lane: int = found[0][0]
    return lane
