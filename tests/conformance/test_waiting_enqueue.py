"""An enqueue that waits for room in a full queue, on every store, with a real worker that makes room."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Holdfast, Job, QueueFull, SettingError, Task
from tests.conformance.world import STORES, World
from tests.until import PATIENCE, until
from tests.workers import working

Enqueue = Callable[["Task[Callable[[int], None]]", int], Job]
BOTH = pytest.mark.parametrize(
    "enqueue",
    [lambda task, number: task.enqueue(number), lambda task, number: asyncio.run(task.aenqueue(number))],
    ids=["sync", "async"],
)


@pytest.fixture(params=sorted(STORES))
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    """By the real clock: leases of a real worker run by it."""
    world: World = STORES[request.param](tmp_path)
    try:
        with Holdfast(world.url) as made:
            made.queue("default", max_depth=2)
            yield made
    finally:
        world.close()


@BOTH
def test_d1_it_waits_until_a_worker_has_made_room(app: Holdfast, enqueue: Enqueue) -> None:
    go = threading.Semaphore(0)

    @app.task
    def hold(number: int) -> None:
        go.acquire(timeout=PATIENCE)

    with working(app, concurrency=1):
        hold.enqueue(0)
        until(lambda: app.queues()[0].running == 1, "the worker takes the first job")
        hold.enqueue(1)
        hold.enqueue(2)
        accepted: list[Job] = []
        waiting = threading.Thread(target=lambda: accepted.append(enqueue(hold.using(wait=PATIENCE), 3)))
        with pytest.raises(QueueFull):
            hold.enqueue(3)
        waiting.start()
        assert not accepted
        go.release()
        waiting.join(PATIENCE)
        assert len(accepted) == 1
        assert app.queues()[0].depth == 2
        go.release(3)
        for job in accepted:
            app.wait(job, PATIENCE)


@BOTH
def test_d1_it_is_refused_when_the_time_is_up(app: Holdfast, enqueue: Enqueue) -> None:
    @app.task
    def hold(number: int) -> None: ...

    app.enqueue_many(map(hold.bind, range(2)))
    with pytest.raises(QueueFull, match="queue default is full: 2 of 2 jobs wait"):
        enqueue(hold.using(wait=0.05), 3)  # blocks on purpose
    assert app.queues()[0].depth == 2


@pytest.mark.parametrize("wait", [0, -1, float("nan"), "soon"])
def test_a_wait_that_makes_no_sense_is_refused(app: Holdfast, wait: float) -> None:
    @app.task
    def hold(number: int) -> None: ...

    with pytest.raises(SettingError, match=r"^wait "):
        hold.using(wait=wait)


def test_many_jobs_do_not_wait_and_say_so(app: Holdfast) -> None:
    @app.task
    def hold(number: int) -> None: ...

    with pytest.raises(SettingError, match="wait=5 is for single jobs"):
        app.enqueue_many(map(hold.using(wait=5).bind, range(3)))
    assert app.jobs() == []
