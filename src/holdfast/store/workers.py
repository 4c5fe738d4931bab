"""Workers as the store knows them: their rows, beats and notices, and what there is for them to do.

A lease runs out a fixed time after its holder's last beat, so one row renews any number of leases.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.domain.job import moment_of
from holdfast.domain.worker_status import WorkerStatus
from holdfast.errors import LeaseLost
from holdfast.store.claim import Cursor, names_of
from holdfast.store.op import Alone, Moment, Op, Shortcut, Statement

NUMBER_BITS: Final = 53
"""Of a worker's number: as many as JSON can carry."""


def register(
    moment: Moment,
    name: str,
    host: str,
    pid: int,
    lease_min: int,
    by_hand: bool,
    *,
    slots: int = 1,
    queues: Sequence[str] | None = None,
) -> Op[int]:
    """A row that leases run by; its number."""
    worker = new_number()
    facts = {"id": worker, "name": name, "host": host, "pid": pid, "by_hand": int(by_hand), "lease_min": lease_min}
    serves = {"slots": slots, "queues": names_of(queues)}
    yield Statement("add_worker", {**facts, **serves, "now": moment.now, "tick": moment.tick, "boot": moment.boot})
    return worker


def new_number() -> int:
    """Random: after a restore, the next number of a series could be that of a worker that is still running."""
    return secrets.randbits(NUMBER_BITS)


def leave(worker: int) -> Op[None]:
    yield Statement("clear_notices", {"worker": worker})
    yield Statement("remove_worker", {"worker": worker})


class Beat(Shortcut["int | None"]):
    """Renews every lease of a worker, in one row. The lease clock of the beat; None: the worker's row is gone.

    Alone, it is fenced by the beat before it: one that timed out and is executed late must not set the lease clock back.
    """

    def __init__(self, worker: int, last_tick: int) -> None:
        self._worker, self._last_tick = worker, last_tick

    def __call__(self, moment: Moment) -> Op[int | None]:
        return moment.tick if (yield from beat(moment, self._worker, self._last_tick)) else None

    def alone(self, moment: Moment) -> Alone[int | None]:
        return Alone(_beat(moment, self._worker, self._last_tick), moment.tick)


def beat(moment: Moment, worker: int, since: int = 0) -> Op[bool]:
    """False: the worker was given up for dead, and its row is gone, or the row has an earlier beat than `since`: the database was
    restored. The reply to a later one may have been lost."""
    return bool((yield _beat(moment, worker, None, since)))


def _beat(moment: Moment, worker: int, last: int | None, since: int = 0) -> Statement:
    fields = {"now": moment.now, "tick": moment.tick, "boot": moment.boot, "worker": worker, "last": last, "since": since}
    return Statement("beat", fields)


def renew(moment: Moment, worker: int, seq: int, token: int) -> Op[None]:
    """A lease that was claimed by hand: its holder is a worker of its own, so this is that worker's beat."""
    held = yield Statement("lock_claims", {"leases": f'{{"{seq}":{token}}}', "worker": worker})
    if held[0][0] == "[]":
        raise LeaseLost(f"token {token} is not the current one: the job was taken, cancelled or ended meanwhile")
    yield from beat(moment, worker)


def statuses(moment: Moment) -> Op[list[WorkerStatus]]:
    """All that have a row, the oldest first."""
    return [_status(moment.now, *row) for row in (yield Statement("known_workers", moment.clocks))]


def _status(
    now: int, name: str, host: str, pid: int, by_hand: int, queues: str | None, slots: int, started_at: int, beat_at: int,
    running: int, alive: int,
) -> WorkerStatus:  # fmt: skip
    return WorkerStatus(
        name=name,
        host=host,
        pid=pid,
        queues=None if queues is None else msgspec.json.decode(queues, type=tuple[str, ...]),
        slots=slots,
        running=running,
        started_at=moment_of(started_at),
        beat_at=moment_of(beat_at),
        quiet_seconds=max(0, now - beat_at) / 1e6,
        alive=bool(alive),
        by_hand=bool(by_hand),
    )


def notices(worker: int) -> Op[list[tuple[int, int, str]]]:
    """Jobs that were taken from this worker: (seq, token, what became of them)."""
    rows = yield Statement("notices", {"worker": worker})
    return [(seq, token, kind) for seq, token, kind in rows]


def held_by(worker: int) -> Op[list[tuple[int, int, int, int, int]]]:
    """All that a worker holds: seq, token, lane, attempt, attempts_max."""
    rows = yield Statement("claims_of_worker", {"worker": worker})
    return [(seq, token, lane, attempt, attempts_max) for seq, token, lane, attempt, attempts_max in rows]


class Work(NamedTuple):
    """What there is for a worker to do."""

    ready: bool
    """A job that it may claim, if that was asked."""
    to_tend: bool
    """Something is due, expired, too old, or left for this worker to read."""
    next_due: int | None


def work_to_do(
    moment: Moment,
    worker: int,
    queues: Sequence[str] | None,
    tasks: Sequence[str] | None,
    cursor: Cursor | None,
    claims: bool,
    horizon: int,
) -> Op[Work]:
    """Without a lock, so an idle worker never holds one. `horizon`: what ended before it is to be pruned."""
    fields = {
        "claims": int(claims),
        "queues": names_of(queues),
        "tasks": names_of(tasks),
        "cursor": None if cursor is None else cursor.text,
        **moment.clocks,
        "worker": worker,
        "horizon": horizon,
    }
    ready, to_tend, next_due = (yield Statement("work_to_do", fields))[0]
    return Work(bool(ready), bool(to_tend), next_due)
