"""`/healthz`: 200 while jobs get done, 503 with the reasons when they do not. It reads a few rows, and writes nothing.

Where it is open to all, who shows no key learns only which of the two it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final, NotRequired

from fastapi import APIRouter, Request
from fastapi.responses import Response
from typing_extensions import TypedDict

from holdfast.app import Holdfast
from holdfast.domain.callback import CALLBACK_TASK
from holdfast.errors import StoreUnavailable
from holdfast.store.health import Snapshot, Stall, stalls, standing
from holdfast.web.access import Caller, Scope
from holdfast.web.dependencies import TheApp, TheSettings
from holdfast.web.documents import Json
from holdfast.web.lifespan import tenure_of
from holdfast.web.problem import Problem

router = APIRouter(tags=["overview"])

ANSWER_SECONDS: Final = 2.0
"""How long the store may take."""
REASONS_MAX: Final = 20


class HealthDocument(TypedDict):
    """`workers` are those that live, `running` the jobs that they have, `waiting_seconds` since when the next job is ready."""

    status: str
    workers: NotRequired[int]
    running: NotRequired[int]
    waiting_seconds: NotRequired[float]


@router.get("/healthz", summary="See whether jobs get done", responses={200: {"model": HealthDocument}, 503: {}})
async def see_whether_jobs_get_done(request: Request, app: TheApp, settings: TheSettings) -> Response:
    """503 if the database does not answer, or if jobs wait that somebody should have started."""
    caller = getattr(request.state, "caller", None)
    known = isinstance(caller, Caller) and caller.may(Scope.READ)
    found = await _question(request).ask(app)
    if isinstance(found, str):
        raise _unavailable([found], caller if known else None)
    reasons = list(_complaints(app, found, settings.stalled_seconds))
    if reasons:
        raise _unavailable(reasons, caller if known else None)
    return Json(_facts(found) if known else {"status": "ok"})


class Question:
    """One at a time, however many ask us: those that come meanwhile get the same answer."""

    def __init__(self) -> None:
        self._asking: asyncio.Task[Snapshot] | None = None

    async def ask(self, app: Holdfast) -> Snapshot | str:
        """How things stand; or why nobody knows."""
        task = self._asking
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = self._asking = asyncio.create_task(_read(app))
            task.add_done_callback(_look)
        await asyncio.wait([task], timeout=ANSWER_SECONDS)
        if not task.done():
            return f"the database has not answered for {ANSWER_SECONDS:g} s"
        try:
            return task.result()
        except StoreUnavailable as error:
            return str(error)


async def _read(app: Holdfast) -> Snapshot:
    return await app.store.aread(standing)


def _look(task: asyncio.Task[Snapshot]) -> None:
    """An error that came too late for everybody who asked is no news."""
    if not task.cancelled():
        task.exception()


def _question(request: Request) -> Question:
    state = request.app.state
    if not hasattr(state, "health"):
        state.health = Question()
    question: Question = state.health
    return question


def _complaints(app: Holdfast, found: Snapshot, seconds: float) -> Iterator[str | Stall]:
    tenure = tenure_of(app)
    if tenure is not None:
        quiet, lease = tenure.worker.quiet_seconds, tenure.worker.lease_seconds
        if quiet is not None and quiet > lease:
            yield f"the worker in this process has given no sign of life for {quiet:.0f} s; its lease is {lease:g} s"
        elif quiet is None and tenure.failure is not None:
            yield f"the worker in this process does not start: {tenure.failure}"
    yield from stalls(found, seconds, _tasks(app))


def _tasks(app: Holdfast) -> frozenset[str] | None:
    """What this app knows of; for others' jobs others must care. An app without tasks is for looking at all of them."""
    return frozenset({*app.tasks, CALLBACK_TASK}) if app.tasks else None


def _unavailable(reasons: Sequence[str | Stall], caller: Caller | None) -> Problem:
    if caller is None:
        return Problem(503, "unavailable")
    told = [_said(reason, caller) for reason in reasons[:REASONS_MAX]]
    return Problem(503, "; ".join(each["reason"] for each in told), extra={"reasons": told})


def _said(reason: str | Stall, caller: Caller) -> dict[str, Any]:
    if isinstance(reason, str):
        return {"reason": reason}
    if reason.queue is None:
        return {"reason": reason.reason, "seconds": reason.seconds}
    if not caller.may_see(reason.queue):
        return {"reason": "a job waits in a queue that your key does not show", "seconds": reason.seconds}
    text = f"job {reason.id} ({reason.task}) has been ready for {reason.seconds:.0f} s: {reason.reason}"
    return {**reason._asdict(), "reason": text}


def _facts(found: Snapshot) -> HealthDocument:
    return {
        "status": "ok",
        "workers": len(found.workers),
        "running": sum(duty.running for duty in found.duties),
        "waiting_seconds": max((head.waited_seconds for head in found.heads), default=0.0),
    }
