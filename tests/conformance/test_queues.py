"""How things stand, queue by queue; and a move that is made only if the job has not moved on."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Changed, Conflict, JobNotFound, Queue, State
from tests.conformance.world import REACHABLE, World


def test_every_job_is_counted_in_its_queue_under_its_state(store: World) -> None:
    for state in REACHABLE:
        job = store.job_in(state)
        assert store.state(job) is state
    store.once.using(queue="for-ready").enqueue("another task in the same queue")
    found = {queue.name: queue for queue in store.app.queues()}
    assert found == {
        "default": Queue("default", scheduled=1),
        "for-ready": Queue("for-ready", depth=2),
        "for-running": Queue("for-running", running=1),
        "for-succeeded": Queue("for-succeeded", succeeded=1),
        "for-failed": Queue("for-failed", failed=1),
        "for-cancelled": Queue("for-cancelled", cancelled=1),
        "for-skipped": Queue("for-skipped", skipped=1),
    }
    assert asyncio.run(store.app.aqueues()) == store.app.queues()


def test_a_queue_stays_when_its_jobs_are_gone(store: World) -> None:
    store.app.delete(store.add.enqueue(1))
    assert store.app.queues() == [Queue("default")]


def test_a_job_that_has_not_moved_on_can_be_acted_on(store: World) -> None:
    job = store.add.enqueue(1)
    assert store.app.cancel(job.id, event_count=1).state is State.CANCELLED
    assert store.app.retry(job.id, event_count=2).state is State.READY
    assert store.app.skip(job.id, "not needed", event_count=3).state is State.SKIPPED
    store.app.delete(job.id, event_count=4)
    assert store.app.get(job.id) is None


def test_one_that_has_moved_on_is_left_as_it_is(store: World) -> None:
    job = store.app.cancel(store.add.enqueue(1))
    before = store.everything()
    for act in (
        lambda: store.app.cancel(job.id, event_count=1),
        lambda: store.app.skip(job.id, "not needed", event_count=1),
        lambda: store.app.retry(job.id, event_count=1),
        lambda: store.app.delete(job.id, event_count=3),
        lambda: asyncio.run(store.app.acancel(job.id, event_count=1)),
        lambda: asyncio.run(store.app.askip(job.id, "not needed", event_count=1)),
        lambda: asyncio.run(store.app.aretry(job.id, event_count=1)),
        lambda: asyncio.run(store.app.adelete(job.id, event_count=1)),
    ):
        with pytest.raises(Changed, match=r"is cancelled and has 2 events, not \d: it has moved on"):
            act()
    assert store.everything() == before
    assert issubclass(Changed, Conflict)


def test_one_that_is_gone_is_not_found_however_many_events_were_expected(store: World) -> None:
    with pytest.raises(JobNotFound):
        store.app.cancel("never", event_count=1)
