"""Coroutine functions in one event loop: what a job leaves on its task must not reach the next, nor may it keep the loop."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.testing import ManualClock
from holdfast.worker.desk import Run
from holdfast.worker.timing import LOOP_TURN_SECONDS

LONG = 20.0
MANY = 300
"""A worker takes jobs ahead, so that one follows the other at once, when it has seen some."""
marked: ContextVar[str] = ContextVar("marked", default="by nobody")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{tmp_path}/jobs.db", clock=ManualClock()) as app:
        yield app


async def drain(app: Holdfast) -> None:
    await asyncio.wait_for(app.worker(concurrency=1).arun_until_empty(), LONG)


def results(app: Holdfast) -> list[object]:
    return [job.result for job in app.jobs(newest=False, limit=MANY)]


@pytest.mark.parametrize("waits", [False, True])
def test_a_context_variable_of_one_job_is_not_seen_by_the_next(app: Holdfast, waits: bool) -> None:
    @app.task
    async def mark(number: int) -> str:
        before = marked.get()
        marked.set(f"by {number}")
        if waits:
            await asyncio.sleep(0)
        return before

    app.enqueue_many(mark.bind(number) for number in range(MANY))
    asyncio.run(drain(app))
    assert results(app) == ["by nobody"] * MANY


def test_a_run_that_has_ended_does_not_wait_for_the_garbage_collector(app: Holdfast) -> None:
    @app.task
    async def noop() -> None: ...

    app.enqueue_many(noop.bind() for _ in range(MANY))
    gc.collect()
    before = runs_in_memory()  # other tests of the process may have left some
    gc.disable()
    try:
        asyncio.run(drain(app))
        left = runs_in_memory() - before
    finally:
        gc.enable()
    assert left < MANY / 2


def runs_in_memory() -> int:
    return sum(isinstance(each, Run) for each in gc.get_objects())


def test_a_job_that_cancels_its_own_task_and_returns_does_not_cancel_the_next(app: Holdfast) -> None:
    @app.task
    async def cancel() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    @app.task
    async def wait() -> int:
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    app.enqueue_many(job for _ in range(MANY // 2) for job in (cancel.bind(), wait.bind()))
    asyncio.run(drain(app))
    assert results(app) == ["done", 0] * (MANY // 2)


@pytest.mark.parametrize("waits", [False, True])
def test_every_job_has_a_task_of_its_own_that_is_named_after_it(app: Holdfast, waits: bool) -> None:
    seen: list[asyncio.Task[object] | None] = []
    names: list[str] = []

    @app.task(name="seen")
    async def see() -> None:
        task = asyncio.current_task()
        assert task is not None
        seen.append(task)
        names.append(task.get_name())
        if waits:
            await asyncio.sleep(0)

    batch = app.enqueue_many(see.bind() for _ in range(MANY))
    asyncio.run(drain(app))
    assert len(set(seen)) == MANY
    assert names == [f"job {id} (seen)" for id in batch.ids]


def test_jobs_that_never_wait_leave_the_loop_to_others_in_between(app: Holdfast) -> None:
    turns = 0
    at: list[int] = []

    @app.task
    async def spin() -> None:
        at.append(turns)
        until = time.monotonic() + 2 * LOOP_TURN_SECONDS
        while time.monotonic() < until:
            pass

    async def main() -> None:
        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await drain(app)
        counting.cancel()

    app.enqueue_many(spin.bind() for _ in range(MANY))
    asyncio.run(main())
    assert len(set(at)) == MANY, "the loop came to nothing else between two jobs"


def eager(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
    if sys.version_info >= (3, 12):
        options["eager_start"] = True
    return asyncio.Task(work, loop=loop, **options)


def plain(loop: asyncio.AbstractEventLoop, work: Any) -> asyncio.Task[Any]:
    """As people wrote it before tasks had other options."""
    return asyncio.Task(work, loop=loop)


@pytest.mark.parametrize("factory", [eager, plain])
@pytest.mark.parametrize("waits", [False, True])
def test_whatever_way_a_loop_makes_tasks_every_job_runs_once_and_none_inside_another(
    app: Holdfast, monkeypatch: pytest.MonkeyPatch, factory: Any, waits: bool
) -> None:
    monkeypatch.setattr("holdfast.worker.loops.LOOP_TURN_SECONDS", 0.0)
    running = 0
    most = 0
    outside = len(inspect.stack(0))

    @app.task
    async def work() -> int:
        nonlocal running, most
        running += 1
        most = max(most, running, len(inspect.stack(0)) - outside)
        if waits:
            await asyncio.sleep(0)
        running -= 1
        return running

    async def main() -> None:
        asyncio.get_running_loop().set_task_factory(factory)
        await drain(app)

    app.enqueue_many(work.bind() for _ in range(MANY))
    asyncio.run(main())
    assert results(app) == [0] * MANY
    assert most < 30, "one job was started inside another"


def test_the_context_variables_of_who_runs_the_worker_are_not_the_jobs(app: Holdfast) -> None:
    @app.task
    async def look() -> str:
        return marked.get()

    async def main() -> None:
        marked.set("by who runs the worker")
        await drain(app)

    app.enqueue_many(look.bind() for _ in range(3))
    asyncio.run(main())
    assert results(app) == ["by nobody"] * 3
