"""Limits of queues, on every store: what may start, and when; what is accepted, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast import Breaker, Job, Key, Lease, QueueFull, Rate, RetryAfter, SettingError, State
from holdfast.testing import run_to_empty
from tests.conformance.world import World


def leases(store: World, most: int = 20) -> list[Lease]:
    """All that may start now."""
    found: list[Lease] = []
    while len(found) < most and (lease := store.app.claim()) is not None:
        found.append(lease)
    return found


def enqueue(store: World, count: int, **options: object) -> list[Job]:
    return [store.add.using(**options).enqueue(number) if options else store.add.enqueue(number) for number in range(count)]  # type: ignore[arg-type]


def test_no_more_jobs_run_than_the_concurrency_of_their_queue(store: World) -> None:
    store.app.queue("default", concurrency=2)
    enqueue(store, 5)
    first, second = leases(store)
    store.app.finish(first, 1)
    (third,) = leases(store)
    store.app.release(second)
    store.app.fail(third, "broken")
    assert len(leases(store)) == 2


def test_a_limit_of_one_queue_does_not_hold_up_another(store: World) -> None:
    store.app.queue("default", concurrency=1)
    enqueue(store, 5)
    urgent = [store.once.using(priority=500).enqueue("x") for _ in range(3)]
    found = leases(store)
    assert len(found) == 4
    assert {lease.job.id for lease in found} > {job.id for job in urgent}


@pytest.mark.parametrize("leave", ["finish", "fail", "release", "skip", "cancel", "expire"])
def test_l4_however_a_run_ends_its_place_is_free(store: World, leave: str) -> None:
    store.app.queue("default", concurrency=1)
    enqueue(store, 3)
    (lease,) = leases(store)
    match leave:
        case "cancel":
            store.app.cancel(lease.job.id)
        case "expire":
            store.clock.advance(lease.seconds + 1)
        case "finish":
            store.app.finish(lease, 1)
        case "fail":
            store.app.fail(lease, "broken")
        case "release":
            store.app.release(lease)
        case "skip":
            store.app.skip(lease, "not needed")
    assert len(leases(store)) == 1


def test_l6_a_dead_holder_s_job_comes_back_though_the_queue_is_full(store: World) -> None:
    store.app.queue("default", concurrency=1)
    (job,) = enqueue(store, 1)
    (lease,) = leases(store)
    store.clock.advance(lease.seconds + 1)
    (again,) = leases(store)
    assert again.job.id == job.id
    assert again.job.attempt == 2


def test_l12_a_limit_that_is_lowered_holds_when_enough_have_ended(store: World) -> None:
    store.app.queue("default", concurrency=5)
    enqueue(store, 9)
    running = leases(store)
    assert len(running) == 5
    store.app.change_queue("default", concurrency=2)
    for lease in running[:3]:
        store.app.finish(lease, 1)
        assert leases(store) == []
    store.app.finish(running[3], 1)
    assert len(leases(store)) == 1


def test_jobs_that_began_before_there_was_a_limit_count(store: World) -> None:
    enqueue(store, 5)
    before = [store.claim(), store.claim()]
    store.app.change_queue("default", concurrency=2)
    assert leases(store) == []
    store.app.finish(before[0], 1)
    assert len(leases(store)) == 1


def test_a_gap_counts_from_the_end_of_a_run_and_never_holds_up_an_idle_queue(store: World) -> None:
    store.app.queue("default", concurrency=1, gap=10)
    enqueue(store, 3)
    (lease,) = leases(store)
    store.clock.advance(100)
    store.app.renew(lease)
    store.app.finish(lease, 1)
    assert leases(store) == []
    store.clock.advance(9.9)
    assert leases(store) == []
    store.clock.advance(0.1)
    (lease,) = leases(store)
    store.app.fail(lease, "broken")
    store.clock.advance(60)
    assert len(leases(store)) == 1


def test_r1_a_rate_holds_in_every_interval(store: World) -> None:
    store.app.queue("default", rate=Rate(10, per=60, burst=3))
    enqueue(store, 60)
    starts: list[float] = []
    for step in range(400):
        starts += [step * 0.7] * len(leases(store, 60))
        store.clock.advance(0.7)
    assert len(starts) >= 45
    for index, start in enumerate(starts):
        for count, end in enumerate(starts[index:], 1):
            assert count <= 3 + (end - start) * 10 / 60 + 1e-9


def test_r3_a_rate_heals_when_the_clock_was_set_back(store: World) -> None:
    store.app.queue("default", rate=Rate(1, per=10))
    enqueue(store, 3)
    assert len(leases(store)) == 1
    store.clock.jump(-3600)
    assert leases(store) == []
    store.clock.advance(10)
    assert len(leases(store)) == 1


def test_r6_looking_spends_nothing(store: World) -> None:
    store.app.queue("default", rate=Rate(1, per=10, burst=5))
    for _ in range(20):
        assert leases(store) == []
    enqueue(store, 8)
    assert len(leases(store)) == 5


def test_r8_two_rates_both_hold(store: World) -> None:
    store.app.queue("default", rate=(Rate(2, per=1, burst=2), Rate(3, per=60, burst=3)))
    enqueue(store, 9)
    assert len(leases(store)) == 2
    store.clock.advance(1)
    assert len(leases(store)) == 1
    store.clock.advance(1)
    assert leases(store) == []


def test_b1_one_poison_job_does_not_open_the_breaker_but_different_ones_do(store: World) -> None:
    store.app.queue("default", concurrency=1, breaker=Breaker(after=2, base=15, cap=40))
    poison = store.add.enqueue(1)
    for _ in range(2):
        lease = store.claim()
        assert lease.job.id == poison.id
        store.app.fail(lease, "broken")
        store.clock.advance(20)
    enqueue(store, 4)
    store.app.fail(store.claim(), "broken")  # the poison job, for good
    store.app.fail(store.claim(), "broken")  # another one: open
    assert leases(store) == []
    store.clock.advance(15)
    (probe,) = leases(store)
    store.app.fail(probe, "broken")  # twice as long
    store.clock.advance(29)
    assert leases(store) == []
    store.clock.advance(1)
    (probe,) = leases(store)
    assert store.app.claim() is None
    store.app.finish(probe, 1)
    assert len(leases(store)) == 1


def test_b4_a_probe_whose_worker_dies_counts_as_failed(store: World) -> None:
    store.app.queue("default", breaker=Breaker(after=1, base=15, cap=15))
    enqueue(store, 3)
    store.app.fail(store.claim(), "broken")
    assert leases(store) == []
    store.clock.advance(15)
    (probe,) = leases(store)
    store.clock.advance(probe.seconds + 1)
    assert leases(store) == []
    store.clock.advance(15)
    assert len(leases(store)) == 1


def test_b2_retry_after_for_the_whole_queue_lets_one_job_through_first(store: World) -> None:
    enqueue(store, 6)
    first, second = store.claim(), store.claim()
    store.app.fail(first, RetryAfter(30, "429", whole_queue=True))
    assert store.get(first.job).attempt == 0
    assert leases(store) == []
    for _ in range(3):
        store.clock.advance(10)
        store.app.renew(second)
    (probe,) = leases(store)
    assert leases(store) == []
    store.app.finish(probe, 1)
    store.app.finish(second, 1)
    assert len(leases(store)) == 4


def test_b2_a_run_that_began_before_the_stop_does_not_end_it(store: World) -> None:
    enqueue(store, 4)
    first, second = store.claim(), store.claim()
    store.app.fail(first, RetryAfter(30, "429", whole_queue=True))
    store.clock.advance(1)
    store.app.finish(second, 1)
    assert leases(store) == []
    store.clock.advance(29)
    assert len(leases(store)) == 1


def test_b4_a_job_that_was_tried_and_then_deleted_leaves_the_queue_neither_shut_nor_without_its_gap(store: World) -> None:
    store.app.queue("default", gap=5, breaker=Breaker(after=1, base=15))
    enqueue(store, 4)
    store.app.fail(store.claim(), "broken")
    store.clock.advance(15)
    (probe,) = leases(store)
    store.app.cancel(probe.job.id)
    store.app.delete(probe.job.id)
    assert leases(store) == []
    store.clock.advance(5)
    assert len(leases(store)) == 1


def test_p1_a_pause_ends_by_resume_or_by_its_time_and_by_nothing_else(store: World) -> None:
    enqueue(store, 3)
    store.app.pause("default", reason="upstream is down", actor="kim")
    store.app.change_queue("default", concurrency=2)
    store.app.reset_queue("default")
    assert leases(store) == []
    assert store.app.resume("default")
    assert not store.app.resume("default")
    started = leases(store)
    assert len(started) == 3
    for lease in started:
        store.app.finish(lease, 1)
    enqueue(store, 1)
    store.app.pause("default", 60)
    store.clock.advance(59)
    assert leases(store) == []
    store.clock.advance(1)
    assert len(leases(store)) == 1
    changes = store.app.queue_changes("default")
    assert [change.action for change in changes] == ["paused", "resumed", "reset", "changed", "paused"]
    assert (changes[-1].actor, changes[-1].detail) == ("kim", {"seconds": None, "reason": "upstream is down"})


def test_p3_what_comes_back_does_not_start_in_a_paused_queue(store: World) -> None:
    job = store.job_in(State.FAILED)
    store.add.using(run_after=5, queue=job.queue).enqueue(1)
    store.app.pause(job.queue)
    store.app.retry(job.id)
    store.clock.advance(10)
    assert leases(store) == []
    store.app.resume(job.queue)
    assert len(leases(store)) == 2


def test_p4_a_live_change_holds_until_the_declaration_changes(store: World) -> None:
    store.app.queue("default", concurrency=1)
    enqueue(store, 9)
    assert len(leases(store)) == 1
    store.app.change_queue("default", concurrency=3)
    other = store.another()
    other.queue("default", concurrency=1)  # the same declaration, by another process
    other.task_named("add").enqueue(1)
    assert len(leases(store)) == 2
    other.queue("default", concurrency=4)
    other.task_named("add").enqueue(1)
    assert len(leases(store)) == 1
    store.app.change_queue("default", concurrency=None)
    assert len(leases(store)) == 7


def test_d1_a_bounded_queue_refuses_what_is_beyond_its_bound(store: World) -> None:
    store.app.queue("default", max_depth=3)
    enqueue(store, 2)
    store.add.using(run_after=60).enqueue(1)
    with pytest.raises(QueueFull, match="queue default is full: 3 of 3 jobs wait") as refused:
        store.add.enqueue(4)
    assert (refused.value.depth, refused.value.max_depth) == (3, 3)
    assert refused.value.retry_after > 0
    store.claim()
    store.add.enqueue(5)
    with pytest.raises(QueueFull):
        store.add.enqueue(6)


def test_d1_of_many_jobs_those_that_fit_are_accepted_and_counted(store: World) -> None:
    store.app.queue("default", max_depth=50)
    with pytest.raises(QueueFull) as refused:
        store.app.enqueue_many(store.add.bind(number) for number in range(80))
    assert len(refused.value.accepted) == 50
    assert len(store.app.jobs(limit=100)) == 50
    assert store.app.get(refused.value.accepted[49]) is not None


def test_a_job_that_its_key_finds_is_not_refused_by_a_full_queue(store: World) -> None:
    store.app.queue("default", max_depth=1)
    first = store.add.using(key=Key("a")).enqueue(1)
    assert store.add.using(key=Key("a")).enqueue(1).id == first.id
    with pytest.raises(QueueFull):
        store.add.using(key=Key("b")).enqueue(1)
    assert store.app.find(Key("b")) is None


def test_d4_what_was_accepted_comes_back_and_counts(store: World) -> None:
    store.app.queue("default", max_depth=3)
    enqueue(store, 3)
    running = leases(store)
    enqueue(store, 3)
    for lease in running:
        store.app.release(lease)
    with pytest.raises(QueueFull, match="of 3 jobs wait"):
        store.add.enqueue(1)
    assert len(leases(store)) == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"concurrency": 0}, "concurrency 0 must be a whole number from 1"),
        ({"concurrency": -1}, "concurrency -1"),
        ({"concurrency": True}, "concurrency True"),
        ({"max_depth": 1.5}, "max_depth 1.5"),
        ({"gap": float("nan")}, "gap nan"),
        ({"gap": -1}, "gap -1"),
        ({"rate": 5}, "rate=5 is no Rate"),
        ({"breaker": 2}, "breaker=2 is no Breaker"),
        ({"speed": 3}, "a queue has no option 'speed'"),
        ({}, "nothing to change about queue default"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused_in_one_line(store: World, options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=f"^{re.escape(words)}"):
        store.app.change_queue("default", **options)
    assert store.app.queue_changes("default") == []


@pytest.mark.parametrize("arguments", [(0,), (-1,), (float("inf"),), (float("nan"),), ("a",), (1, 0), (1, 1, 0)])
def test_a_rate_that_makes_no_sense_is_refused(arguments: tuple[object, ...]) -> None:
    with pytest.raises(SettingError, match=r"^rate"):
        Rate(*arguments)  # type: ignore[arg-type]


def test_a_worker_keeps_the_limits_of_its_queues(store: World) -> None:
    store.app.queue("default", concurrency=2)
    enqueue(store, 20)
    store.once.enqueue("x")
    store.app.worker(concurrency=8).run_until_empty()
    assert store.app.stats() == {"add": {"succeeded": 20}, "once": {"succeeded": 1}}


@pytest.mark.parametrize("declared", [True, False])
def test_a_worker_that_runs_until_empty_leaves_a_paused_queue_and_counts_its_jobs(store: World, declared: bool) -> None:
    store.app.queue("default", paused=declared)
    enqueue(store, 3)
    store.once.enqueue("x")
    if not declared:
        store.app.pause("default")
    left = store.app.worker().run_until_empty()
    assert (left.ready, left.running) == (3, 0)
    assert store.app.stats() == {"add": {"ready": 3}, "once": {"succeeded": 1}}


def test_run_to_empty_moves_the_clock_past_gaps_rates_and_breakers(store: World) -> None:
    store.app.queue("default", gap=10, concurrency=1)
    store.app.queue("other", rate=Rate(1, per=60))
    enqueue(store, 4)
    for _ in range(3):
        store.once.enqueue("x")
    began = store.clock.now()
    run_to_empty(store.app, store.clock)
    assert store.app.stats() == {"add": {"succeeded": 4}, "once": {"succeeded": 3}}
    assert (store.clock.now() - began) / 1e6 == 120
    run_to_empty(store.app, store.clock)
    assert (store.clock.now() - began) / 1e6 == 120, "a closed queue without jobs is nothing to wait for"


def test_run_to_empty_leaves_a_paused_queue(store: World) -> None:
    enqueue(store, 2)
    store.app.pause("default")
    began = store.clock.now()
    run_to_empty(store.app, store.clock)
    assert store.clock.now() == began
    assert store.app.stats() == {"add": {"ready": 2}}
    store.app.pause("default", 60)
    run_to_empty(store.app, store.clock)
    assert store.app.stats() == {"add": {"succeeded": 2}}
    assert (store.clock.now() - began) / 1e6 == 60
