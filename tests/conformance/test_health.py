"""Who waits, since when, and whether that is anybody's fault; asked for at a cost that no backlog changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from importlib import resources

import psycopg

from holdfast.store import claim, workers
from holdfast.store.health import Snapshot, Stall, stalls, standing
from holdfast.store.op import Moment, Op
from holdfast.store.postgres.url import SETTINGS_LOCAL
from holdfast.store.sql import SCHEMA, in_schema
from tests.conformance.world import World
from tests.servers import plain

LIMIT = 60.0


def look(store: World) -> Snapshot:
    return store.app.store.read(standing)


def judge(store: World, tasks: Sequence[str] | None = None) -> list[Stall]:
    return stalls(look(store), LIMIT, tasks)


def hire(store: World, name: str, slots: int = 1, queues: Sequence[str] | None = None, lease_seconds: float = 1e6) -> int:
    """A worker as its row says it: it has room until it claims, and lives until its lease is over."""

    def make(moment: Moment) -> Op[int]:
        lease = int(lease_seconds * 1e6)
        return (yield from workers.register(moment, name, "host", 1, lease, by_hand=False, slots=slots, queues=queues))

    return store.app.store.write(make)


def give(store: World, worker: int, jobs: int) -> None:
    def make(moment: Moment) -> Op[None]:
        lanes = yield from claim.ready_lanes(moment, None, ["add"])
        yield from claim.claim(moment, claim.Holder(worker, "w", 10**12), lanes, jobs)

    store.app.store.write(make)


# Who is next, and since when


def test_the_head_of_each_lane_is_the_job_that_a_claim_would_take(store: World) -> None:
    store.add.using(priority=200).enqueue(1)
    urgent = store.add.using(priority=5).enqueue(2)
    store.clock.advance(30)
    other = store.once.enqueue("x")
    store.clock.advance(10)
    heads = {(head.queue, head.task): (head.id, head.waited_seconds) for head in look(store).heads}
    assert heads == {("default", "add"): (urgent.id, 40.0), ("other", "once"): (other.id, 10.0)}


def test_a_job_waits_since_it_became_ready_not_since_it_was_made(store: World) -> None:
    store.add.using(run_after=100).enqueue(1)
    assert look(store).heads == []
    store.clock.advance(101)
    lease = store.claim()  # which promotes it
    store.clock.advance(1000)
    store.app.cancel(lease.job.id)
    store.app.retry(lease.job.id)
    store.clock.advance(7)
    (head,) = look(store).heads
    assert (head.id, head.waited_seconds) == (lease.job.id, 7.0)


def test_a_job_whose_worker_died_waits_since_it_was_taken_back(store: World) -> None:
    store.add.enqueue(1)
    lease = store.claim(seconds=10)
    store.clock.advance(500)
    assert store.app.claim(queues=["other"]) is None  # which takes back what has expired
    store.clock.advance(3)
    (head,) = look(store).heads
    assert (head.id, head.waited_seconds) == (lease.job.id, 3.0)


# Whose fault it is


def test_nothing_stalls_where_there_is_nothing_to_do(store: World) -> None:
    assert judge(store) == []
    hire(store, "idle")
    store.clock.advance(1000)
    assert judge(store) == []


def test_a_job_without_a_worker_stalls_after_the_limit_and_not_before(store: World) -> None:
    job = store.add.enqueue(1)
    store.clock.advance(LIMIT)
    assert judge(store) == []
    store.clock.advance(1)
    (stall,) = judge(store)
    assert (stall.queue, stall.task, stall.id, stall.seconds) == ("default", "add", job.id, LIMIT + 1)
    assert stall.reason == "no living worker serves queue default; start one"


def test_a_worker_of_another_queue_or_one_that_died_is_none(store: World) -> None:
    store.add.enqueue(1)
    hire(store, "elsewhere", queues=["other", "third"])
    hire(store, "dead", lease_seconds=10)
    store.clock.advance(LIMIT + 1)
    assert [stall.reason for stall in judge(store)] == ["no living worker serves queue default; start one"]
    assert [worker.name for worker in look(store).workers] == ["elsewhere"]


def test_a_worker_that_has_room_and_does_not_claim_is_at_fault(store: World) -> None:
    store.add.enqueue(1)
    hire(store, "blind", slots=2, queues=["default"])
    store.clock.advance(LIMIT + 1)
    (stall,) = judge(store)
    assert "worker blind serves queue default and has room" in stall.reason


def test_that_everybody_is_busy_is_a_good_reason_to_wait_for_hours(store: World) -> None:
    for n in range(3):
        store.add.enqueue(n)
    worker = hire(store, "busy", slots=2)
    give(store, worker, 2)
    store.clock.advance(3600)
    assert len(look(store).heads) == 1
    assert judge(store) == []
    hire(store, "second", slots=1)
    assert len(judge(store)) == 1


def test_a_job_claimed_by_hand_keeps_its_holder_busy_while_the_lease_lasts(store: World) -> None:
    store.add.enqueue(1)
    store.add.enqueue(2)
    store.claim(seconds=1000, queues=["default"])
    store.clock.advance(500)
    assert judge(store) == []
    assert look(store).workers == []
    store.clock.advance(600)
    assert len(judge(store)) == 1


def test_a_scheduled_job_that_nobody_makes_ready_stalls(store: World) -> None:
    store.add.using(run_after=100).enqueue(1)
    store.clock.advance(100 + LIMIT)
    assert judge(store) == []
    store.clock.advance(1)
    (stall,) = judge(store)
    assert (stall.queue, stall.seconds) == (None, LIMIT + 1)
    assert "is due" in stall.reason


def test_only_the_tasks_that_are_asked_for_count(store: World) -> None:
    store.add.enqueue(1)
    store.once.enqueue("x")
    store.clock.advance(LIMIT + 1)
    assert [stall.task for stall in judge(store, ["once"])] == ["once"]


# What it costs


def test_the_cost_does_not_depend_on_the_backlog(store: World) -> None:
    """Counted in steps of SQLite's machine, and in pages that PostgreSQL looks at."""
    store.add.enqueue(1)
    store.once.enqueue("x")
    few = cost(store)
    store.app.enqueue_many(store.add.bind(n) for n in range(4000))
    assert cost(store) <= few * 2


def cost(store: World) -> int:
    if store.app.store.dialect == "sqlite":
        return _sqlite_steps(store.url.removeprefix("sqlite:///"))
    return _postgres_pages(plain(store.url))


def _text(package: str) -> str:
    text = resources.files(package).joinpath("sql/oldest_ready.sql").read_text(encoding="utf-8")
    return in_schema(text, SCHEMA).replace(":now", "0")


def _sqlite_steps(path: str) -> int:
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(sqlite3.connect(path)) as connection:
        connection.set_progress_handler(count, 1)
        assert connection.execute(_text("holdfast.store.sqlite")).fetchall()
    return steps


def _postgres_pages(url: str) -> int:
    with psycopg.connect(url) as connection:
        connection.execute(SETTINGS_LOCAL.encode())
        text = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {_text('holdfast.store.postgres')}"
        plan = connection.execute(text.encode()).fetchone()
        assert plan is not None
        top = plan[0][0]["Plan"]
        return int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])
