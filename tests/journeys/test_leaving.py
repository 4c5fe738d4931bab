"""SIGTERM: a worker finishes what it can and hands back the rest, which costs no attempt."""

from __future__ import annotations

import signal
import time

import pytest

from holdfast import State
from tests.journeys import tasks
from tests.journeys.scene import AnyTask, Scene
from tests.until import until

LEASE = 1.0


def test_what_runs_is_finished_and_nothing_else_is_begun(scene: Scene) -> None:
    worker = scene.worker("leaving", lease=LEASE, concurrency=1)
    running = scene.enqueue(tasks.awaiting, "running", 1.0)
    scene.await_line("start", "running")
    left = scene.enqueue(tasks.quick, "left")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert scene.job(running).state is State.SUCCEEDED
    assert scene.lines("start", "left") == []
    assert (scene.job(left).state, scene.job(left).attempt) == (State.READY, 0)
    assert scene.registered() == {}


@pytest.mark.parametrize("task", [tasks.awaiting, tasks.polite, tasks.deaf, tasks.apart])
def test_what_cannot_be_finished_in_time_is_handed_back_for_nothing(scene: Scene, task: AnyTask) -> None:
    worker = scene.worker("leaving", lease=LEASE, grace=0.3)
    job = scene.enqueue(task, "long", 20.0)
    scene.await_line("start", "long")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    found = scene.job(job)
    assert (found.state, found.attempt, found.errors) == (State.READY, 0, ())
    assert scene.kinds(job) == ["enqueued", "started", "released"]
    assert scene.registered() == {}


def test_a_second_signal_is_quick(scene: Scene) -> None:
    worker = scene.worker("leaving", lease=LEASE, grace=60.0)
    job = scene.enqueue(tasks.polite, "long", 60.0)
    scene.await_line("start", "long")
    worker.signal(signal.SIGTERM)
    until(lambda: "SIGTERM" in worker.log, "it has heard the first")
    asked_at = time.monotonic()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    assert time.monotonic() - asked_at < 3.0
    assert (scene.job(job).state, scene.job(job).attempt) == (State.READY, 0)


def test_handed_back_jobs_are_run_by_the_next_worker_at_once(scene: Scene) -> None:
    worker = scene.worker("leaving", lease=30.0, grace=0.0, concurrency=8)
    jobs = [scene.enqueue(tasks.awaiting, f"work-{number}", 60.0, 0.0, attempts=1) for number in range(8)]
    until(lambda: all(scene.job(job).state is State.RUNNING for job in jobs), "all run")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    scene.worker("next", lease=30.0, concurrency=8)
    for job in jobs:
        ended = scene.app.wait(job.id, timeout=10)
        assert (ended.state, ended.attempt, ended.token) == (State.SUCCEEDED, 1, 2)


def test_killed_while_it_leaves(scene: Scene) -> None:
    worker = scene.worker("leaving", lease=0.6, grace=60.0)
    job = scene.enqueue(tasks.awaiting, "work", 60.0, 0.0)
    scene.await_line("start", "work")
    worker.signal(signal.SIGTERM)
    until(lambda: "SIGTERM" in worker.log, "it has heard")
    worker.kill()
    scene.worker("next", lease=0.6)
    ended = scene.app.wait(job.id, timeout=10)
    assert (ended.state, ended.attempt) == (State.SUCCEEDED, 2)
