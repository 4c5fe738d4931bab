"""Limits on PostgreSQL, where claims, ends and changes of one queue go on at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.conformance.world import World
from tests.servers import plain
from tests.until import until


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
