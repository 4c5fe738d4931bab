"""What jobs metered, summed by day, queue, task and name."""

from __future__ import annotations

from datetime import date

import msgspec

from holdfast.domain.meter import Meter, days_of
from holdfast.store.op import Moment, Op, Row, Statement


class Chosen(msgspec.Struct, frozen=True):
    """Which sums are wanted; None: all."""

    since: date | None = None
    until: date | None = None
    queue: str | None = None
    task: str | None = None
    name: str | None = None


def meters(moment: Moment, chosen: Chosen) -> Op[list[Meter]]:
    """In the order of days, queues, tasks and names."""
    since, until = days_of(moment.now, chosen.since, chosen.until)
    wanted = {"since": since, "until": until, "queue": chosen.queue, "task": chosen.task, "name": chosen.name}
    rows: list[Row] = yield Statement("meters", wanted)
    return [Meter(date.fromisoformat(day), queue, task, name, amount) for day, queue, task, name, amount in rows]


def metered_today(moment: Moment) -> Op[list[Meter]]:
    today = date.fromisoformat(days_of(moment.now, None, None)[1])
    return (yield from meters(moment, Chosen(today, today)))
