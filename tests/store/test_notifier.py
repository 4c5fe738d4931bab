"""Notifications of commits on PostgreSQL: of what, on which channel, how soon, and what a failed one costs."""

from __future__ import annotations

import math
import time
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, State, StoreUnavailable
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.notifier import CHANNEL, FOLLOWERS_CHANNEL, GAP_SECONDS, Notifier
from holdfast.store.sql import Wakes
from tests.conformance.world import World
from tests.servers import plain
from tests.store.inside import postgres_store


def flush(app: Holdfast) -> None:
    """What was requested is sent."""
    postgres_store(app)._notifier.close()


@pytest.mark.parametrize("takes_over", [True, False])
def test_an_enqueue_notifies_in_its_own_packet_or_requests_it(
    store: World, monkeypatch: pytest.MonkeyPatch, takes_over: bool
) -> None:
    app, requests, request = store.another(), list[Wakes](), Notifier.request

    def listen(notifier: Notifier, wakes: Wakes) -> None:
        requests.append(wakes)
        request(notifier, wakes)

    monkeypatch.setattr(Notifier, "request", listen)
    monkeypatch.setattr(Notifier, "take_over", lambda _: takes_over)
    task = app.task_named("add")
    task.enqueue(1)  # makes its lane, in a transaction
    flush(app)
    requests.clear()
    with psycopg.connect(plain(store.url), autocommit=True) as listener:
        listener.execute(f"LISTEN {CHANNEL}")
        task.enqueue(2)
        assert [word.payload for word in listener.notifies(timeout=20, stop_after=1)] == [""]
    assert requests == ([] if takes_over else ["workers"])


def test_workers_are_notified_of_work_and_only_followers_of_the_rest(store: World) -> None:
    app = store.another()
    task = app.task_named("add")
    job = task.enqueue(1)
    other = task.enqueue(2)
    with psycopg.connect(plain(store.url), autocommit=True) as listener:
        for channel in (CHANNEL, FOLLOWERS_CHANNEL):
            listener.execute(f"LISTEN {channel}")

        def channels() -> set[str]:
            flush(app)
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
        app.cancel(other.id)  # there is a notice for its holder
        assert channels() == {CHANNEL}
        app.delete(job.id)
        assert channels() == {FOLLOWERS_CHANNEL}


def test_what_is_done_in_the_caller_s_transaction_is_notified_of_when_that_commits(store: World) -> None:
    app = store.another()
    task = app.task_named("add")
    job = task.enqueue(1)
    flush(app)
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


def test_a_notification_that_fails_is_no_fault_of_the_job(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    app, requests = store.another(), list[Wakes]()
    task = app.task_named("add")
    monkeypatch.setattr("holdfast.store.postgres.connection._NOTIFY", "SELECT 1 / 0")
    monkeypatch.setattr(Notifier, "take_over", lambda _: True)
    monkeypatch.setattr(Notifier, "request", lambda _, wakes: requests.append(wakes))
    task.enqueue(1)  # makes its lane, in a transaction
    requests.clear()
    for number in (2, 3):
        assert task.enqueue(number).created
    assert requests == ["workers", "workers"]
    assert store.rows("SELECT count(*) FROM holdfast_job_spec") == [(3,)]


def test_a_statement_that_took_over_and_failed_requests_it(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notification also stood for what others had committed."""
    app, requests = store.another(), list[Wakes]()
    task = app.task_named("add")
    task.enqueue(1)

    def refuse(*_: Any, **__: Any) -> Any:
        raise psycopg.errors.CheckViolation("not this one")

    monkeypatch.setattr(Connection, "run_alone", refuse)
    monkeypatch.setattr(Notifier, "take_over", lambda _: True)
    monkeypatch.setattr(Notifier, "request", lambda _, wakes: requests.append(wakes))
    with pytest.raises(StoreUnavailable, match="CheckViolation"):
        task.enqueue(2)
    assert requests == ["workers"]


def test_followers_are_notified_a_little_later_and_with_what_workers_are(store: World) -> None:
    """A worker that has claimed a job starts it first; but work is not kept waiting by that."""
    notifier = postgres_store(store.another())._notifier
    with psycopg.connect(plain(store.url), autocommit=True) as listener:
        for channel in (CHANNEL, FOLLOWERS_CHANNEL):
            listener.execute(f"LISTEN {channel}")

        def next_channel() -> tuple[str, float]:
            (word,) = listener.notifies(timeout=20, stop_after=1)
            return word.channel, time.monotonic()

        notifier.request("workers")  # which opens its connection
        next_channel()
        for _ in range(3):
            notifier._sent_at, asked_at = -math.inf, time.monotonic()
            notifier.request("followers")
            channel, at = next_channel()
            assert (channel, at - asked_at >= GAP_SECONDS) == (FOLLOWERS_CHANNEL, True)
        with notifier._mutex:
            notifier._sent_at, notifier._requested = -math.inf, "followers"
            notifier._requested_at = math.inf  # by themselves they would never be notified
        notifier._wakeup.set()
        notifier.request("workers")
        assert next_channel()[0] == CHANNEL


def test_a_notification_is_taken_over_now_and_then_with_what_was_requested() -> None:
    notifier = Notifier(no_connection)
    assert notifier.take_over()
    assert not notifier.take_over()
    notifier._sent_at -= GAP_SECONDS
    assert notifier.take_over()
    notifier._requested = "followers"
    assert not notifier.take_over()
    assert notifier._requested
    notifier._sent_at -= GAP_SECONDS
    assert notifier.take_over()
    assert not notifier._requested


def no_connection() -> Any:
    raise AssertionError("no connection may be opened here")
