"""How things stand, queue by queue; and a move that is made only if the job has not moved on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Breaker, Changed, Conflict, Holdfast, JobNotFound, Lease, Queue, Rate, RetryAfter, State
from holdfast.domain.job import moment_of
from holdfast.domain.queue import BreakerStatus, QueueBlock, QueuePause
from holdfast.store import workers
from tests.conformance.world import REACHABLE, World


def queue_of(store: World, name: str = "default") -> Queue:
    return next(queue for queue in store.app.queues() if queue.name == name)


def kinds(queue: Queue) -> list[str]:
    return [block.kind for block in queue.blocks]


def test_every_job_is_counted_in_its_queue_under_its_state(store: World) -> None:
    for state in REACHABLE:
        job = store.job_in(state)
        assert store.state(job) is state
    store.once.using(queue="for-ready").enqueue("another task in the same queue")
    found = {queue.name: queue for queue in store.app.queues()}
    assert found == {
        "default": Queue("default", depth=1, scheduled=1),
        "for-ready": Queue("for-ready", depth=2, ready=2),
        "for-running": Queue("for-running", running=1),
        "for-succeeded": Queue("for-succeeded", processed=1, average_seconds=0.0),
        "for-failed": Queue("for-failed", failed=1),
        "for-cancelled": Queue("for-cancelled", cancelled=1),
        "for-skipped": Queue("for-skipped", skipped=1),
    }
    assert asyncio.run(store.app.aqueues()) == store.app.queues()


def test_a_queue_stays_when_its_jobs_are_gone(store: World) -> None:
    store.app.delete(store.add.enqueue(1))
    assert store.app.queues() == [Queue("default")]


def test_a_queue_shows_what_bounds_it_and_where_that_comes_from(store: World) -> None:
    store.app.queue("llm", max_depth=50, concurrency=1, gap=10, rate=Rate(60, per=60), breaker=Breaker(2, 15, 300))
    store.app.change_queue("llm", concurrency=3, rate=None, actor="kim")
    queue = queue_of(store, "llm")
    assert (queue.max_depth, queue.depth, queue.change_count) == (50, 0, 2)
    assert (queue.limits.concurrency, queue.limits.rates, queue.limits.gap) == (3, (), 10.0)
    assert queue.declared is not None
    assert queue.declared["rate"] == [{"starts": 60, "per": 60.0, "burst": None}]
    assert queue.live == {"concurrency": 3, "rate": None}
    assert queue.breaker == BreakerStatus("closed", 0, None)
    store.app.reset_queue("llm")
    assert (queue_of(store, "llm").live, queue_of(store, "llm").limits.concurrency) == (None, 1)


def test_p2_a_pause_says_who_since_when_until_when_and_why(store: World) -> None:
    store.add.enqueue(1)
    assert queue_of(store).paused is None
    since = moment_of(store.clock.now())
    store.app.pause("default", 600, reason="upstream is down", actor="kim")
    store.clock.advance(1)
    store.app.change_queue("default", concurrency=2, actor="lee")
    until = since + timedelta(seconds=600)
    assert queue_of(store).paused == QueuePause(until, "kim", since, "upstream is down")
    assert queue_of(store).blocks == (QueueBlock("paused", until),)
    store.app.pause("default", actor="lee")
    assert queue_of(store).paused == QueuePause(None, "lee", moment_of(store.clock.now()))
    store.app.resume("default")
    assert queue_of(store).paused is None
    store.app.queue("other", paused=True)
    store.once.enqueue("x")
    assert queue_of(store, "other").paused == QueuePause(None, "code", moment_of(store.clock.now()))


def test_a_breaker_shows_its_state_its_failures_and_until_when(store: World) -> None:
    store.app.queue("default", breaker=Breaker(after=2, base=15, cap=60))
    for number in range(4):
        store.add.using(attempts=1).enqueue(number)
    first, second = store.claim(), store.claim()
    store.app.fail(first, "broken")
    assert queue_of(store).breaker == BreakerStatus("closed", 1, None)
    store.app.fail(second, "broken")
    until = moment_of(store.clock.now()) + timedelta(seconds=15)
    assert queue_of(store).breaker == BreakerStatus("open", 2, until)
    store.clock.advance(15)
    assert queue_of(store).breaker == BreakerStatus("half-open", 2, None)
    probe = store.claim()
    assert kinds(queue_of(store)) == ["probe"]
    store.app.finish(probe, 1)
    assert queue_of(store).breaker == BreakerStatus("closed", 0, None)


def test_a_queue_that_a_task_has_stopped_shows_until_when(store: World) -> None:
    store.add.enqueue(1)
    store.app.fail(store.claim(), RetryAfter(30, "429", whole_queue=True))
    assert queue_of(store).breaker == BreakerStatus("open", 0, moment_of(store.clock.now()) + timedelta(seconds=30))


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        ({"concurrency": 1}, "concurrency"),
        ({"gap": 10}, "gap"),
        ({"rate": Rate(1, per=60)}, "rate"),
        ({"breaker": Breaker(after=1)}, "breaker"),
        ({"paused": True}, "paused"),
    ],
)
def test_l5_what_closes_a_queue_is_what_its_claims_decide_by(store: World, limits: dict[str, Any], kind: str) -> None:
    """At every step: a reason is shown if and only if a claim finds nothing."""
    for number in range(30):
        store.add.using(attempts=1).enqueue(number)
    store.app.change_queue("default", **limits)
    seen: set[str] = set()
    held: list[Lease] = []
    for step in range(24):
        shown = kinds(queue_of(store))
        seen |= set(shown)
        lease = store.app.claim()
        assert (lease is None) == bool(shown)
        held += [] if lease is None else [lease]
        if held and step % 2:
            (store.app.fail if step % 4 == 1 else store.app.finish)(held.pop(), "x")
        store.clock.advance(4)
        for each in held:
            store.app.renew(each)
    assert kind in seen


def test_the_average_is_of_runs_that_succeeded(store: World) -> None:
    for seconds, end in ((10, store.app.finish), (20, store.app.finish), (1, store.app.fail)):
        store.add.using(attempts=1).enqueue(1)
        lease = store.claim()
        store.clock.advance(seconds)
        end(lease, "x")
    assert queue_of(store).average_seconds == pytest.approx(15)


def serving(store: World, slots: int, queues: list[str] | None = None) -> None:
    store.app.store.write(lambda at: workers.register(at, "w", "host", 1, 10**12, by_hand=False, slots=slots, queues=queues))


def ran(store: World, seconds: float) -> None:
    """A run that took so long."""
    store.add.using(priority=1).enqueue(1)
    lease = store.claim()
    store.clock.advance(seconds)
    store.app.finish(lease, 1)


def test_living_workers_that_serve_a_queue_are_counted(store: World) -> None:
    store.add.enqueue(1)
    store.once.enqueue("x")
    serving(store, 1)
    serving(store, 2, ["other"])
    store.app.claim(queues=["default"])  # by hand: it takes no other job
    assert (queue_of(store).workers, queue_of(store, "other").workers) == (1, 2)


@pytest.mark.parametrize(
    ("slots", "ready", "limits", "wait"),
    [
        (0, 0, {}, None),
        (2, 0, {}, 0.0),
        (2, 1, {}, 0.0),
        (2, 5, {}, 20.0),
        (4, 3, {"concurrency": 1}, 30.0),
        (1, 2, {"gap": 5}, 30.0),
        (9, 3, {"rate": Rate(1, per=60)}, 180.0),
        (9, 3, {"paused": True}, None),
    ],
)
def test_t2_the_estimated_wait_follows_from_what_is_ahead(
    store: World, slots: int, ready: int, limits: dict[str, Any], wait: float | None
) -> None:
    if slots:
        serving(store, slots)
    ran(store, 10)
    store.clock.advance(60)
    if limits:
        store.app.change_queue("default", **limits)
    for number in range(ready):
        store.add.enqueue(number)
    assert queue_of(store).estimated_wait == wait


def test_the_estimated_wait_is_not_shorter_than_a_pause_and_unknown_without_a_run(store: World) -> None:
    serving(store, 1)
    store.add.enqueue(1)
    assert queue_of(store).estimated_wait is None
    ran(store, 10)
    store.app.pause("default", 600)
    assert queue_of(store).estimated_wait == 600.0


@pytest.mark.parametrize(
    "act",
    [
        lambda app: app.change_queue("default", concurrency=9, change_count=1),
        lambda app: asyncio.run(app.achange_queue("default", concurrency=9, change_count=1)),
    ],
)
def test_p4_a_change_can_be_made_only_if_there_was_no_other(store: World, act: Callable[[Holdfast], None]) -> None:
    store.app.change_queue("default", concurrency=1, change_count=0)
    store.app.change_queue("default", concurrency=2, change_count=1)
    with pytest.raises(Changed, match=r"queue default has 2 changes, not 1: it was changed meanwhile"):
        act(store.app)
    assert queue_of(store).limits.concurrency == 2
    assert queue_of(store).change_count == 2


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
