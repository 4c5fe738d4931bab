"""Working by hand: claim, renew, and end a job with the token that the claim gave."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast import Cancelled, Fatal, PayloadError, RetryAfter, SettingError, Skip, Snooze, State
from tests.conformance.world import DELAYS, World


def test_a_claim_counts_the_attempt_and_gives_the_next_token(store: World) -> None:
    job = store.add.enqueue(1, 2)
    lease = store.claim(seconds=40, worker="hand")
    assert (lease.token, lease.seconds, lease.expires_at) == (1, 40.0, store.clock.moment + timedelta(seconds=40))
    assert (lease.job.id, lease.job.state, lease.job.attempt, lease.job.arguments) == (job.id, "running", 1, {"a": 1, "b": 2})
    stored = store.get(job)
    assert (stored.state, stored.attempt, stored.token, stored.started_at) == (State.RUNNING, 1, 1, store.clock.moment)


def test_a_claimed_job_brings_all_it_was_given(store: World) -> None:
    store.add.using(priority=3, tags=["a"], meta={"m": 1}, key=("k", 2), parent="p", run_after=1).enqueue(1)
    store.clock.advance(1)
    job = store.claim().job
    assert (job.priority, job.tags, job.meta, job.key, job.parent) == (3, ("a",), {"m": 1}, ("k", 2), "p")
    assert job.run_after == store.clock.moment


def test_one_job_goes_to_one_holder(store: World) -> None:
    batch = store.app.enqueue_many(store.add.bind(n) for n in range(10))
    other = store.another()
    claimed = [(other if n % 2 else store.app).claim() for n in range(11)]
    assert claimed[10] is None
    assert [lease.job.id for lease in claimed if lease is not None] == list(batch.ids)


def test_finish_stores_result_and_meter(store: World) -> None:
    store.add.enqueue(1)
    done = store.app.finish(store.claim(), 2, meter={"gpu_seconds": 1.5, "tokens": 10})
    assert (done.state, done.result, done.meter) == (State.SUCCEEDED, 2, {"gpu_seconds": 1.5, "tokens": 10.0})
    assert done.finished_at == store.clock.moment


def test_what_cannot_be_stored_leaves_the_lease_as_it_was(store: World) -> None:
    store.add.enqueue(1)
    lease = store.claim()
    before = store.everything()
    with pytest.raises(PayloadError):
        store.app.finish(lease, float("nan"))
    with pytest.raises(SettingError):
        store.app.finish(lease, 2, meter={"tokens": float("nan")})
    assert store.everything() == before
    assert store.app.finish(lease, 2).state == State.SUCCEEDED


def test_every_delay_is_used_once_and_then_it_fails(store: World) -> None:
    job = store.add.enqueue(1)
    for attempt, delay in enumerate(DELAYS, 1):
        failed = store.app.fail(store.claim(), f"broken {attempt}")
        assert (failed.state, failed.attempt) == (State.SCHEDULED, attempt)
        assert failed.run_after == store.clock.moment + timedelta(seconds=delay)
        assert failed.error == f"Error: broken {attempt}"
        store.clock.advance(delay)
    dead = store.app.fail(store.claim(), ValueError("the last straw"))
    assert (dead.state, dead.attempt, dead.error) == (State.FAILED, 3, "ValueError: the last straw")
    assert [(error.attempt, error.message) for error in dead.errors] == [(1, "broken 1"), (2, "broken 2"), (3, "the last straw")]
    assert store.kinds(job).count("started") == 3
    assert store.app.claim() is None


def test_a_claim_by_hand_may_end_with_any_outcome(store: World) -> None:
    outcomes = {
        Snooze(30): (State.SCHEDULED, 0),
        RetryAfter(30): (State.SCHEDULED, 1),
        Skip("no need"): (State.SKIPPED, 1),
        Fatal("hopeless"): (State.FAILED, 1),
        Cancelled("stop"): (State.CANCELLED, 1),
    }
    for outcome, (state, attempt) in outcomes.items():
        store.add.enqueue(1)
        ended = store.app.fail(store.claim(), outcome)
        assert (ended.state, ended.attempt) == (state, attempt), outcome
        if state == State.SCHEDULED:
            assert ended.run_after == store.clock.moment + timedelta(seconds=30)


def test_snooze_and_release_cost_no_attempt_however_often(store: World) -> None:
    job = store.add.using(attempts=1).enqueue(1)
    for _ in range(4):
        store.app.release(store.claim())
        store.app.fail(store.claim(), Snooze(1))
        store.clock.advance(1)
    lease = store.claim()
    assert (lease.job.attempt, lease.token) == (1, 9)
    assert store.app.finish(lease, 2).state == State.SUCCEEDED
    assert store.kinds(job).count("started") == 9


def test_a_released_job_is_first_in_line_again(store: World) -> None:
    first = store.add.enqueue(1)
    store.add.enqueue(2)
    released = store.app.release(store.claim())
    assert (released.id, released.state, released.attempt) == (first.id, State.READY, 0)
    assert store.claim().job.id == first.id


def test_skip_by_lease_keeps_the_reason(store: World) -> None:
    store.add.enqueue(1)
    skipped = store.app.skip(store.claim(), "the document is gone")
    assert (skipped.state, skipped.error) == (State.SKIPPED, "the document is gone")


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_lease_must_last(store: World, seconds: float) -> None:
    with pytest.raises(SettingError):
        store.app.claim(seconds=seconds)


def test_a_claim_with_nothing_to_do_leaves_no_trace(store: World) -> None:
    store.add.using(run_after=60).enqueue(1)
    before = store.everything()
    assert store.app.claim() is None
    assert store.everything() == before


def test_ended_claims_leave_no_worker_behind(store: World) -> None:
    for end in (lambda lease: store.app.finish(lease, 1), store.app.release, lambda lease: store.app.fail(lease, "x")):
        store.add.enqueue(1)
        end(store.claim())
    assert store.rows("SELECT count(*) FROM holdfast_worker") == [(0,)]
