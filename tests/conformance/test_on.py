"""`on=`: the whole client inside a transaction that is the caller's own, here through sqlite3."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest

from holdfast import Conflict, IllegalMove, Key, LeaseLost, SettingError, State
from tests.conformance.world import World


@pytest.fixture
def connection(store: World) -> Iterator[sqlite3.Connection]:
    if store.app.store.dialect != "sqlite":
        pytest.skip("another database has another driver")
    store.app.migrate()
    connection = sqlite3.connect(store.app.store.path)
    connection.execute("CREATE TABLE document (name TEXT)")
    yield connection
    connection.close()


def test_a_job_commits_with_the_callers_rows(store: World, connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO document VALUES ('a.pdf')")
    job = store.add.using(on=connection).enqueue(1)
    assert store.app.get(job.id) is None
    connection.commit()
    assert store.state(job) == State.READY


def test_a_job_vanishes_with_the_callers_rollback(store: World, connection: sqlite3.Connection) -> None:
    before = store.everything()
    job = store.add.using(on=connection, key="k", tags=["x"]).enqueue(1)
    store.app.on(connection).enqueue_many(store.add.bind(n) for n in range(5))
    connection.rollback()
    assert store.everything() == before
    assert store.add.using(key="k").enqueue(1).id != job.id


def test_a_duplicate_never_aborts_the_callers_transaction(store: World, connection: sqlite3.Connection) -> None:
    first = store.add.using(key="k").enqueue(1)
    connection.execute("INSERT INTO document VALUES ('a.pdf')")
    assert store.add.using(key="k", on=connection).enqueue(1).id == first.id
    with pytest.raises(Conflict):
        store.add.using(key=Key("k", conflict="raise"), on=connection).enqueue(1)
    with pytest.raises(IllegalMove):
        store.app.on(connection).retry(first.id)
    with pytest.raises(Conflict):
        store.app.on(connection).enqueue_many([store.once.bind("lost"), store.add.using(key=Key("k", conflict="raise")).bind(1)])
    connection.commit()
    assert connection.execute("SELECT name FROM document").fetchall() == [("a.pdf",)]
    assert store.app.stats() == {"add": {"ready": 1}}


def test_everything_can_be_done_inside_one_transaction(store: World, connection: sqlite3.Connection) -> None:
    app = store.app.on(connection)
    job = app.enqueue(store.add.bind(1))
    assert [each.id for each in app.jobs()] == [job.id]
    lease = app.claim()
    assert lease is not None
    app.renew(lease)
    assert app.finish(lease, 2).result == 2
    skipped = app.skip(app.enqueue(store.add.bind(2)).id, "no need")
    assert app.retry(skipped.id).state == State.READY
    assert app.cancel(skipped.id).state == State.CANCELLED
    app.delete(skipped.id)
    assert app.stats() == {"add": {"succeeded": 1}}
    assert [event.kind for event in app.events(job.id)] == ["enqueued", "started", "succeeded"]
    assert store.app.stats() == {}
    connection.commit()
    assert store.app.stats() == {"add": {"succeeded": 1}}


def test_a_result_commits_with_the_callers_rows_or_not_at_all(store: World, connection: sqlite3.Connection) -> None:
    store.add.enqueue(1)
    lease = store.claim()
    store.app.on(connection).finish(lease, 2)
    connection.rollback()
    assert store.state(lease.job) == State.RUNNING
    connection.execute("INSERT INTO document VALUES ('page 1')")
    store.app.on(connection).finish(lease, 3)
    connection.commit()
    assert store.get(lease.job).result == 3


def test_a_lost_lease_is_told_before_the_caller_commits(store: World, connection: sqlite3.Connection) -> None:
    store.add.enqueue(1)
    lease = store.claim(seconds=1)
    store.clock.advance(2)
    new = store.claim()
    connection.execute("INSERT INTO document VALUES ('by a zombie')")
    with pytest.raises(LeaseLost):
        store.app.on(connection).finish(lease, 2)
    connection.rollback()
    assert store.app.finish(new, 5).result == 5


def test_what_is_no_connection_is_refused(store: World) -> None:
    with pytest.raises(SettingError, match="cannot be a builtins"):
        store.app.on("nonsense").enqueue(store.add.bind(1))


def test_autocommit_without_a_transaction_is_refused(store: World, connection: sqlite3.Connection) -> None:
    auto = sqlite3.connect(store.app.store.path, isolation_level=None)
    with pytest.raises(SettingError, match="BEGIN IMMEDIATE"):
        store.add.using(on=auto).enqueue(1)
    auto.execute("BEGIN IMMEDIATE")
    job = store.add.using(on=auto).enqueue(1)
    auto.execute("COMMIT")
    auto.close()
    assert store.state(job) == State.READY


def test_an_enqueue_in_the_callers_transaction_does_not_wait_for_room(store: World, connection: sqlite3.Connection) -> None:
    """On SQLite that transaction would keep every worker from making room."""
    with pytest.raises(SettingError, match="wait= cannot be used inside a transaction"):
        store.add.using(on=connection, wait=5).enqueue(1)
    connection.rollback()
    assert store.app.jobs() == []
