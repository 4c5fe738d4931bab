"""Keys: one job per key within its scope, whoever asks and however often."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from holdfast import Conflict, Job, JobNotFound, Key, State
from tests.conformance.world import World

SCOPES = ("forever", "active", 60.0)
FAILED = ("free", "hold")


def keyed(store: World, number: int = 1, **options: Any) -> Job:
    return store.add.using(key=Key("client-7", "req", **options), attempts=1).enqueue(number)


def blocks(scope: object, failed: str, state: State, seconds: float) -> bool:
    """What Key's documentation says, in other words than the engine's."""
    if state == State.FAILED and failed == "free":
        return False
    if scope == "forever":
        return True
    if scope == "active":
        return state in (State.READY, State.SCHEDULED, State.RUNNING)
    return seconds < 60


def lead_to(store: World, state: State) -> None:
    if state is State.CANCELLED:
        store.app.cancel(store.app.jobs()[0].id)
    elif state is not State.READY:
        lease = store.claim(seconds=1000)
        if state is State.SUCCEEDED:
            store.app.finish(lease, 1)
        elif state is State.FAILED:
            store.app.fail(lease, "broken")
        elif state is State.SKIPPED:
            store.app.skip(lease, "not needed")


STATES = [State.READY, State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED]


@pytest.mark.parametrize(("scope", "failed", "state"), list(itertools.product(SCOPES, FAILED, STATES)))
def test_who_blocks_whom(store: World, scope: object, failed: str, state: State) -> None:
    for seconds in (0, 61):
        first = keyed(store, 1, scope=scope, failed=failed, conflict="replace")
        lead_to(store, state)
        store.clock.advance(seconds)
        second = keyed(store, 2, scope=scope, failed=failed)
        if blocks(scope, failed, state, seconds):
            assert (second.id, second.created, second.same_arguments, second.state) == (first.id, False, False, state)
            with pytest.raises(Conflict, match="is held by job"):
                keyed(store, 1, scope=scope, failed=failed, conflict="raise")
        else:
            assert second.id != first.id
            assert second.created
            assert store.state(first) == state
        for job in store.app.jobs(state="running"):
            store.app.cancel(job.id)
        for job in store.app.jobs():
            store.app.delete(job.id)


@pytest.mark.parametrize(("scope", "state"), list(itertools.product(SCOPES, STATES)))
def test_replace_cancels_what_is_open_and_takes_the_key(store: World, scope: object, state: State) -> None:
    first = keyed(store, 1, scope=scope, failed="hold")
    lead_to(store, state)
    second = keyed(store, 2, scope=scope, conflict="replace")
    assert second.created
    assert second.id != first.id
    found = store.app.find(("client-7", "req"))
    assert found is not None
    assert found.id == second.id
    ended = state not in (State.READY, State.RUNNING)
    assert store.state(first) == (state if ended else State.CANCELLED)


def test_the_same_arguments_are_told_from_others(store: World) -> None:
    keyed(store, 1)
    assert keyed(store, 1).same_arguments
    assert not keyed(store, 2).same_arguments
    assert store.app.stats() == {"add": {"ready": 1}}


def test_find_knows_the_last_holder_and_nobody_else(store: World) -> None:
    assert store.app.find("nobody") is None
    first = keyed(store)
    for asked in (("client-7", "req"), Key("client-7", "req"), Key("client-7", "req", scope="active")):
        found = store.app.find(asked)
        assert found is not None
        assert found.id == first.id
    assert store.app.find("client-7") is None


def test_parts_are_not_glued_together(store: World) -> None:
    keys: list[str | int | tuple[str | int, ...]] = [("a", "bc"), ("ab", "c"), ("a", 1), ("a", "1"), "abc", 1, "1"]
    jobs = [store.add.using(key=key).enqueue(1) for key in keys]
    assert len({job.id for job in jobs}) == 7


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.CANCELLED, State.SKIPPED, State.FAILED])
def test_a_key_that_lasts_forever_outlives_its_pruned_job(store: World, state: State) -> None:
    first = keyed(store, 1, failed="hold")
    lead_to(store, state)
    store.clock.advance(10)
    assert store.app.prune(5) == 1
    again = keyed(store, 2)
    assert (again.id, again.state, again.created, again.task) == (first.id, state, False, "add")
    assert (store.get(first.id).state, store.get(first.id).pruned) == (state, True)
    found = store.app.find(("client-7", "req"))
    assert found is not None
    assert (found.id, found.state) == (first.id, state)
    with pytest.raises(Conflict):
        keyed(store, 2, conflict="raise")
    assert keyed(store, 3, conflict="replace").created


def test_a_failed_job_that_was_pruned_does_not_hold_its_key(store: World) -> None:
    keyed(store, 1)
    lead_to(store, State.FAILED)
    store.clock.advance(10)
    store.app.prune(5)
    assert store.app.find(("client-7", "req")) is None
    assert keyed(store, 1).created


def test_a_key_of_so_many_seconds_outlives_its_pruned_job_that_long(store: World) -> None:
    first = keyed(store, 1, scope=60)
    lead_to(store, State.SUCCEEDED)
    store.clock.advance(10)
    assert store.app.prune(5) == 1
    assert keyed(store, 1, scope=60).id == first.id
    store.clock.advance(51)
    assert keyed(store, 1, scope=60).created


def test_an_active_key_goes_with_its_pruned_job(store: World) -> None:
    keyed(store, 1, scope="active")
    lead_to(store, State.SUCCEEDED)
    store.clock.advance(10)
    store.app.prune(5)
    assert store.app.find(("client-7", "req")) is None
    assert keyed(store, 1, scope="active").created


def test_a_deleted_job_frees_its_key(store: World) -> None:
    first = keyed(store)
    store.app.delete(first.id)
    assert store.app.find(("client-7", "req")) is None
    assert keyed(store).created


def test_deleting_an_old_holder_leaves_the_key_with_the_new_one(store: World) -> None:
    first = keyed(store)
    second = keyed(store, 2, conflict="replace")
    store.app.delete(first.id)
    assert keyed(store, 3).id == second.id


def test_pruning_an_old_holder_leaves_the_key_with_the_new_one(store: World) -> None:
    keyed(store)
    second = keyed(store, 2, conflict="replace")
    store.clock.advance(10)
    assert store.app.prune(5) == 1
    assert keyed(store, 3).id == second.id


def test_a_retried_job_has_its_key_again(store: World) -> None:
    first = keyed(store, 1)
    lead_to(store, State.FAILED)
    store.app.retry(first.id)
    assert keyed(store, 2).id == first.id


def test_a_retried_job_takes_its_key_back_from_one_that_lost_it(store: World) -> None:
    first = keyed(store, 1)
    lead_to(store, State.FAILED)
    second = keyed(store, 2)
    lead_to(store, State.FAILED)
    store.app.retry(first.id)
    assert keyed(store, 3).id == first.id
    with pytest.raises(Conflict, match=first.id):
        store.app.retry(second.id)


def test_a_retry_does_not_make_two_of_one_key(store: World) -> None:
    first = keyed(store, 1)
    lead_to(store, State.FAILED)
    second = keyed(store, 2)
    before = store.everything()
    with pytest.raises(Conflict, match=f"held by job {second.id}"):
        store.app.retry(first.id)
    assert store.everything() == before


def test_a_retried_job_takes_its_key_also_when_the_later_holder_was_deleted(store: World) -> None:
    first = keyed(store, 1)
    lead_to(store, State.FAILED)
    second = keyed(store, 2)
    store.app.delete(second.id)
    store.app.retry(first.id)
    assert keyed(store, 3).id == first.id


def test_an_unfinished_retry_of_the_engines_own_keeps_the_key(store: World) -> None:
    job = store.add.using(key=Key("k", scope="active")).enqueue(1)
    store.app.fail(store.claim(), "broken")
    assert store.state(job) == State.SCHEDULED
    assert store.add.using(key=Key("k", scope="active")).enqueue(1).id == job.id


def test_sixty_four_callers_of_one_key_get_one_job(store: World) -> None:
    apps = [store.another() for _ in range(4)]
    barrier = threading.Barrier(64)
    ids: list[str] = []

    def ask(number: int) -> None:
        task = apps[number % 4].task_named("add").using(key="one")
        barrier.wait()
        ids.append(task.enqueue(1).id)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 64
    assert len(set(ids)) == 1
    assert store.app.stats() == {"add": {"ready": 1}}


def test_f6_a_job_that_was_pruned_is_what_its_key_remembers_however_it_is_asked_for(store: World) -> None:
    job = store.add.using(key=Key("once")).enqueue(1)
    other = store.add.enqueue(1)
    while lease := store.app.claim():
        store.app.finish(lease, 2)
    store.clock.advance(8 * 86_400)
    assert store.app.prune(7 * 86_400) == 2
    again = store.add.using(key=Key("once")).enqueue(1)
    found = [again, store.app.find(Key("once")), store.app.get(job.id), store.app.wait(job.id, timeout=5)]
    for each in found:
        assert each is not None
        assert (each.id, each.task, each.state, each.pruned, each.result, each.created) == (
            job.id, "add", "succeeded", True, None, False,
        )  # fmt: skip
    assert list(store.app.events(job.id)) == list(store.app.events(job.id, follow=True)) == []
    assert store.app.get(other.id) is None
    with pytest.raises(JobNotFound):
        store.app.wait(other.id, timeout=5)


def test_f6_an_id_that_was_given_again_is_the_new_job(store: World) -> None:
    store.add.using(key=Key("old"), id="mine").enqueue(1)
    store.app.finish(store.claim(), 2)
    store.clock.advance(10)
    assert store.app.prune(5) == 1
    store.add.using(id="mine").enqueue(5)
    assert (store.get("mine").state, store.get("mine").pruned) == ("ready", False)
