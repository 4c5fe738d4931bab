"""What an idle worker does in one statement is what a claim does step by step, and it costs nothing where there is nothing."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, State, StoreUnavailable
from holdfast.domain.job import Claimed
from holdfast.store import claim
from holdfast.store.op import Moment, Op, Single, Statement
from holdfast.store.postgres.bell import GAP_SECONDS, Bell
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.place import CHANNEL, FOLLOWERS_CHANNEL, SETTINGS_LOCAL
from holdfast.store.postgres.schema import verbs
from tests.conformance.world import World, postgres_world
from tests.servers import plain
from tests.store.inside import postgres_store
from tests.workers import working

LEASE = 30_000_000
TASKS = ["add", "once"]


def hire(store: World) -> int:
    def make(moment: Moment) -> Op[int]:
        return (yield from claim.register(moment, "w", "host", 1, LEASE, by_hand=False))

    return store.app.store.write(make)


def pick_up(
    store: World, worker: int, limit: int = 10, leases: dict[str, int] | None = None, tasks: list[str] = TASKS, late: int = 0
) -> tuple[list[Claimed], claim.Idle]:
    beats = store.rows(f"SELECT beat_tick FROM holdfast_worker WHERE id = {worker}")
    beat_tick = beats[0][0] - late if beats else 0

    def make(moment: Moment) -> Op[tuple[list[Claimed], claim.Idle]]:
        holder = claim.Holder(worker, "w", LEASE, leases or {})
        return (yield from claim.pick_up(moment, holder, beat_tick, None, tasks, limit))

    return store.app.store.write(Single(make, lambda _: True))


def step_by_step(store: World, worker: int, limit: int = 10) -> list[Claimed]:
    def make(moment: Moment) -> Op[list[Claimed]]:
        yield from claim.beat(moment, worker)
        lanes = yield from claim.ready_lanes(None, TASKS)
        return (yield from claim.claim(moment, claim.Holder(worker, "w", LEASE), lanes, limit))

    return store.app.store.write(make)


def prepare(store: World) -> None:
    """Jobs of one lane: new ones, urgent ones, one with all that a job can have, one that has failed before."""
    add = store.add
    again = add.using(id="again").enqueue(0)
    lease = store.claim()
    store.app.fail(lease, "not yet")
    store.clock.advance(10)
    assert store.app.claim(queues=["nothing"]) is None  # which promotes it
    assert again.id == "again"
    add.using(id="first").enqueue(1)
    add.using(id="urgent", priority=3).enqueue(2)
    add.using(id="rich", key="one", tags=["a", "b"], meta={"user": 7}, parent="first").enqueue(3, b=4)
    for number in range(5):
        add.using(id=f"last-{number}").enqueue(number)


SEEN = (
    "SELECT * FROM holdfast_moved ORDER BY seq",
    "SELECT * FROM holdfast_running ORDER BY seq",
    "SELECT * FROM holdfast_ready ORDER BY seq",
    "SELECT job, number, kind, at, data FROM holdfast_event ORDER BY job, number",
    "SELECT * FROM holdfast_worker WHERE name = 'w'",
)


def test_it_takes_and_leaves_what_the_steps_of_a_claim_do(store: World, tmp_path: Path) -> None:
    twin = postgres_world(tmp_path)
    try:
        for each in (store, twin):
            prepare(each)
        worker, twins = hire(store), hire(twin)
        assert worker == twins
        for world in (store, twin):
            world.clock.advance(1)
        claimed, left = pick_up(store, worker, 7)
        assert claimed == step_by_step(twin, twins, 7)
        assert [each.id for each in claimed] == ["urgent", "again", "first", "rich", "last-0", "last-1", "last-2"]
        assert [each.attempt for each in claimed][:2] == [1, 2]
        assert left == claim.Idle(ready=False, to_tend=False, next_due=None)
        for query in SEEN:
            assert store.rows(query) == twin.rows(query)
    finally:
        twin.close()


def test_a_lease_of_the_task_s_own_is_given_by_its_name(store: World) -> None:
    store.once.enqueue("x")
    pick_up(store, hire(store), leases={"once": 77, "add": 88})
    assert store.rows("SELECT lease FROM holdfast_running") == [(77,)]


def test_who_finds_nothing_writes_nothing(store: World) -> None:
    store.add.using(run_after=60).enqueue(1)
    due = store.clock.now() + 60_000_000
    worker = hire(store)
    store.clock.advance(1)
    before = store.everything()
    assert pick_up(store, worker) == ([], claim.Idle(ready=False, to_tend=False, next_due=due))
    assert store.everything() == before
    store.clock.advance(60)
    assert pick_up(store, worker) == ([], claim.Idle(ready=False, to_tend=True, next_due=due))


def test_jobs_of_tasks_that_it_does_not_have_are_left_alone(store: World) -> None:
    store.add.enqueue(1)
    worker = hire(store)
    assert pick_up(store, worker, tasks=["once"]) == ([], claim.Idle(ready=False, to_tend=False, next_due=None))
    store.once.enqueue("x")
    assert [each.attempt for each in pick_up(store, worker, tasks=["once"])[0]] == [1]


def test_where_several_lanes_have_something_it_is_left_to_the_steps_which_know_the_order(store: World) -> None:
    store.add.enqueue(1)
    store.once.enqueue("x")
    claimed, left = pick_up(store, hire(store))
    assert (claimed, left.ready) == ([], True)


def test_a_worker_that_was_given_up_takes_nothing(store: World) -> None:
    job = store.add.enqueue(1)
    claimed, left = pick_up(store, worker=999)
    assert (claimed, left.ready) == ([], True)
    assert store.state(job) == "ready"


def test_one_that_comes_after_the_next_beat_takes_nothing(store: World) -> None:
    """Its client has given it up, looked whether it had taken anything, and gone on."""
    store.add.enqueue(1)
    claimed, left = pick_up(store, hire(store), late=1)
    assert (claimed, left.ready) == ([], True)


def test_what_somebody_else_is_taking_is_passed_over_and_not_looked_for_again_at_once(store: World) -> None:
    store.add.using(id="theirs").enqueue(1)
    worker = hire(store)
    with psycopg.connect(plain(store.url)) as other:
        other.execute("SELECT 1 FROM holdfast.ready FOR UPDATE")
        claimed, left = pick_up(store, worker)
        assert (claimed, left.ready) == ([], False)
        store.add.using(id="ours").enqueue(2)
        assert [each.id for each in pick_up(store, worker)[0]] == ["ours"]


def test_its_cost_does_not_depend_on_the_backlog(store: World) -> None:
    store.add.enqueue(1)
    worker = hire(store)
    few = pages(store, worker)
    store.app.enqueue_many(store.add.bind(number) for number in range(4000))
    assert pages(store, worker) <= few * 2


def pages(store: World, worker: int) -> int:
    """That the statement looks at, by the plan that it has for ever."""
    sql = verbs("holdfast")["pick_up"]
    values: dict[str, Any] = {
        "queues": None, "tasks": '["add"]', "limit": 1, "now": 1, "tick": 1, "boot": "", "worker": worker, "lease": LEASE,
        "leases": None, "told": '{"worker":"w","attempt":',
        "beat_tick": 0,
    }  # fmt: skip
    with psycopg.connect(plain(store.url), cursor_factory=psycopg.RawCursor) as connection:
        connection.execute(SETTINGS_LOCAL.encode())
        connection.execute(f"PREPARE picking AS {sql.numbered}".encode())
        given = ", ".join("NULL" if value is None else f"'{value}'" for value in sql.values(values))
        row = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE picking ({given})".encode()).fetchone()
        connection.rollback()
    assert row is not None
    top = row[0][0]["Plan"]
    return int(top["Shared Hit Blocks"]) + int(top["Shared Read Blocks"])


# In a worker


def test_a_job_that_comes_to_an_idle_worker_costs_it_one_statement(store: World) -> None:
    said: list[str] = []
    idle = threading.Event()

    def listen(what: str) -> None:
        said.append(what)
        if said[-2:] == ["pick_up", "committed"]:
            idle.set()

    store.app.store.probe = listen
    with working(store.app, lease=30):
        assert idle.wait(20)
        add = store.another().task_named("add")
        for number in range(50):  # the look that comes every second may be going on as a job comes
            said.clear()
            job = add.enqueue(number)
            store.app.wait(job, timeout=20)
            if "claim_jobs" not in said:
                break
    assert "pick_up" in said
    assert "claim_jobs" not in said
    assert store.kinds(job) == ["enqueued", "started", "succeeded"]


def test_what_was_taken_and_whose_answer_was_lost_is_given_back_at_once(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when the lease is over: its worker beats, and would hold it for ever."""
    run, lost = Connection.run_alone, list[Any]()

    def losing(connection: Connection, statement: Statement, **options: Any) -> Any:
        rows, told = run(connection, statement, **options)
        if statement.verb == "pick_up" and rows[0][0] != "[]" and not lost:
            lost.append(rows)
            connection.raw.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return rows, told

    add = store.another().task_named("add")
    with working(store.app, lease=30):
        store.app.wait(add.enqueue(0), timeout=20)  # from here on it listens
        monkeypatch.setattr(Connection, "run_alone", losing)
        for number in range(50):  # on a busy machine it may still be busy with the one before, and take the steps
            job = add.enqueue(number)
            store.app.wait(job, timeout=20)
            if lost:
                break
    assert len(lost) == 1
    assert store.kinds(job) == ["enqueued", "started", "released", "started", "succeeded"]
    assert store.get(job).attempt == 1


