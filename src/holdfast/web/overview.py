"""How things stand, over HTTP: tasks, workers, counts."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from typing_extensions import TypedDict

from holdfast.domain.job import moment_of
from holdfast.registry import AnyTask
from holdfast.store import browse, queues
from holdfast.store.op import Row
from holdfast.web.dependencies import Reader, TheApp
from holdfast.web.documents import Json, Moment
from holdfast.web.problem import Problem
from holdfast.web.reach import tasks_of

router = APIRouter(tags=["overview"])


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
