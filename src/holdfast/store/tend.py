"""What any living worker does for all: promote what is due, take back what dead workers held, forget what is old."""

from __future__ import annotations

from datetime import UTC
from typing import Final

import msgspec

from holdfast.domain.bounds import EXPIRE_BATCH_MAX, PROMOTE_BATCH_MAX, PRUNE_BATCH_MAX, PRUNE_EVENTS_MAX
from holdfast.domain.job import moment_of
from holdfast.domain.message import NOTHING_HIDDEN
from holdfast.domain.outcome import Lost
from holdfast.domain.outcome import settle as decide
from holdfast.domain.retry import Retry
from holdfast.store.moves import DELETES
from holdfast.store.op import Moment, Op, Row, Statement, json_of
from holdfast.store.settle import Report, settle

_FORGET_WORKERS_AFTER: Final = 3600 * 1_000_000
_PRUNES: Final = ("delete_finished", "outlive_keys", "free_ended_keys", *DELETES)


def promote(moment: Moment) -> Op[int]:
    """Scheduled jobs whose time has come become ready."""
    due = {"now": moment.now, "limit": PROMOTE_BATCH_MAX}
    seqs = (yield Statement("due_jobs", due))[0][0]
    if seqs == "[]":
        return 0
    every = {"now": moment.now, "seqs": seqs}
    for verb in ("take_due_jobs", "promote_jobs", "record_promoted", "ready_jobs"):
        yield Statement(verb, every)
    return len(msgspec.json.decode(seqs))


def expire(moment: Moment) -> Op[list[str]]:
    """Jobs whose holder stopped renewing: ready again, or failed where their attempts are used up. Their ids."""
    if not (yield Statement("stale_workers", moment.clocks)):
        return []
    rows = yield Statement("expired_claims", {**moment.clocks, "limit": EXPIRE_BATCH_MAX})
    if not rows:
        return []
    reports = [_lost(row) for row in rows]
    yield Statement("add_notices", {"kind": "expired", "seqs": json_of([report.seq for report in reports])})
    yield from settle(moment, reports, None)
    return [row[-1] for row in rows]


def _lost(row: Row) -> Report:
    seq, token, lane, name, host, pid, beat_at, attempt, attempts_max, callback, _ = row
    seen = moment_of(beat_at).astimezone(UTC)
    outcome = Lost(f"worker {name} ({host}, pid {pid}) stopped renewing its lease, last seen {seen:%Y-%m-%d %H:%M:%S} UTC")
    change = decide(attempt, attempts_max, outcome, Retry(), 0.5)
    return Report(seq, token, lane, attempt, change, callback=None if callback is None else NOTHING_HIDDEN)


def prune(moment: Moment, before: int, limit: int = PRUNE_BATCH_MAX) -> Op[int]:
    """One batch of jobs that finished before a moment goes, with its events, errors and tags."""
    batch = {"before": before, "limit": limit, "events_max": PRUNE_EVENTS_MAX}
    seqs = (yield Statement("finished_before", batch))[0][0]
    if seqs == "[]":
        return 0
    for verb in _PRUNES:
        yield Statement(verb, {"seqs": seqs, "now": moment.now})
    return len(msgspec.json.decode(seqs))


def count_old(before: int) -> Op[int]:
    """How many jobs `prune` would remove."""
    count: int = (yield Statement("count_finished_before", {"before": before}))[0][0]
    return count


def forget(moment: Moment) -> Op[None]:
    """Workers that have been gone for an hour, notices that were left for them, and keys whose time is over."""
    yield Statement("forget_workers", {**moment.clocks, "before": moment.now - _FORGET_WORKERS_AFTER})
    yield Statement("forget_notices")
    yield Statement("forget_keys", {"now": moment.now})


def next_due(moment: Moment) -> Op[int | None]:
    """When the next scheduled job is due, or a queue that was closed for a time may open, in wall microseconds."""
    due: int | None = (yield Statement("next_due", {"now": moment.now}))[0][0]
    return due
