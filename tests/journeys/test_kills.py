"""SIGKILL: whatever a worker held when it died is finished by others, or ends with the reason."""

from __future__ import annotations

import os
import signal
import time

from holdfast import Job, State
from holdfast.domain.bounds import EXPIRE_BATCH_MAX
from holdfast.store import claim, workers
from holdfast.store.op import Moment, Op
from tests.journeys import tasks
from tests.journeys.scene import Scene
from tests.until import until

LEASE = 0.6
RECOVERY = LEASE + 2.0


def test_a_living_worker_finishes_what_a_killed_one_began(scene: Scene) -> None:
    first = scene.worker("first", lease=LEASE)
    job = scene.enqueue(tasks.awaiting, "work", 60.0, 0.0)
    scene.await_line("start", "work")
    scene.worker("second", lease=LEASE)  # up before the kill: nobody has to boot for it
    killed_at = time.monotonic_ns()
    first.kill()
    again = scene.await_line("start", "work", count=2)
    assert (again.at - killed_at) / 1e9 < RECOVERY
    ended = scene.app.wait(job.id, timeout=10)
    assert (ended.state, ended.attempt, ended.result) == (State.SUCCEEDED, 2, 2)
    assert scene.kinds(job) == ["enqueued", "started", "expired", "started", "succeeded"]
    assert [error.kind for error in ended.errors] == ["WorkerLost"]
    assert f"pid {first.pid}" in ended.errors[0].message


def test_every_living_worker_looks_after_the_dead(scene: Scene) -> None:
    """Three die one after the other, each having taken over from the last."""
    job = scene.enqueue(tasks.awaiting, "work", 1.0, attempts=10)
    for number in range(3):
        worker = scene.worker(f"worker-{number}", lease=LEASE)
        line = scene.await_line("start", "work", count=number + 1)
        assert line.pid == worker.pid
        worker.kill()
    scene.worker("last", lease=LEASE)
    assert scene.app.wait(job.id, timeout=20).attempt == 4


def test_a_job_that_kills_its_worker_is_started_as_often_as_it_may_be(scene: Scene) -> None:
    job = scene.enqueue(tasks.deadly, "poison")
    for _ in range(3):
        worker = scene.worker("victim", lease=LEASE)
        assert worker.wait() == -signal.SIGKILL
    scene.worker("survivor", lease=LEASE)
    ended = scene.app.wait(job.id, timeout=10)
    assert ended.state is State.FAILED
    assert len(scene.lines("start", "poison")) == ended.attempt == ended.attempts_max == 3
    assert ended.error is not None
    assert ended.error.startswith("WorkerLost: worker victim")
    assert "attempt 3 of 3" in ended.error
    assert [error.attempt for error in ended.errors] == [1, 2, 3]


def test_a_job_whose_process_dies_does_not_take_its_worker_along(scene: Scene) -> None:
    worker = scene.worker("strong", lease=LEASE)
    job = scene.enqueue(tasks.apart, "child", 30.0)
    line = scene.await_line("start", "child")
    assert line.pid != worker.pid
    os.kill(line.pid, signal.SIGKILL)
    scene.await_line("start", "child", count=2)
    assert worker.alive
    assert scene.job(job).errors[0].kind == "ProcessDied"
    assert "signal 9" in scene.job(job).errors[0].message


def test_killed_between_the_claim_and_the_start(scene: Scene) -> None:
    job = scene.enqueue(tasks.quick, "work")
    worker = scene.start("worker", name="brief", lease=LEASE, dies_after_claim=True)
    assert worker.wait() == -signal.SIGKILL
    assert scene.lines("start", "work") == []
    assert (scene.job(job).state, scene.job(job).attempt) == (State.RUNNING, 1)
    scene.worker("other", lease=LEASE)
    ended = scene.app.wait(job.id, timeout=RECOVERY + 2)
    assert (ended.state, ended.attempt, ended.result) == (State.SUCCEEDED, 2, 2)


def test_a_worker_with_a_dead_ones_name_does_not_keep_its_jobs_alive(scene: Scene) -> None:
    first = scene.worker("pod-0", lease=LEASE)
    job = scene.enqueue(tasks.awaiting, "work", 60.0, 0.0)
    scene.await_line("start", "work")
    first.kill()
    killed_at = time.monotonic_ns()
    second = scene.worker("pod-0", lease=LEASE)
    again = scene.await_line("start", "work", count=2)
    assert again.pid == second.pid
    assert (again.at - killed_at) / 1e9 < RECOVERY
    assert scene.app.wait(job.id, timeout=10).state is State.SUCCEEDED


def test_an_expired_row_is_found_behind_any_number_of_living_ones(scene: Scene) -> None:
    """River #1258: rows that cannot be rescued must not hide one that can."""
    count = 10_001
    assert count > EXPIRE_BATCH_MAX
    scene.app.enqueue_many(tasks.nothing.using(queue="elsewhere").bind(number) for number in range(count))
    _hold(scene, "alive", count, beats_until=2**60)
    lost = scene.enqueue(tasks.quick, "lost", queue="here")
    _hold(scene, "dead", 1, beats_until=0)
    assert scene.query("SELECT count(*) FROM holdfast_running") == [(count + 1,)]
    scene.worker("finder", lease=LEASE, queues=["here"])
    ended = scene.app.wait(lost.id, timeout=RECOVERY + 2)
    assert (ended.state, ended.attempt) == (State.SUCCEEDED, 2)
    assert scene.query("SELECT count(*) FROM holdfast_running") == [(count,)]


def _hold(scene: Scene, name: str, count: int, beats_until: int) -> None:
    def make(moment: Moment) -> Op[None]:
        beaten = moment._replace(tick=beats_until)
        worker = yield from workers.register(beaten, name, "host", 1, 500_000, by_hand=False)
        lanes = yield from claim.ready_lanes(moment, None, None)
        claimed = yield from claim.claim(moment, claim.Holder(worker, name, 500_000), lanes, count)
        assert len(claimed.jobs) == count

    scene.app.store.write(make)


def test_jobs_of_a_dead_worker_come_back_together(scene: Scene) -> None:
    """A worker with many slots dies: all that it held is found in one look, not one by one."""
    count = 64
    first = scene.worker("first", lease=LEASE, concurrency=count)
    jobs: list[Job] = [scene.enqueue(tasks.awaiting, f"work-{number}", 60.0) for number in range(count)]
    until(lambda: all(scene.job(job).state is State.RUNNING for job in jobs), "all run")
    scene.worker("second", lease=LEASE, concurrency=count)
    killed_at = time.monotonic()
    first.kill()
    until(lambda: all(scene.job(job).attempt == 2 for job in jobs), "all run again", seconds=RECOVERY + 2)
    assert time.monotonic() - killed_at < RECOVERY + 1
