"""Timeouts and cancelling: code that can be stopped is stopped, code that cannot is left behind, and its slot is free."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast import State
from tests.journeys import tasks
from tests.journeys.scene import AnyTask, Scene
from tests.until import until

LEASE = 1.0


@pytest.mark.parametrize("task", [tasks.timed_awaiting, tasks.timed_deaf, tasks.timed_apart])
def test_a_job_past_its_timeout_fails_and_frees_its_slot(scene: Scene, task: AnyTask) -> None:
    worker = scene.worker("only", lease=LEASE, concurrency=1)
    job = scene.enqueue(task, "long", 15.0)
    start = scene.await_line("start", "long")
    ended = scene.app.wait(job.id, timeout=10)
    assert (ended.state, ended.error) == (
        State.FAILED,
        f"TimeoutError: it ran longer than its timeout of {tasks.TIMEOUT_SECONDS:g} s",
    )
    following = scene.enqueue(tasks.quick, "following")
    assert scene.app.wait(following.id, timeout=10).state is State.SUCCEEDED
    assert scene.lines("end", "long") == []
    if task is tasks.timed_awaiting:
        assert scene.lines("told", "long")[0].error == "CancelledError"
    elif task is tasks.timed_apart:
        until(lambda: not _alive(start.pid), "its process is gone")
    else:
        assert "its code is left behind" in worker.log
        assert job.id in worker.log


@pytest.mark.parametrize("task", [tasks.awaiting, tasks.polite, tasks.apart])
def test_a_running_job_that_is_cancelled_stops(scene: Scene, task: AnyTask) -> None:
    scene.worker("only", lease=LEASE, concurrency=1)
    job = scene.enqueue(task, "long", 60.0)
    start = scene.await_line("start", "long")
    cancelled = scene.app.cancel(job.id, "not needed any more")
    assert (cancelled.state, cancelled.error) == (State.CANCELLED, "not needed any more")
    if task is tasks.apart:
        until(lambda: not _alive(start.pid), "its process is gone", seconds=3.0)
    else:
        told = scene.await_line("told", "long", seconds=3.0)
        assert told.error == ("LeaseLost" if task is tasks.polite else "CancelledError")
    following = scene.enqueue(tasks.quick, "following")
    assert scene.app.wait(following.id, timeout=10).state is State.SUCCEEDED
    assert scene.job(job).state is State.CANCELLED
    assert scene.kinds(job) == ["enqueued", "started", "cancelled"]


def test_a_thread_that_does_not_listen_is_left_behind_when_its_job_is_cancelled(scene: Scene) -> None:
    worker = scene.worker("only", lease=LEASE, concurrency=1)
    job = scene.enqueue(tasks.deaf, "long", 6.0)
    scene.await_line("start", "long")
    scene.app.cancel(job.id)
    following = scene.enqueue(tasks.quick, "following")
    assert scene.app.wait(following.id, timeout=5).state is State.SUCCEEDED
    assert "its code is left behind" in worker.log
    before = scene.written(job)
    scene.await_line("end", "long")
    scene.await_beats(worker, 2)
    assert scene.written(job) == before


@pytest.mark.parametrize("task", [tasks.quick, tasks.apart])
def test_a_job_that_cannot_be_started_is_not_held_forever(scene: Scene, tmp_path: Path, task: AnyTask) -> None:
    """No thread to be had: the attempt has failed, also where another job's end should have started it."""
    switch = tmp_path / "no-threads"
    switch.touch()
    jobs = [scene.enqueue(tasks.awaiting, f"other-{number}", 0.0) for number in range(200)]
    refused = scene.enqueue(task, "refused", None if task is tasks.quick else 0.0, attempts=1_000)
    jobs += [scene.enqueue(tasks.awaiting, f"more-{number}", 0.0) for number in range(50)]
    worker = scene.worker("poor", lease=LEASE, concurrency=1, no_threads=str(switch))
    for job in jobs:
        assert scene.app.wait(job.id, timeout=10).state is State.SUCCEEDED
    until(lambda: scene.job(refused).errors, "its failure is written down")
    assert "can't start new thread" in scene.job(refused).errors[0].message
    switch.unlink()
    assert scene.app.wait(refused.id, timeout=10).state is State.SUCCEEDED
    assert worker.alive


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
