"""Queues as they stand: how many jobs are in which state, what bounds each queue, and what keeps its jobs from starting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from holdfast.domain.estimate import estimated_wait
from holdfast.domain.flow import Flow, Memory
from holdfast.domain.job import moment_of
from holdfast.domain.limits import NEVER, NO_LIMITS, options_of
from holdfast.domain.queue import BreakerStatus, Queue, QueueBlock, QueuePause
from holdfast.domain.states import State
from holdfast.store.flow import look
from holdfast.store.health import WorkerLoad, loads
from holdfast.store.op import Moment, Op, Row, Statement
from holdfast.store.queue_settings import QueueChange, changes

_FIELDS: Final = {State.SUCCEEDED.value: "processed"}
"""Where a count goes that is not called as the state is."""

Counts = dict[str, dict[str, int]]


class _Facts(NamedTuple):
    """What is known of all queues, each part by the queue's name."""

    counts: Counts
    settings: Mapping[str, Row]
    flows: Mapping[str, Flow]
    log: Mapping[str, list[QueueChange]]
    """Of those that are paused."""
    averages: Mapping[str, float]
    revisions: Mapping[str, int]
    workers: list[WorkerLoad]


def queues(moment: Moment) -> Op[list[Queue]]:
    """Every queue that ever had a job, or was declared, changed or paused; by name."""
    counted, settings, ran, revised, workers = yield [
        Statement("queues"),
        Statement("queue_settings"),
        Statement("queue_run_times"),
        Statement("queue_revisions"),
        loads(moment),
    ]
    counts = _by_queue(counted, settings)
    running = {name: fields.get("running", 0) for name, fields in counts.items()}
    flows = {name: Flow(NO_LIMITS, Memory(), moment.now, running[name]) for name in counts}
    flows.update((yield from look(moment, settings, running)))
    log: dict[str, list[QueueChange]] = {}
    for name, flow in flows.items():
        if any(block.kind == "paused" for block in flow.blocks()):
            log[name] = yield from changes(name)
    facts = _Facts(
        counts,
        {row[0]: row for row in settings},
        flows,
        log,
        {name: micros / jobs / 1e6 for name, jobs, micros in ran},
        dict(revised),
        [each for each in map(WorkerLoad.of, workers) if not each.by_hand],
    )
    return [_queue(name, facts) for name in sorted(counts)]


def stats(may_see: Callable[[str], bool] = lambda _: True) -> Op[Counts]:
    """Task -> state -> how many jobs, in the queues that `may_see` allows."""
    counts: Counts = {}
    for queue, task, state, jobs in (yield Statement("queues")):
        if state is not None and may_see(queue):
            states = counts.setdefault(task, {})
            states[state] = states.get(state, 0) + jobs
    return dict(sorted(counts.items()))


def _by_queue(counted: list[Row], settings: list[Row]) -> Counts:
    counts: Counts = {row[0]: {} for row in settings}
    for queue, _, state, jobs in counted:
        fields = counts.setdefault(queue, {})
        if state is not None:
            field = _FIELDS.get(state) or state
            fields[field] = fields.get(field, 0) + jobs
    return counts


def _queue(name: str, facts: _Facts) -> Queue:
    counts, flow = facts.counts[name], facts.flows[name]
    _, declared, live, *_ = facts.settings.get(name, (name, None, None))
    serving = [worker for worker in facts.workers if worker.serves(name)]
    average, ready = facts.averages.get(name), counts.get("ready", 0)
    return Queue(
        name,
        depth=ready + counts.get("scheduled", 0),
        max_depth=flow.limits.max_depth,
        **counts,
        workers=len(serving),
        average_seconds=None if average is None else round(average, 6),
        estimated_wait=estimated_wait(flow, ready, sum(worker.slots for worker in serving), average),
        paused=_pause(flow, facts.log.get(name, [])),
        breaker=_breaker(flow),
        blocks=tuple(QueueBlock(block.kind, _time(block.until)) for block in flow.blocks()),
        limits=flow.limits,
        declared=options_of(declared),
        live=options_of(live),
        change_count=facts.revisions.get(name, 0),
    )


def _pause(flow: Flow, log: list[QueueChange]) -> QueuePause | None:
    """Who, when and why, as the log has it: a pause by hand, or one that is part of the limits."""
    block = next((block for block in flow.blocks() if block.kind == "paused"), None)
    if block is None:
        return None
    entry = next((each for each in log if _pauses(each, by_hand=flow.pause is not None)), None)
    if entry is None:
        return QueuePause(_time(block.until), by=None, since=None)
    return QueuePause(_time(block.until), entry.actor, entry.at, entry.detail.get("reason", ""))


def _pauses(entry: QueueChange, *, by_hand: bool) -> bool:
    return entry.action == "paused" if by_hand else entry.action in ("declared", "changed") and bool(entry.detail.get("paused"))


def _breaker(flow: Flow) -> BreakerStatus | None:
    until, failures = flow.memory.open_until, len(flow.memory.failed)
    if not until:
        return None if flow.limits.breaker is None else BreakerStatus("closed", failures, None)
    return BreakerStatus("open", failures, moment_of(until)) if until > flow.now else BreakerStatus("half-open", failures, None)


def _time(until: int) -> datetime | None:
    return None if until == NEVER else moment_of(until)
