"""A worker's claims on PostgreSQL: what one transaction says, and what is left where it fails, waits, or is not answered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.store import claim, workers
from holdfast.store.claim import Claim, Cursor, Holder, WorkerGone
from holdfast.store.op import Moment, Op
from holdfast.store.postgres.connection import Connection
from holdfast.worker.clerk import Clerk, Filed
from holdfast.worker.config import WorkerConfig
from holdfast.worker.desk import Desk
from tests.conformance.world import World
from tests.servers import plain
from tests.until import until
from tests.workers import working

LEASE = 30_000_000


@pytest.fixture
def clerk(store: World) -> Iterator[Clerk]:
    """Of a worker that has claimed a job before; eight more are ready."""
    clerk = Clerk(store.app.store, store.app.registry, Desk(4), WorkerConfig("w", "h", 1, None, 30.0, None), print, print)
    clerk.open()
    store.app.enqueue_many(store.add.bind(number) for number in range(9))
    filed = file(store, clerk, size=1)
    clerk._claimer.committed(filed.claim)
    (first,) = filed.claim.jobs
    clerk._runs[first.seq] = clerk._as_run(first, filed.claim, 0.0)
    yield clerk
    clerk._watcher.close()


def file(store: World, clerk: Clerk, size: int = 3, beats: bool = True) -> Filed:
    return store.app.store.write(clerk._filing([], size, tends=False, beats=beats))


def seen(store: World, clerk: Clerk, beats: bool = True) -> tuple[Filed, list[str]]:
    steps: list[str] = []
    store.app.store.probe = steps.append
    filed = file(store, clerk, beats=beats)
    store.app.store.probe = None
    return filed, steps


def places(clerk: Clerk) -> dict[int, tuple[int, int]]:
    cursor = clerk._claimer._cursor
    assert cursor is not None
    return cursor.places


def test_a_turn_beats_finds_the_lanes_and_claims(store: World, clerk: Clerk) -> None:
    filed, steps = seen(store, clerk)
    assert len(filed.claim.jobs) == 3
    assert steps == ["begin", "notices", "beat", "ready_lanes", "ready_in_lane", "claim_jobs", "commit", "committed"]


def test_what_may_wait_for_others_comes_before_the_rows_that_they_may_want(store: World, clerk: Clerk) -> None:
    """A claim that this worker does not know of may be locked, by a transaction that is about to take what is ready."""
    clerk._in_doubt = True
    filed, steps = seen(store, clerk)
    assert len(filed.claim.jobs) == 3
    assert steps.index("claims_of_worker") < steps.index("ready_in_lane")


@pytest.mark.parametrize("beats", [True, False])
def test_a_worker_that_was_given_up_takes_nothing_and_keeps_its_cursor(store: World, clerk: Clerk, beats: bool) -> None:
    before = dict(places(clerk))
    everything = "SELECT count(*) FROM holdfast_ready"
    store.rows("UPDATE holdfast.worker SET id = -id RETURNING 1")
    with pytest.raises(WorkerGone, match="given up for dead"):
        file(store, clerk, beats=beats)
    assert store.rows(everything) == [(8,)]
    assert places(clerk) == before
    store.rows("UPDATE holdfast.worker SET id = -id RETURNING 1")


def test_a_turn_that_is_tried_again_starts_from_the_same_place(store: World, clerk: Clerk) -> None:
    failures = [psycopg.errors.DeadlockDetected("two wait for each other")]

    def fail(what: str) -> None:
        if what == "claim_jobs" and failures:
            raise failures.pop()

    before = dict(places(clerk))
    store.app.store.probe = fail
    filed = file(store, clerk)
    first = store.rows("SELECT min(seq) FROM holdfast_job_spec")[0][0]
    assert [each.seq for each in filed.claim.jobs] == [first + 1, first + 2, first + 3]
    assert places(clerk) == before, "an operation changed something outside itself"
    clerk._claimer.committed(filed.claim)
    assert set(places(clerk).values()) == {(100, first + 3)}


def test_a_claim_that_finds_nothing_writes_nothing(store: World, clerk: Clerk) -> None:
    for job in store.app.jobs(state="ready"):
        store.app.delete(job.id)
    store.clock.advance(1)
    before = store.everything()
    filed, steps = seen(store, clerk, beats=False)
    assert (filed.claim.jobs, filed.beat_tick) == ([], None)
    assert "beat" not in steps
    assert store.everything() == before


def test_a_claim_without_a_beat_is_held_by_a_worker_that_is_there(store: World, clerk: Clerk) -> None:
    """The row cannot be removed under the claim: the job would never expire."""
    with ThreadPoolExecutor(1) as pool, psycopg.connect(plain(store.url)) as other:
        other.execute("UPDATE holdfast.worker SET id = -id")
        claiming = pool.submit(file, store, clerk, beats=False)
        until(lambda: waiting(store) > 0, "the claim waits for the transaction that removes the worker")
        other.commit()
        with pytest.raises(WorkerGone):
            claiming.result(20)
    assert store.rows("SELECT count(*) FROM holdfast_running") == [(1,)]
    store.rows("UPDATE holdfast.worker SET id = -id RETURNING 1")


def hire(store: World) -> int:
    return store.app.store.write(lambda moment: workers.register(moment, "w", "host", 1, LEASE, by_hand=False))


def take(store: World, worker: int, limit: int = 10, leases: dict[str, int] | None = None) -> Claim:
    def run(moment: Moment) -> Op[Claim]:
        lanes = yield from claim.ready_lanes(moment, None, ["add", "once"])
        return (yield from claim.claim(moment, Holder(worker, "w", LEASE, leases or {}), lanes, limit))

    return store.app.store.write(run)


def test_a_lease_of_the_task_s_own_is_given_by_its_name(store: World) -> None:
    store.once.enqueue("x")
    take(store, hire(store), leases={"once": 77, "add": 88})
    assert store.rows("SELECT lease FROM holdfast_running") == [(77,)]


def test_the_order_is_that_of_urgency_over_all_lanes(store: World) -> None:
    again = store.add.using(id="again").enqueue(0)
    store.app.fail(store.claim(), "not yet")
    store.clock.advance(10)
    assert store.app.claim(queues=["nothing"]) is None  # which promotes it
    assert again.id == "again"
    store.add.using(id="first").enqueue(1)
    store.once.using(id="urgent", priority=3).enqueue("x")
    store.add.using(id="rich", key="one", tags=["a", "b"], meta={"user": 7}, parent="first").enqueue(3, b=4)
    store.once.using(id="next").enqueue("y")
    claimed = take(store, hire(store), 4).jobs
    assert [each.id for each in claimed] == ["urgent", "again", "first", "rich"]
    assert [each.attempt for each in claimed] == [1, 2, 1, 1]
    assert claimed[3].extras.meta == '{"user":7}'


def test_what_another_transaction_has_locked_is_passed_over(store: World) -> None:
    store.add.using(id="theirs").enqueue(1)
    worker = hire(store)
    with psycopg.connect(plain(store.url)) as other:
        other.execute("SELECT 1 FROM holdfast.ready FOR UPDATE")
        assert take(store, worker).jobs == []
        store.add.using(id="ours").enqueue(2)
        assert [each.id for each in take(store, worker).jobs] == ["ours"]


# The cursor


def test_a_cursor_is_followed_while_there_is_enough_and_for_a_second() -> None:
    start = Cursor()
    assert start.text is None
    first = start.moved(1_000, {7: (100, 5)}, enough=True)
    assert (first.places, first.text) == ({7: (100, 5)}, "[[7,100,5]]")
    second = first.moved(900_000, {8: (50, 9)}, enough=True)
    assert second.places == {7: (100, 5), 8: (50, 9)}
    assert second.moved(1_001_000, {8: (50, 12)}, enough=True).places == {}, "once a second it looks from the start"
    assert second.moved(950_000, {}, enough=False).places == {}, "and when it finds too little"


# In a worker


def test_a_job_that_comes_to_an_idle_worker_is_claimed_without_a_look_first(store: World) -> None:
    steps: list[str] = []
    idle = threading.Event()

    def listen(what: str) -> None:
        steps.append(what)
        if what == "work_to_do":
            idle.set()

    store.app.store.probe = listen
    with working(store.app, lease=30):
        assert idle.wait(20)
        add = store.another().task_named("add")
        for number in range(50):  # the look that comes every second may be going on as a job comes
            steps.clear()
            job = add.enqueue(number)
            store.app.wait(job, timeout=20)
            if "work_to_do" not in steps[: steps.index("claim_jobs")]:
                break
    assert "work_to_do" not in steps[: steps.index("claim_jobs")]
    assert "beat" not in steps[: steps.index("claim_jobs")]
    assert store.kinds(job) == ["enqueued", "started", "succeeded"]


def test_what_was_claimed_and_whose_answer_was_lost_is_given_back_at_once(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when the lease is over: its worker beats, and would hold it for ever. That its fate is not known is the worst case."""
    commit, lost, armed = Connection.commit, list[str](), threading.Event()

    def losing(connection: Connection) -> None:
        commit(connection)
        if armed.is_set() and not lost and store.rows("SELECT 1 FROM holdfast_running"):
            lost.append(str(connection.transaction))
            connection.raw.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(Connection, "commit", losing)
    monkeypatch.setattr(Connection, "fate", lambda *_: None)
    add = store.another().task_named("add")
    with working(store.app, lease=30):
        store.app.wait(add.enqueue(0), timeout=20)
        armed.set()
        job = add.enqueue(1)
        store.app.wait(job, timeout=20)
    assert len(lost) == 1
    assert store.kinds(job) == ["enqueued", "started", "released", "started", "succeeded"]
    assert store.get(job).attempt == 1


