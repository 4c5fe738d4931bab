"""Old things go in batches that hold nobody up, and nothing is left of them that would add up."""

from __future__ import annotations

import threading

import pytest

from holdfast import Key, LeaseLost
from holdfast.store import tend
from holdfast.store.tables import TABLES
from holdfast.worker import clerk
from tests.conformance.world import World
from tests.workers import working


def finished(store: World, count: int) -> None:
    store.app.enqueue_many(store.add.bind(number) for number in range(count))
    while lease := store.app.claim():
        store.app.finish(lease, 0)


def prune_once(store: World) -> int:
    return store.app.store.write(lambda moment: tend.prune(moment, moment.now))


def test_a_batch_ends_where_its_events_would_become_too_many(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(store, 5)  # with three events each
    store.clock.advance(1)
    monkeypatch.setattr(tend, "PRUNE_EVENTS_MAX", 7)
    assert [prune_once(store) for _ in range(4)] == [2, 2, 1, 0]


def test_a_job_with_more_events_than_a_batch_may_have_goes_alone(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(store, 2)
    store.clock.advance(1)
    monkeypatch.setattr(tend, "PRUNE_EVENTS_MAX", 1)
    assert [prune_once(store) for _ in range(3)] == [1, 1, 0]


@pytest.mark.parametrize("forget", ["delete", "prune"])
def test_nothing_is_left_of_a_job_in_any_table_that_has_its_rows(store: World, forget: str) -> None:
    job = store.add.using(attempts=1, key=Key("k", scope="active"), tags=["eu"], callback="https://example.com/").enqueue(1)
    store.app.fail(store.claim(queues=["default"]), "broken")
    store.clock.advance(1)
    ((seq,),) = store.rows(f"SELECT seq FROM holdfast_job WHERE id = '{job.id}'")
    own = [table for table in TABLES if table.job is not None and table.name not in ("ready", "scheduled", "running")]
    assert all(store.rows(f"SELECT * FROM holdfast_{table.name} WHERE {table.job} = {seq}") for table in own)
    if forget == "delete":
        store.app.delete(job.id)
    else:
        assert prune_once(store) == 1
    left = [table.name for table in own if store.rows(f"SELECT * FROM holdfast_{table.name} WHERE {table.job} = {seq}")]
    assert left == []


def test_keys_that_outlived_their_jobs_go_when_their_time_is_over(store: World) -> None:
    store.add.using(key=Key("for a minute", scope=60)).enqueue(1)
    store.add.using(key=Key("forever")).enqueue(1)
    while lease := store.app.claim():
        store.app.finish(lease, 0)
    store.clock.advance(10)
    assert store.app.prune(5) == 2
    store.app.store.write(tend.forget)
    assert len(store.rows("SELECT key FROM holdfast_key")) == 2
    store.clock.advance(60)
    store.app.store.write(tend.forget)
    assert store.rows("SELECT key FROM holdfast_key") == [('["forever"]',)]


def test_the_key_of_a_job_that_failed_for_good_leaves_nothing_behind(store: World) -> None:
    store.once.using(key=Key("once")).enqueue("x")
    lease = store.app.claim()
    assert lease is not None
    store.app.fail(lease, "boom")
    store.clock.advance(10)
    assert store.app.prune(5) == 1
    assert store.rows("SELECT key FROM holdfast_key") == []


@pytest.mark.parametrize("forget", ["delete", "prune"])
def test_a_new_job_is_not_mistaken_for_one_that_was_forgotten(store: World, forget: str) -> None:
    """Its number inside the store is never given out again: a late holder of the old job cannot write about the new one."""
    old = store.add.enqueue(1)
    late = store.claim()
    store.app.cancel(old.id)
    if forget == "delete":
        store.app.delete(old.id)
    else:
        store.clock.advance(1)
        assert store.app.prune(older_than=0) == 1
    store.add.enqueue(2)
    lease = store.claim()
    assert lease.token == late.token
    with pytest.raises(LeaseLost):
        store.app.finish(late, 1)
    store.app.finish(lease, 2)


def test_an_idle_worker_beats_without_asking_for_anything_else_and_forgets_once_in_a_while(
    store: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[list[str]] = [[]]
    looked, beaten, forgot = threading.Event(), threading.Event(), threading.Event()

    def listen(what: str) -> None:
        turns[-1].append(what)
        if what == "work_to_do":
            looked.set()
        if what == "committed":
            if "forget_workers" in turns[-1]:
                forgot.set()
            if "beat" in turns[-1]:
                beaten.set()
            turns.append([])

    def beat() -> set[str]:
        """What is said in the transaction of the next beat, but for how it ends."""
        looked.clear()
        assert looked.wait(20)
        turns[:] = [[]]
        beaten.clear()
        store.clock.advance(11)  # a third of the lease
        assert beaten.wait(20)
        return {what for turn in turns if "beat" in turn for what in turn} - {"work_to_do", "commit"}

    store.app.store.probe = listen
    with working(store.app, lease=30):
        assert "forget_workers" in beat()  # the first one
        assert [beat() for _ in range(3)] == [{"begin", "beat", "committed"}] * 3
        forgot.clear()
        monkeypatch.setattr(clerk, "PRUNE_SECONDS", 0.0)
        assert any(beat() and forgot.is_set() for _ in range(5))


def test_f7_a_dry_run_counts_and_removes_nothing(store: World) -> None:
    finished(store, 3)
    store.clock.advance(10)
    finished(store, 2)
    assert store.app.prune(5, dry_run=True) == 3
    assert len(store.app.jobs()) == 5
    assert store.app.prune(5) == 3
    assert store.app.prune(5, dry_run=True) == 0