def waiting(store: World) -> int:
    """Statements that wait for somebody's lock."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return int(store.rows(query)[0][0])


def test_what_is_taken_after_its_worker_gave_the_statement_up_is_not_lost(store: World) -> None:
    """As when the disk, or a standby, lets a commit wait for longer than the worker does."""
    app = Holdfast(store.url)  # with the server's clock
    app.task(name="add")(lambda a: a)
    with app, working(app, lease=3):
        app.wait(app.task_named("add").enqueue(0), timeout=20)
        with psycopg.connect(plain(store.url)) as stall:
            stall.execute("SELECT 1 FROM holdfast.worker FOR UPDATE")
            job = store.another().task_named("add").enqueue(1)
            deadline = time.monotonic() + 20
            while waiting(store) < 2 and time.monotonic() < deadline:  # the statement, and what its worker does next
                pass
        assert app.wait(job, timeout=20).state == "succeeded"
    assert store.rows("SELECT * FROM holdfast_running") == []


def test_a_worker_rests_while_somebody_holds_the_only_job_and_tends_what_is_due(store: World) -> None:
    app = Holdfast(store.url)
    app.task(name="add")(lambda a: a)
    store.add.enqueue(1)
    said: list[str] = []
    app.store.probe = said.append
    with app, psycopg.connect(plain(store.url)) as holder:
        holder.execute("SELECT 1 FROM holdfast.ready FOR UPDATE")
        with working(app, lease=30):
            due = app.task_named("add").using(run_after=1.2, queue="another").enqueue(2)
            assert app.wait(due, timeout=20).state == "succeeded"
            assert said.count("beat") + said.count("pick_up") < 50


# The word that goes with it


@pytest.mark.parametrize("takes_word", [True, False])
def test_who_enqueues_tells_right_behind_it_or_rings_the_bell(
    store: World, monkeypatch: pytest.MonkeyPatch, takes_word: bool
) -> None:
    app, rung, ring = store.another(), list[bool](), Bell.ring

    def heard(bell: Bell, followers: bool = False) -> None:
        rung.append(followers)
        ring(bell, followers)

    monkeypatch.setattr(Bell, "ring", heard)
    monkeypatch.setattr(Bell, "takes_word", lambda _: takes_word)
    task = app.task_named("add")
    task.enqueue(1)  # makes its lane, in a transaction, of which the bell tells
    app.store._bell.close()  # type: ignore[attr-defined]
    rung.clear()
    with psycopg.connect(plain(store.url), autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        task.enqueue(2)
        assert [word.payload for word in listener.notifies(timeout=20, stop_after=1)] == [""]
    assert rung == ([] if takes_word else [False])


def test_workers_are_told_of_what_they_have_to_do_and_only_followers_of_the_rest(store: World) -> None:
    app = store.another()
    task = app.task_named("add")
    job = task.enqueue(1)
    other = task.enqueue(2)
    with psycopg.connect(plain(store.url), autocommit=True) as listener:
        for channel in (CHANNEL, FOLLOWERS_CHANNEL):
            listener.execute(f"LISTEN {channel}")

        def channels() -> set[str]:
            app.store._bell.close()  # type: ignore[attr-defined]  # which tells what is to be told
            listener.execute("SELECT 1")
            return {word.channel for word in listener.notifies(timeout=0)}

        channels()
        lease = app.claim()
        assert lease is not None
        assert channels() == {FOLLOWERS_CHANNEL}
        app.renew(lease)
        assert channels() == set()
        app.finish(lease, 1)
        assert channels() == {FOLLOWERS_CHANNEL}
        app.cancel(other.id)
        assert channels() == {FOLLOWERS_CHANNEL}
        app.retry(other.id)
        assert channels() == {CHANNEL}
        lease = app.claim()
        assert lease is not None
        channels()
        assert app.fail(lease, "not yet").state is State.SCHEDULED
        assert channels() == {CHANNEL}  # when it is due
        app.skip(other.id, "enough")
        app.retry(other.id)
        assert app.claim() is not None
        channels()
        app.cancel(other.id)  # there is a notice for who held it
        assert channels() == {CHANNEL}
        app.delete(job.id)
        assert channels() == {FOLLOWERS_CHANNEL}


def test_what_is_done_in_the_caller_s_transaction_is_told_of_when_that_ends(store: World) -> None:
    app = store.another()
    task = app.task_named("add")
    job = task.enqueue(1)
    app.store._bell.close()  # type: ignore[attr-defined]
    with psycopg.connect(plain(store.url), autocommit=True) as listener, psycopg.connect(plain(store.url)) as own:
        for channel in (CHANNEL, FOLLOWERS_CHANNEL):
            listener.execute(f"LISTEN {channel}")

        def channels() -> list[str]:
            own.commit()
            return [word.channel for word in listener.notifies(timeout=20, stop_after=1)]

        app.on(own).cancel(job.id)
        assert channels() == [FOLLOWERS_CHANNEL]
        app.on(own).retry(job.id)
        assert channels() == [CHANNEL]
        app.on(own).delete(job.id)
        assert channels() == [FOLLOWERS_CHANNEL]
        app.on(own).enqueue(task.bind(2))
        assert channels() == [CHANNEL]


def test_a_word_that_cannot_be_said_is_no_fault_of_the_job(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    app, rung = store.another(), list[bool]()
    task = app.task_named("add")
    task.enqueue(1)
    monkeypatch.setattr("holdfast.store.postgres.connection._TELL", "SELECT 1 / 0")
    monkeypatch.setattr(Bell, "takes_word", lambda _: True)
    monkeypatch.setattr(Bell, "ring", lambda _, followers=False: rung.append(followers))
    for number in (2, 3):
        assert task.enqueue(number).created
    assert rung == [False, False]
    assert store.rows("SELECT count(*) FROM holdfast_body") == [(3,)]


def test_who_took_the_word_and_failed_rings_the_bell(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was also about what others had committed."""
    app, rung = store.another(), list[bool]()
    task = app.task_named("add")
    task.enqueue(1)

    def refuse(*_: Any, **__: Any) -> Any:
        raise psycopg.errors.CheckViolation("not this one")

    monkeypatch.setattr(Connection, "run_alone", refuse)
    monkeypatch.setattr(Bell, "takes_word", lambda _: True)
    monkeypatch.setattr(Bell, "ring", lambda _, followers=False: rung.append(followers))
    with pytest.raises(StoreUnavailable, match="CheckViolation"):
        task.enqueue(2)
    assert rung == [False]