def waiting(store: World) -> int:
    """Statements that wait for a lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return int(store.rows(query)[0][0])


def test_what_is_claimed_after_its_worker_gave_the_statement_up_is_not_lost(store: World) -> None:
    """As when the disk, or a standby, lets a commit wait for longer than the worker does."""
    app = Holdfast(store.url)  # with the server's clock
    app.task(name="add")(lambda a: a)
    with app, working(app, lease=3):
        app.wait(app.task_named("add").enqueue(0), timeout=20)
        with psycopg.connect(plain(store.url)) as stall:
            stall.execute("SELECT 1 FROM holdfast.worker FOR UPDATE")
            job = store.another().task_named("add").enqueue(1)
            until(lambda: waiting(store) >= 2, "the statement waits, and so does what its worker does next")
        assert app.wait(job, timeout=20).state == "succeeded"
    assert store.rows("SELECT * FROM holdfast_running") == []


def test_a_worker_rests_while_another_transaction_holds_the_only_job_and_tends_what_is_due(store: World) -> None:
    app = Holdfast(store.url)
    app.task(name="add")(lambda a: a)
    store.add.enqueue(1)
    steps: list[str] = []
    app.store.probe = steps.append
    with app, psycopg.connect(plain(store.url)) as holder:
        holder.execute("SELECT 1 FROM holdfast.ready FOR UPDATE")
        with working(app, lease=30):
            due = app.task_named("add").using(run_after=1.2, queue="another").enqueue(2)
            assert app.wait(due, timeout=20).state == "succeeded"
            assert steps.count("begin") < 50
