"""Acting from outside: what is legal does what the table says, what is not changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from holdfast import IllegalMove, Job, Lease, LeaseLost, State
from holdfast.domain.bounds import PRUNE_BATCH_MAX
from holdfast.domain.states import EVENTS, FINAL, MOVES
from holdfast.store import control
from holdfast.store.op import Moment, Op
from tests.conformance.world import REACHABLE, World

VERBS: dict[str, Callable[[World, str], object]] = {
    "cancel": lambda store, job: store.app.cancel(job, "why"),
    "skip": lambda store, job: store.app.skip(job, "why"),
    "retry": lambda store, job: store.app.retry(job),
    "delete": lambda store, job: store.app.delete(job),
}
PAIRS = list(itertools.product(REACHABLE, VERBS))
LEGAL = [pair for pair in PAIRS if pair in MOVES]
ILLEGAL = [pair for pair in PAIRS if pair not in MOVES]


def test_the_table_leaves_something_to_test() -> None:
    assert len(LEGAL) + len(ILLEGAL) == 7 * 4
    assert len(ILLEGAL) == 4 + 4 + 4 + 1


@pytest.mark.parametrize(("state", "verb"), LEGAL)
def test_a_legal_verb_makes_the_move_of_the_table(store: World, state: State, verb: str) -> None:
    job = store.job_in(state)
    kinds = store.kinds(job)
    VERBS[verb](store, job.id)
    after = MOVES[state, verb]
    if after is None:
        assert store.app.get(job.id) is None
        return
    now = store.get(job)
    assert now.state == after
    assert store.kinds(job) == [*kinds, EVENTS[verb]]
    if after in FINAL:
        assert (now.error, now.finished_at) == ("why", store.clock.moment)


@pytest.mark.parametrize(("state", "verb"), ILLEGAL)
def test_an_illegal_verb_says_so_and_changes_nothing(store: World, state: State, verb: str) -> None:
    job = store.job_in(state)
    before = store.everything()
    with pytest.raises(IllegalMove, match=f"{state} cannot be moved by '{verb}'"):
        VERBS[verb](store, job.id)
    assert store.everything() == before


BY_LEASE: dict[str, Callable[[World, Lease], object]] = {
    "finish": lambda store, lease: store.app.finish(lease, 1),
    "fail": lambda store, lease: store.app.fail(lease, "broken"),
    "skip": lambda store, lease: store.app.skip(lease, "why"),
    "release": lambda store, lease: store.app.release(lease),
    "renew": lambda store, lease: store.app.renew(lease),
}
AWAY: dict[State, Callable[[World, Job], object]] = {
    State.READY: lambda store, job: (store.app.cancel(job.id), store.app.retry(job.id)),
    State.CANCELLED: lambda store, job: store.app.cancel(job.id),
    State.SKIPPED: lambda store, job: store.app.skip(job.id, "why"),
    State.RUNNING: lambda store, job: (store.app.cancel(job.id), store.app.retry(job.id), store.claim()),
}


@pytest.mark.parametrize(("state", "verb"), list(itertools.product(AWAY, BY_LEASE)))
def test_a_lease_is_worth_nothing_once_the_job_was_taken_away(store: World, state: State, verb: str) -> None:
    store.add.enqueue(1)
    lease = store.claim()
    AWAY[state](store, lease.job)
    assert store.state(lease.job) == state
    before = store.everything()
    with pytest.raises(LeaseLost):
        BY_LEASE[verb](store, lease)
    assert store.everything() == before


@pytest.mark.parametrize(("first", "second"), list(itertools.product(["finish", "fail", "skip", "release"], BY_LEASE)))
def test_a_lease_can_be_ended_once(store: World, first: str, second: str) -> None:
    store.add.enqueue(1)
    lease = store.claim()
    BY_LEASE[first](store, lease)
    before = store.everything()
    with pytest.raises(LeaseLost):
        BY_LEASE[second](store, lease)
    assert store.everything() == before


def test_a_retried_job_has_fresh_attempts_and_a_token_that_goes_on(store: World) -> None:
    job = store.add.using(attempts=2).enqueue(1)
    for _ in range(2):
        store.app.fail(store.claim(), "broken")
        store.clock.advance(10)
    failed = store.get(job)
    assert (failed.state, failed.attempt, failed.token) == (State.FAILED, 2, 2)
    again = store.app.retry(job.id)
    assert (again.state, again.attempt, again.token, again.error, again.finished_at) == (State.READY, 0, 2, None, None)
    lease = store.claim()
    assert (lease.token, lease.job.attempt) == (3, 1)
    assert len(store.get(job).errors) == 2
    assert store.app.finish(lease, 2).error is None


def test_cancelling_a_running_job_ends_it_at_once_and_tells_its_holder(store: World) -> None:
    store.add.enqueue(1)
    lease = store.claim()
    cancelled = store.app.cancel(lease.job.id, "no longer wanted")
    assert (cancelled.state, cancelled.error) == (State.CANCELLED, "no longer wanted")
    with pytest.raises(LeaseLost):
        store.app.finish(lease, 2)
    assert store.get(lease.job).result is None


def test_deleting_takes_everything_along(store: World) -> None:
    job = store.add.using(tags=["a", "b"], key="k", attempts=1).enqueue(1)
    store.app.fail(store.claim(), "broken")
    store.app.delete(job.id)
    for table in ("job", "job_spec", "event", "error", "tag", "key", "ready", "finished"):
        assert store.rows(f"SELECT count(*) FROM holdfast_{table}") == [(0,)], table


def test_pruning_takes_what_ended_before_and_leaves_the_rest(store: World) -> None:
    old = [store.job_in(state) for state in (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED)]
    open_ = [store.job_in(state) for state in (State.SCHEDULED, State.READY, State.RUNNING)]
    store.clock.advance(10)
    young = store.job_in(State.SUCCEEDED)
    assert store.app.prune(10) == 0, "they ended 10 seconds ago, not longer"
    store.clock.advance(0.001)
    assert store.app.prune(10) == len(old)
    assert [store.app.get(job.id) for job in old] == [None] * len(old)
    assert {job.id for job in store.app.jobs()} == {job.id for job in [*open_, young]}


def test_pruning_works_in_batches_until_all_is_gone(store: World) -> None:
    count = PRUNE_BATCH_MAX * 2 + 3
    batch = store.app.enqueue_many(store.add.using(tags=["x"]).bind(n) for n in range(count))
    for id in batch.ids[:3]:
        store.app.cancel(id)
    others = store.app.enqueue_many(store.add.bind(n) for n in range(3))
    store.app.store.write(lambda moment: cancel_all(moment, batch.ids[3:]))
    store.clock.advance(1)
    assert store.app.prune(0) == count
    assert {job.id for job in store.app.jobs()} == set(others.ids)
    assert store.rows("SELECT count(*) FROM holdfast_event") == [(0,)], "the first event is the job itself"


def cancel_all(moment: Moment, ids: list[str]) -> Op[None]:
    """In one transaction: a thousand commits would only be slow."""
    for id in ids:
        yield from control.cancel(moment, id, "why")
