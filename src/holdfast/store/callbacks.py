"""A callback is delivered by a job, which is enqueued in the transaction that ends the first: both are committed, or neither."""

from __future__ import annotations

import os
from collections.abc import Mapping

from holdfast.domain.callback import (
    CALLBACK_DELAYS,
    CALLBACK_PRIORITY,
    CALLBACK_QUEUE,
    CALLBACK_TASK,
    DELAYS_VARIABLE,
    delays_of,
)
from holdfast.domain.message import Ended, Hidden, event_of, message_id
from holdfast.domain.trace import carried
from holdfast.errors import SettingError
from holdfast.store.ids import first_id, id_text
from holdfast.store.lane import lane_of
from holdfast.store.op import Moment, Op, Statement, json_of


def announce(moment: Moment, ended: Mapping[int, Hidden]) -> Op[None]:
    """For jobs that have just ended, by their seqs; those without a callback are passed over.

    The message's id is the new job's id, so that one end cannot be announced twice by mistake.
    """
    jobs = yield from _ended(ended)
    if not jobs:
        return
    yield from lane_of(CALLBACK_QUEUE, CALLBACK_TASK)
    yield [_telling(moment, job, ended[job.seq], message_id(job)) for job in jobs]


def announce_again(moment: Moment, seq: int, hidden: Hidden) -> Op[str]:
    """The same message about the end of one job, by another job; its id."""
    job = (yield from _ended({seq: hidden}))[0]
    id = id_text(first_id(moment.now))
    yield from lane_of(CALLBACK_QUEUE, CALLBACK_TASK)
    yield _telling(moment, job, hidden, id)
    return id


def _ended(seqs: Mapping[int, Hidden]) -> Op[list[Ended]]:
    rows = yield Statement("ended_jobs", {"seqs": json_of(list(seqs))})
    return [Ended(*row) for row in rows]


def _telling(moment: Moment, job: Ended, hidden: Hidden, id: str) -> Statement:
    # All that is needed to deliver it: the job itself may be deleted before that is done.
    arguments = {"job": job.id, "url": job.callback, "message": message_id(job), "event": event_of(job, hidden)}
    fields = {
        "queue": CALLBACK_QUEUE,
        "task": CALLBACK_TASK,
        "priority": CALLBACK_PRIORITY,
        "attempts_max": _tries(),
        "now": moment.now,
        "id": id,
        "arguments": json_of(arguments),
        "meta": carried(job.meta),
        "parent": job.id,
    }
    return Statement("add_job", fields)


def _tries() -> int:
    """As many as the schedule has. A mistake in it is reported at delivery: a job must not fail to end because of it."""
    try:
        return 1 + len(delays_of(os.environ.get(DELAYS_VARIABLE, "")))
    except SettingError:
        return 1 + len(CALLBACK_DELAYS)
