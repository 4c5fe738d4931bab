"""How things stand, over HTTP: queues, tasks, workers, counts."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Path
from fastapi.responses import Response
from typing_extensions import TypedDict

from holdfast.app import Holdfast
from holdfast.domain.job import moment_of
from holdfast.domain.queue import Queue
from holdfast.registry import AnyTask
from holdfast.store import browse, queues
from holdfast.store.health import WorkerLoad, standing
from holdfast.store.op import Row
from holdfast.web.dependencies import Reader, TheApp
from holdfast.web.documents import Json, Moment
from holdfast.web.new_job import NAME_PATTERN
from holdfast.web.problem import Problem
from holdfast.web.reach import tasks_of

router = APIRouter(tags=["overview"])


class QueueDocument(TypedDict):
    """A queue as it stands. `depth` counts the jobs that are ready; those that ended count until they are pruned.

    `workers` counts the living workers that serve it.
    """

    name: str
    depth: int
    scheduled: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    skipped: int
    workers: int


class QueuesDocument(TypedDict):
    queues: list[QueueDocument]


class StatsDocument(TypedDict):
    """Task → state → how many jobs."""

    stats: dict[str, dict[str, int]]


class WorkerDocument(TypedDict):
    """Somebody who runs jobs, or a loop that claims them by hand."""

    name: str
    host: str
    pid: int
    by_hand: bool
    running: int
    started_at: Moment
    beat_at: Moment


class WorkersDocument(TypedDict):
    workers: list[WorkerDocument]


class TaskDocument(TypedDict):
    """A task: `arguments` is the JSON schema of `kwargs`."""

    name: str
    queue: str
    priority: int
    attempts_max: int
    timeout_seconds: float | None
    signature: str
    description: str | None
    arguments: dict[str, Any]


class TasksDocument(TypedDict):
    tasks: list[TaskDocument]


@router.get("/api/queues", summary="List queues", responses={200: {"model": QueuesDocument}})
async def list_queues(app: TheApp, caller: Reader) -> Response:
    """Every queue that ever had a job."""
    return Json({"queues": [queue for queue in await _queues(app) if caller.may_see(queue["name"])]})


@router.get("/api/queues/{name}", summary="Look at a queue", responses={200: {"model": QueueDocument}, 404: {}})
async def look_at_a_queue(name: Annotated[str, Path(pattern=NAME_PATTERN)], app: TheApp, caller: Reader) -> Response:
    """How many of its jobs are where."""
    found = next((queue for queue in await _queues(app) if queue["name"] == name), None)
    if found is None or not caller.may_see(name):
        raise Problem(404, f"there is no queue {name!r}: no job was ever put into it")
    return Json(found)


@router.get("/api/stats", summary="Count jobs", responses={200: {"model": StatsDocument}})
async def count_jobs(app: TheApp, caller: Reader) -> Response:
    """By task and state."""
    return Json({"stats": await app.store.aread(lambda _: queues.stats(caller.may_see))})


@router.get("/api/workers", summary="List workers", responses={200: {"model": WorkersDocument}, 403: {}})
async def list_workers(app: TheApp, caller: Reader) -> Response:
    """Who is alive, or was until a moment ago."""
    if caller.queues is not None:
        raise Problem(403, "your key is for some queues only, and a worker is for more than that")
    return Json({"workers": [_worker(row) for row in await app.store.aread(lambda _: browse.workers())]})


@router.get("/api/tasks", summary="List tasks", responses={200: {"model": TasksDocument}})
async def list_tasks(app: TheApp, caller: Reader) -> Response:
    """What can be asked for, and with which arguments."""
    return Json({"tasks": [_task(task) for task in tasks_of(app, caller)]})


async def _queues(app: Holdfast) -> list[dict[str, Any]]:
    """With the workers of each, from what /healthz reads."""
    workers = (await app.store.aread(standing)).workers
    return [_queue(queue, workers) for queue in await app.aqueues()]


def _queue(queue: Queue, workers: list[WorkerLoad]) -> dict[str, Any]:
    serving = sum(worker.serves(queue.name) for worker in workers)
    return {**msgspec.to_builtins(queue), "workers": serving}


def _worker(row: Row) -> WorkerDocument:
    _, name, host, pid, by_hand, started_at, beat_at, running = row
    return {
        "name": name,
        "host": host,
        "pid": pid,
        "by_hand": bool(by_hand),
        "running": running,
        "started_at": moment_of(started_at).isoformat(),
        "beat_at": moment_of(beat_at).isoformat(),
    }


def _task(task: AnyTask) -> TaskDocument:
    return {
        "name": task.name,
        "queue": task.queue,
        "priority": task.options.priority,
        "attempts_max": task.options.attempts,
        "timeout_seconds": task.timeout_seconds,
        "signature": task.signature.text,
        "description": task.__doc__,
        "arguments": task.signature.json_schema(),
    }
