"""What any living worker does for all: promote what is due, take back what dead workers held, forget what is old."""

from __future__ import annotations

from datetime import UTC

import msgspec

from holdfast.domain.bounds import EXPIRE_BATCH_MAX, PROMOTE_BATCH_MAX, PRUNE_BATCH_MAX, PRUNE_EVENTS_MAX
from holdfast.domain.job import moment_of
from holdfast.domain.message import NOTHING_HIDDEN
from holdfast.domain.outcome import Change, JobError
from holdfast.domain.states import State
from holdfast.store.op import Moment, Op, Statement
from holdfast.store.settle import Report, settle

WORKER_LOST = "WorkerLost"
_FORGET_WORKERS_AFTER = 3600 * 1_000_000
_PRUNE = (
    "delete_finished", "outlive_keys", "free_ended_keys", "delete_tags", "delete_events", "delete_errors", "keep_numbers",
    "delete_jobs", "delete_bodies",
)  # fmt: skip


def promote(moment: Moment) -> Op[int]:
    """Scheduled jobs whose time has come become ready."""
    due = {"now": moment.now, "limit": PROMOTE_BATCH_MAX}
    seqs = (yield Statement("due", due))[0][0]
    if seqs == "[]":
        return 0
    yield Statement("take_due", {**due, "seqs": seqs})
    yield Statement("promote_jobs", {"seqs": seqs})
    yield Statement("record_promoted", {"now": moment.now, "seqs": seqs})
    yield Statement("ready_jobs", {"seqs": seqs})
    return len(msgspec.json.decode(seqs))


def expire(moment: Moment) -> Op[list[str]]:
    """Jobs whose holder stopped renewing: ready again, or failed where their attempts are used up. Their ids."""
    clock = {"tick": moment.tick, "boot": moment.boot}
    if not (yield Statement("stale_workers", clock)):
        return []
    rows = yield Statement("expired", {**clock, "limit": EXPIRE_BATCH_MAX})
    if not rows:
        return []
    reports = [
        Report(seq=seq, token=token, lane=lane, attempt=attempt,
               change=_lost(f"{name} ({host}, pid {pid})", beat_at, attempt, attempts_max),
               callback=None if callback is None else NOTHING_HIDDEN)
        for seq, token, lane, _, name, host, pid, beat_at, attempt, attempts_max, callback, _ in rows
    ]  # fmt: skip
    seqs = msgspec.json.encode([report.seq for report in reports]).decode()
    yield Statement("add_notices", {"kind": "expired", "seqs": seqs})
    yield from settle(moment, reports)
    return [row[-1] for row in rows]


def _lost(worker: str, beat_at: int, attempt: int, attempts_max: int) -> Change:
    seen = moment_of(beat_at).astimezone(UTC)
    message = f"worker {worker} stopped renewing its lease, last seen {seen:%Y-%m-%d %H:%M:%S} UTC"
    error = JobError(WORKER_LOST, f"{message}, in attempt {attempt} of {attempts_max}")
    data = {"kind": WORKER_LOST, "message": error.message, "attempt": attempt, "attempts_max": attempts_max}
    verb, state = ("fail", State.FAILED) if attempt >= attempts_max else ("expire", State.READY)
    return Change(verb=verb, state=state, reason=error.line, error=error, data=data)


def prune(moment: Moment, before: int, limit: int = PRUNE_BATCH_MAX) -> Op[int]:
    """One batch of jobs that finished before a moment goes, with its events, errors and tags."""
    batch = {"before": before, "limit": limit, "events_max": PRUNE_EVENTS_MAX}
    seqs = (yield Statement("finished_before", batch))[0][0]
    if seqs == "[]":
        return 0
    for verb in _PRUNE:
        yield Statement(verb, {"seqs": seqs, "now": moment.now})
    return len(msgspec.json.decode(seqs))


def forget(moment: Moment) -> Op[None]:
    """Workers that have been gone for an hour, what was left for them to read, and keys whose time is over."""
    clock = {"tick": moment.tick, "boot": moment.boot}
    yield Statement("forget_workers", {**clock, "before": moment.now - _FORGET_WORKERS_AFTER})
    yield Statement("forget_notices")
    yield Statement("forget_keys", {"now": moment.now})


def next_due() -> Op[int | None]:
    """When the next scheduled job is due, in wall microseconds."""
    due: int | None = (yield Statement("next_due"))[0][0]
    return due