def test_followers_are_told_a_little_later_and_with_what_others_are_told(store: World) -> None:
    """A worker that has claimed a job has to start it now; but what is ready is not kept waiting by that."""
    bell = postgres_store(store.another())._bell
    with psycopg.connect(plain(store.url), autocommit=True) as listener:
        for channel in (CHANNEL, FOLLOWERS_CHANNEL):
            listener.execute(f"LISTEN {channel}")

        def next_word() -> tuple[str, float]:
            (word,) = listener.notifies(timeout=20, stop_after=1)
            return word.channel, time.monotonic()

        bell.ring()  # which opens its connection
        next_word()
        for _ in range(3):
            bell._told_at, asked_at = -math.inf, time.monotonic()
            bell.ring(followers=True)
            channel, at = next_word()
            assert (channel, at - asked_at >= GAP_SECONDS) == (FOLLOWERS_CHANNEL, True)
        with bell._condition:
            bell._told_at = -math.inf
            bell.ring(followers=True)
            bell._rung_at = math.inf  # by themselves they would never be told
        bell.ring()
        assert next_word()[0] == CHANNEL


def test_the_word_is_taken_now_and_then_with_what_the_bell_has_to_tell() -> None:
    bell = Bell(no_connection)
    assert bell.takes_word()
    assert not bell.takes_word()
    bell._told_at -= GAP_SECONDS
    assert bell.takes_word()
    bell._rung = "something"
    assert not bell.takes_word()
    assert bell._rung
    bell._told_at -= GAP_SECONDS
    assert bell.takes_word()
    assert not bell._rung


def no_connection() -> Any:
    raise AssertionError("nobody may ask for one")
