"""A lane is a (queue, task) pair: what claims choose from. The first job of a pair makes it.

Lanes are looked up by name in the transaction that uses them and never remembered: after a restore or a failover a number may
belong to another pair.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.store.op import Op, Statement, json_of

Pair = tuple[str, str]
"""A queue and a task."""


class Lanes(NamedTuple):
    numbers: dict[Pair, int]
    bounded: set[str]
    """Queues that accept only so many jobs."""


def lanes_of(pairs: Iterable[Pair]) -> Statement:
    """Asks for the lanes that exist: rows of lane, queue, task, bounded."""
    return Statement("lanes_of", {"pairs": json_of(list(pairs))})


def add_lanes(pairs: Iterable[Pair], rows: list[tuple[int, str, str, int]]) -> Op[Lanes]:
    """The lanes of all pairs, given the rows of `lanes_of`; those that do not exist yet are added."""
    numbers = {(queue, task): lane for lane, queue, task, _ in rows}
    bounded = {queue for _, queue, _, is_bounded in rows if is_bounded}
    for queue, task in pairs:
        if (queue, task) not in numbers:
            ((numbers[queue, task], is_bounded),) = yield Statement("add_lane", {"queue": queue, "task": task})
            if is_bounded:
                bounded.add(queue)
    return Lanes(numbers, bounded)


def lane_of(queue: str, task: str) -> Op[int]:
    pair = (queue, task)
    lanes = yield from add_lanes([pair], (yield lanes_of([pair])))
    return lanes.numbers[pair]
