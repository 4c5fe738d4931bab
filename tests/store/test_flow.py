"""Limits on PostgreSQL, where claims, ends and changes of one queue go on at the same time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast import QueueFull
from tests.conformance.world import World
from tests.servers import plain
from tests.until import until
from tests.workers import working


class At:
    """Acts once, when the store has taken so many steps."""

    def __init__(self, step: int, act: Callable[[], object]) -> None:
        self.left, self.act, self.steps = step, act, list[str]()

    def __call__(self, what: str) -> None:
        self.steps.append(what)
        self.left -= 1
        if self.left == 0:
            self.act()


STEPS = 18
"""A claim by hand has no more."""


@pytest.mark.parametrize("step", range(1, STEPS, 2))
def test_l3_a_run_that_ends_at_any_step_of_a_claim_is_neither_missed_nor_counted_twice(store: World, step: int) -> None:
    store.app.queue("default", concurrency=1, gap=10)
    store.app.enqueue_many(store.add.bind(number) for number in range(3))
    lease, other = store.claim(), store.another()
    other.queue("default", concurrency=1, gap=10)
    store.app.claim()  # it is full: what a claim remembers of that must not hold
    at = At(step, lambda: other.finish(lease, 1))
    store.rows("UPDATE holdfast.queue SET closed_until = 0 RETURNING 1")
    store.app.store.probe = at
    assert store.app.claim() is None
    store.app.store.probe = None
    if at.left > 0:
        other.finish(lease, 1)
    assert store.app.claim() is None, "the gap holds"
    store.clock.advance(10)
    assert store.app.claim() is not None


def waits(store: World) -> bool:
    return bool(store.rows("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"))


def test_l3_what_ends_and_what_runs_is_read_at_once(store: World) -> None:
    store.app.queue("default", concurrency=1, gap=10)
    store.app.enqueue_many(store.add.bind(number) for number in range(3))
    lease = store.claim(seconds=300)
    store.clock.advance(100)  # claims do not look for runs without a flag any more
    store.rows("UPDATE holdfast.queue SET closed_until = 0 RETURNING 1")  # as if another run had just ended
    with psycopg.connect(plain(store.url)) as connection, ThreadPoolExecutor(1) as pool:
        store.app.on(connection).finish(lease, 1)
        connection.execute("LOCK TABLE holdfast.running IN ACCESS EXCLUSIVE MODE")
        claiming = pool.submit(store.app.claim)
        until(lambda: waits(store), "the claim waits for the table")
        connection.commit()
        assert claiming.result(30) is None, "the gap holds"
    store.clock.advance(10)
    assert store.app.claim() is not None


def test_a_queue_that_a_transaction_holds_is_asked_for_a_few_times_a_second_and_starts_when_it_is_let_go(store: World) -> None:
    store.app.queue("default", concurrency=5)
    store.app.enqueue_many(store.add.bind(number) for number in range(3))
    worker, looks = store.another(), list[float]()
    worker.queue("default", concurrency=5)
    worker.store.probe = lambda what: looks.append(time.monotonic()) if what in {"lock_queues", "work_to_do"} else None
    with psycopg.connect(plain(store.url)) as connection:
        store.app.on(connection).claim()
        with working(worker):
            until(lambda: len(looks) > 8, "it has looked a few times")
            threading.Event().wait(2)  # blocks on purpose: how often it looks in that time is what is measured
            lately = [at for at in looks if at > time.monotonic() - 1.5]
            assert len(lately) <= 20, f"{len(lately)} looks in 1.5 s"
            assert store.app.stats() == {"add": {"ready": 3}}
            began = time.monotonic()
            connection.rollback()
            until(lambda: store.app.stats() == {"add": {"succeeded": 3}}, "all have run")
            assert time.monotonic() - began < 1.0


def test_a_claim_by_hand_waits_for_a_claim_of_another_and_not_for_one_that_stays_open(store: World) -> None:
    store.app.queue("default", concurrency=5)
    store.app.enqueue_many(store.add.bind(number) for number in range(3))
    assert store.app.claim() is not None
    other = store.another()
    other.queue("default", concurrency=5)
    with psycopg.connect(plain(store.url)) as connection, ThreadPoolExecutor(1) as pool:
        store.app.on(connection).claim()
        began = time.monotonic()
        assert other.claim() is None
        assert 0.3 < time.monotonic() - began < 5.0
        claiming = pool.submit(other.claim)
        connection.commit()
        assert claiming.result(30) is not None


def test_d1_a_place_that_a_transaction_took_comes_back_when_it_is_rolled_back(store: World) -> None:
    store.app.queue("default", max_depth=3)
    store.add.enqueue(1)
    with psycopg.connect(plain(store.url)) as connection:
        here = store.app.on(connection)
        for number in range(2):
            here.enqueue(store.add.bind(number))
        with pytest.raises(QueueFull):
            here.enqueue(store.add.bind(9))
        connection.rollback()
    store.add.enqueue(2)
    store.add.enqueue(3)
    with pytest.raises(QueueFull):
        store.add.enqueue(4)


def test_d1_an_enqueue_waits_for_a_transaction_that_stays_open_and_other_queues_do_not(store: World) -> None:
    store.app.queue("default", max_depth=3)
    store.add.enqueue(1)
    store.once.enqueue("x")
    with psycopg.connect(plain(store.url)) as connection, ThreadPoolExecutor(1) as pool:
        store.app.on(connection).enqueue(store.add.bind(2))
        waiting = pool.submit(store.add.enqueue, 3)
        until(lambda: waits(store), "it waits for the depth")
        began = time.monotonic()
        store.once.enqueue("y")
        took = time.monotonic() - began
        connection.rollback()
        assert waiting.result(30).created
        assert took < 2.0, f"another queue's job waited for {took:.1f} s"
