"""The engine's promises, each as one small function that raises when it is broken. `test_mutants` breaks them one by one."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing

from holdfast import Conflict, Holdfast, IllegalMove, Key, Lease, LeaseLost, Snooze, State
from holdfast.events.follower import ThreadFollower
from holdfast.store import browse
from holdfast.store.op import Moment, Op, Statement
from holdfast.testing import Crash, CrashPoint
from tests.conformance.world import World
from tests.simulation.invariants import check
from tests.store.inside import commits_of, postgres_store, sqlite_store, waiting

LEASE = 10.0
PROMISES: dict[str, Callable[[World], None]] = {}


def promise(function: Callable[[World], None]) -> Callable[[World], None]:
    PROMISES[function.__name__] = function
    return function


def refused(kind: type[Exception], act: Callable[[], object]) -> None:
    try:
        act()
    except kind:
        return
    raise AssertionError(f"this had to be refused with {kind.__name__}")


def leased(world: World, attempts: int = 3) -> Lease:
    world.add.using(attempts=attempts).enqueue(1)
    return world.claim(seconds=LEASE)


# Leases and tokens


@promise
def a_job_goes_to_one_holder(world: World) -> None:
    ids = world.app.enqueue_many(world.add.bind(n) for n in range(3)).ids
    claimed = [world.app.claim() for _ in range(4)]
    assert [lease and lease.job.id for lease in claimed] == [*ids, None]


@promise
def an_old_token_writes_nothing(world: World) -> None:
    old = leased(world)
    world.clock.advance(LEASE + 1)
    new = world.claim()
    refused(LeaseLost, lambda: world.app.finish(old, 99))
    refused(LeaseLost, lambda: world.app.release(old))
    assert world.app.finish(new, 2).result == 2


@promise
def an_old_token_renews_nothing(world: World) -> None:
    old = leased(world)
    world.clock.advance(LEASE + 1)
    world.claim(seconds=LEASE)
    refused(LeaseLost, lambda: world.app.renew(old))


@promise
def tokens_grow_with_every_claim(world: World) -> None:
    tokens: list[int] = []
    for _ in range(3):
        lease = leased(world) if not tokens else world.claim()
        tokens.append(lease.token)
        world.app.release(lease)
    assert tokens == [1, 2, 3]


@promise
def a_retried_job_is_fenced_from_its_past(world: World) -> None:
    old = leased(world)
    world.app.cancel(old.job.id)
    world.app.retry(old.job.id)
    world.claim()
    refused(LeaseLost, lambda: world.app.finish(old, 99))


@promise
def a_renewed_lease_is_not_taken(world: World) -> None:
    lease = leased(world)
    for _ in range(5):
        world.clock.advance(LEASE * 0.9)
        world.app.renew(lease)
        assert world.app.claim() is None


@promise
def a_living_lease_is_not_taken(world: World) -> None:
    leased(world)
    world.clock.advance(LEASE * 0.9)
    assert world.app.claim() is None


@promise
def a_dead_holders_job_comes_back(world: World) -> None:
    lease = leased(world)
    world.clock.advance(LEASE + 1)
    assert world.claim().job.id == lease.job.id


@promise
def the_wall_clock_ends_no_lease(world: World) -> None:
    leased(world)
    world.clock.jump(86_400)
    assert world.app.claim() is None


@promise
def a_reboot_ends_leases(world: World) -> None:
    leased(world)
    world.clock.reboot()
    assert world.app.claim() is not None


@promise
def a_late_result_is_not_thrown_away(world: World) -> None:
    lease = leased(world)
    world.clock.advance(LEASE * 9)
    assert world.app.finish(lease, 2).state == State.SUCCEEDED


# Attempts


@promise
def a_job_that_kills_its_workers_ends(world: World) -> None:
    job = world.add.using(attempts=2).enqueue(1)
    for _ in range(4):
        world.app.claim(seconds=LEASE)
        world.clock.advance(LEASE + 1)
    dead = world.get(job)
    assert (dead.state, world.kinds(job).count("started")) == (State.FAILED, 2)


@promise
def release_and_snooze_cost_no_attempt(world: World) -> None:
    lease = leased(world, attempts=1)
    world.app.release(lease)
    world.app.fail(world.claim(), Snooze(0))
    assert world.app.finish(world.claim(), 1).attempt == 1


@promise
def a_retry_brings_fresh_attempts(world: World) -> None:
    job = world.app.fail(leased(world, attempts=1), "broken")
    assert world.app.retry(job.id).attempt == 0
    assert world.claim().job.attempt == 1


@promise
def every_delay_is_kept(world: World) -> None:
    world.app.fail(leased(world), "broken")
    world.clock.advance(9.9)
    assert world.app.claim() is None
    world.clock.advance(0.1)
    assert world.app.claim() is not None


# Order and time


@promise
def priority_then_age_decides(world: World) -> None:
    late = world.add.using(priority=5).enqueue(1)
    first = world.add.using(priority=1).enqueue(2)
    assert [world.claim().job.id, world.claim().job.id] == [first.id, late.id]


@promise
def a_job_for_later_runs_later(world: World) -> None:
    world.add.using(run_after=60).enqueue(1)
    world.clock.advance(59)
    assert world.app.claim() is None


# Final is final


@promise
def a_cancelled_job_stays_cancelled(world: World) -> None:
    lease = leased(world)
    world.app.cancel(lease.job.id)
    refused(LeaseLost, lambda: world.app.finish(lease, 2))
    assert world.state(lease.job) == State.CANCELLED
    refused(IllegalMove, lambda: world.app.cancel(lease.job.id))


@promise
def a_cancelled_job_is_not_handed_out(world: World) -> None:
    world.app.cancel(world.add.enqueue(1).id)
    assert world.app.claim() is None


@promise
def what_ended_can_be_counted_and_pruned(world: World) -> None:
    world.app.finish(leased(world), 1)
    assert world.app.stats() == {"add": {"succeeded": 1}}
    world.clock.advance(1)
    assert world.app.prune(0) == 1


@promise
def the_log_has_no_gap(world: World) -> None:
    job = world.add.enqueue(1)
    world.app.fail(world.claim(), "broken")
    world.app.cancel(job.id)
    world.app.retry(job.id)
    assert [event.number for event in world.app.events(job.id)] == [1, 2, 3, 4, 5]


# Keys


@promise
def one_key_is_one_job(world: World) -> None:
    keyed = world.add.using(key="k")
    assert keyed.enqueue(1).id == keyed.enqueue(1).id
    refused(Conflict, lambda: world.add.using(key=Key("k", conflict="raise")).enqueue(1))


@promise
def a_deleted_job_frees_its_key(world: World) -> None:
    keyed = world.add.using(key="k")
    world.app.delete(keyed.enqueue(1).id)
    assert keyed.enqueue(1).created


@promise
def a_key_outlives_a_pruned_job(world: World) -> None:
    for scope in ("forever", 3600.0):
        keyed = world.add.using(key=Key("k", str(scope), scope=scope))
        first = world.app.finish(leased_by(world, keyed.enqueue(1).id), 1)
        world.clock.advance(1)
        world.app.prune(0)
        assert keyed.enqueue(1).id == first.id


def leased_by(world: World, id: str) -> Lease:
    lease = world.claim()
    assert lease.job.id == id
    return lease


@promise
def a_retry_does_not_make_two_of_one_key(world: World) -> None:
    keyed = world.add.using(key="k", attempts=1)
    first = keyed.enqueue(1)
    world.app.fail(world.claim(), "broken")
    keyed.enqueue(1)
    refused(Conflict, lambda: world.app.retry(first.id))


# Transactions


@promise
def nothing_is_read_before_the_lock_is_held(world: World) -> None:
    """What was read would be of a past that somebody else is changing. (PostgreSQL locks rows, not all.)"""
    if world.app.store.dialect != "sqlite":
        return
    world.app.migrate()
    other, _, _ = world.open()
    sqlite_store(other).busy_seconds = 0.01
    seen: list[str] = []
    other.store.probe = seen.append
    with closing(sqlite3.connect(world.app.store.path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        refused(Exception, other.claim)  # blocks on purpose, for a hundredth of a second
        writer.execute("ROLLBACK")
    other.close()
    assert seen == ["begin"]


@promise
def a_crash_leaves_nothing_half_written(world: World) -> None:
    world.add.enqueue(0)
    before = world.everything()
    at = {"sqlite": "list_ready", "postgresql": "add_jobs"}[world.app.store.dialect]
    with CrashPoint(world.app, at=at) as point:
        try:
            world.app.enqueue_many(world.add.using(tags=["x"], key=("k", n)).bind(n) for n in range(2))
        except Crash:
            pass
    assert point.hit
    assert world.everything() == before


@promise
def a_caller_that_fails_takes_nobody_along(world: World) -> None:
    def broken(moment: Moment) -> Op[None]:
        yield Statement("add_lane", {"queue": "half", "task": "written"})
        raise RuntimeError("broken in the middle")

    refused(RuntimeError, lambda: world.app.store.write(broken))
    in_one_commit(world.app, lambda: refused(RuntimeError, lambda: world.app.store.write(broken)), lambda: world.add.enqueue(1))
    assert world.app.stats() == {"add": {"ready": 1}}
    assert world.rows("SELECT queue FROM holdfast_lane") == [("default",)]


def in_one_commit(app: Holdfast, *calls: Callable[[], object]) -> None:
    """All wait while somebody else writes, so that the next transaction holds them all."""
    commits_of(app)
    broken: list[BaseException] = []

    def guarded(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            broken.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]

    def hold(moment: Moment) -> Op[None]:
        for number, thread in enumerate(threads, 1):
            thread.start()
            while waiting(app) < number:
                pass
        yield Statement("lane_names")

    app.store.write(hold)
    for thread in threads:
        thread.join(30)
    assert not broken, broken


@promise
def an_acknowledged_job_is_on_the_disk(world: World) -> None:
    world.add.enqueue(1)
    if world.app.store.dialect == "sqlite":
        assert sqlite_store(world.app)._writing().raw.execute("PRAGMA synchronous").fetchone() == (2,)
    else:
        for writer in postgres_store(world.app)._writers:
            assert writer._open().raw.execute("SHOW synchronous_commit").fetchone() == ("on",)
    assert world.rows("SELECT count(*) FROM holdfast_job") == [(1,)]


@promise
def an_end_is_told_of(world: World) -> None:
    """Each of four ways to end, by a job of its own; and a fifth job, which has not ended, by none."""
    world.app.courier.resolve = lambda *_: ["93.184.215.14"]
    asked = world.add.using(callback="https://hooks.example.com/", attempts=1)
    asked.using(id="finished").enqueue(1)
    world.app.finish(world.claim(), 2)
    asked.using(id="cancelled").enqueue(1)
    world.app.cancel("cancelled")
    asked.using(id="lost").enqueue(1)
    world.claim(seconds=LEASE)
    world.clock.advance(LEASE + 1)
    world.app.claim(queues=["nowhere"])
    asked.using(id="replaced", key="k").enqueue(1)
    asked.using(id="open", key=Key("k", conflict="replace")).enqueue(1)
    told = world.rows("SELECT parent FROM holdfast_job_spec WHERE parent IS NOT NULL ORDER BY seq")
    assert told == [("finished",), ("cancelled",), ("lost",), ("replaced",)]


@promise
def what_is_new_is_new_to_who_has_read_what_is_gone(world: World) -> None:
    world.app.finish(leased(world), 1)
    last = list(world.app.feed(after=""))[-1]
    world.app.delete(last.job)
    job = world.add.enqueue(2)
    assert [(event.job, event.number) for event in world.app.feed(after=last.cursor)] == [(job.id, 1)]
    world.claim()
    assert [(event.job, event.number) for event in world.app.feed(after=last.cursor)] == [(job.id, 1), (job.id, 2)]


@promise
def a_job_is_told_of_before_what_happened_to_it(world: World) -> None:
    world.app.finish(leased(world), 1)
    world.add.enqueue(2)
    assert [event.number for event in world.app.feed(after="")] == [1, 2, 3, 1]


@promise
def who_joins_late_looks_for_what_was_given_out(world: World) -> None:
    job = world.add.enqueue(1)
    follower = world.app.events(job.id, follow=True)
    world.app.release(world.claim())
    assert [next(follower).number for _ in range(3)] == [1, 2, 3]
    world.claim()
    assert next(follower).number == 4, "it is given out by now"
    late = ThreadFollower(world.app.store.read(lambda _: browse.log(job.id, 0))[0], 3)
    world.app._feed.attach(late, job.id)
    assert late.behind
    world.app._feed.leave(late)


def keep(name: str, world: World) -> None:
    """The promise itself, and then everything that must be true of any database."""
    world.app.migrate()
    PROMISES[name](world)
    check(world.rows)
