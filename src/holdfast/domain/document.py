"""Jobs, their events and queues as plain JSON data, without their secrets: the same names over HTTP and at a prompt."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdfast.domain.event import Event
from holdfast.domain.job import Attempt, Job
from holdfast.domain.limits import shown
from holdfast.domain.queue import Queue
from holdfast.domain.secret import redact


def job_document(job: Job) -> dict[str, Any]:
    """Everything about a job, with the names of the API."""
    return {
        "id": job.id,
        "handle": job.handle,
        "task": job.task,
        "queue": job.queue,
        "state": str(job.state),
        "priority": job.priority,
        "attempt": job.attempt,
        "attempts_max": job.attempts_max,
        "token": job.token,
        "event_count": job.event_count,
        "arguments": job.shown_arguments,
        "result": job.shown_result,
        "error": job.error,
        "errors": [attempt_document(attempt) for attempt in job.errors],
        "progress": redact(job.progress),
        "meter": job.meter,
        "key": None if job.key is None else list(job.key),
        "tags": list(job.tags),
        "meta": redact(job.meta),
        "parent": job.parent,
        "callback": job.callback,
        "callback_status": job.callback_status,
        "created_at": iso(job.created_at),
        "run_after": iso(job.run_after),
        "started_at": iso(job.started_at),
        "finished_at": iso(job.finished_at),
    }


def attempt_document(attempt: Attempt) -> dict[str, Any]:
    return {
        "at": iso(attempt.at),
        "attempt": attempt.attempt,
        "kind": attempt.kind,
        "message": attempt.message,
        "traceback": attempt.traceback,
    }


def event_document(event: Event) -> dict[str, Any]:
    return {"job": event.job, "number": event.number, "kind": event.kind, "at": iso(event.at), "data": redact(event.data)}


def queue_document(queue: Queue) -> dict[str, Any]:
    """Everything about a queue; limits by the names of `app.queue`."""
    pause, breaker = queue.paused, queue.breaker
    return {
        "name": queue.name,
        "depth": queue.depth,
        "max_depth": queue.max_depth,
        "ready": queue.ready,
        "scheduled": queue.scheduled,
        "running": queue.running,
        "processed": queue.processed,
        "failed": queue.failed,
        "cancelled": queue.cancelled,
        "skipped": queue.skipped,
        "workers": queue.workers,
        "average_seconds": queue.average_seconds,
        "estimated_wait": queue.estimated_wait,
        "paused": None
        if pause is None
        else {"until": iso(pause.until), "by": pause.by, "since": iso(pause.since), "reason": pause.reason},
        "breaker": None
        if breaker is None
        else {"state": breaker.state, "failures": breaker.failures, "until": iso(breaker.until)},
        "blocks": [{"kind": block.kind, "until": iso(block.until)} for block in queue.blocks],
        "limits": shown(queue.limits),
        "declared": queue.declared,
        "live": queue.live,
        "change_count": queue.change_count,
    }


def iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
