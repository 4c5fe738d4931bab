"""Leases: renewed by a beat, lost when it stops, decided by a clock that nobody can set, and fenced by the token."""

from __future__ import annotations

import pytest

from holdfast import Holdfast, Job, Lease, LeaseLost, State
from holdfast.domain.bounds import EXPIRE_BATCH_MAX
from holdfast.domain.job import Claimed
from holdfast.store import claim, workers
from holdfast.store.op import Moment, Op, Row
from holdfast.testing import ManualClock
from tests.conformance.world import World

BEAT_ALONE = {"sqlite": ["beat", "commit"], "postgresql": ["commit", "beat"]}
LEASE = 10.0


def leased(store: World) -> Lease:
    store.add.enqueue(1)
    return store.claim(seconds=LEASE, worker="hand-7")


def test_a_job_is_taken_back_only_after_its_lease(store: World) -> None:
    lease = leased(store)
    store.clock.advance(LEASE)
    assert store.app.claim() is None
    store.clock.advance(0.001)
    again = store.claim()
    assert (again.job.id, again.token, again.job.attempt) == (lease.job.id, 2, 2)
    assert store.kinds(lease.job) == ["enqueued", "started", "expired", "started"]


def test_a_job_ten_times_as_long_as_its_lease_runs_once(store: World) -> None:
    lease = leased(store)
    for _ in range(100):
        store.clock.advance(LEASE / 10)
        store.app.renew(lease)
        assert store.app.claim() is None
    assert store.app.finish(lease, 2).state == State.SUCCEEDED


def test_a_late_result_is_accepted_while_nobody_else_has_the_job(store: World) -> None:
    lease = leased(store)
    store.clock.advance(LEASE * 100)
    done = store.app.finish(lease, 2)
    assert (done.state, done.result) == (State.SUCCEEDED, 2)


def test_a_late_renewal_is_accepted_too(store: World) -> None:
    lease = leased(store)
    store.clock.advance(LEASE * 3)
    store.app.renew(lease)
    assert store.app.claim() is None


@pytest.mark.parametrize("taken_again", [False, True])
def test_after_expiry_the_old_token_is_refused_and_the_new_one_counts(store: World, taken_again: bool) -> None:
    lease = leased(store)
    store.clock.advance(LEASE + 1)
    if taken_again:
        new = store.claim()
    else:
        store.app.claim(queues=["nowhere"])
        assert store.state(lease.job) == State.READY
    before = store.everything()
    for write in (
        lambda: store.app.renew(lease),
        lambda: store.app.finish(lease, 99),
        lambda: store.app.fail(lease, "x"),
        lambda: store.app.skip(lease, "x"),
        lambda: store.app.release(lease),
    ):
        with pytest.raises(LeaseLost, match="token 1"):
            write()
    assert store.everything() == before
    if taken_again:
        assert store.app.finish(new, 3).result == 3


def test_a_job_that_kills_its_workers_ends_with_a_reason_that_names_the_last(store: World) -> None:
    job = store.add.using(attempts=2).enqueue(1)
    for _ in range(2):
        store.claim(seconds=LEASE, worker="hand-7")
        store.clock.advance(LEASE + 1)
    assert store.app.claim() is None
    dead = store.get(job)
    assert (dead.state, dead.attempt) == (State.FAILED, 2)
    assert dead.error is not None
    assert dead.error.startswith("WorkerLost: worker hand-7 (")
    assert "attempt 2 of 2" in dead.error
    assert [(error.kind, error.attempt) for error in dead.errors] == [("WorkerLost", 1), ("WorkerLost", 2)]
    assert store.kinds(job) == ["enqueued", "started", "expired", "started", "failed"]


def test_an_expired_job_says_why_while_it_waits_for_its_next_run(store: World) -> None:
    lease = leased(store)
    store.clock.advance(LEASE + 1)
    store.app.claim(queues=["nowhere"])
    waiting = store.get(lease.job)
    assert waiting.state == State.READY
    assert waiting.error is not None
    assert "hand-7" in waiting.error


@pytest.mark.parametrize("seconds", [86_400 * 365, -86_400 * 365])
def test_setting_the_wall_clock_ends_no_lease(store: World, seconds: int) -> None:
    lease = leased(store)
    store.clock.jump(seconds)
    assert store.app.claim() is None
    store.clock.advance(LEASE)
    assert store.app.claim() is None
    store.app.renew(lease)
    assert store.app.finish(lease, 2).state == State.SUCCEEDED


def test_a_reboot_ends_all_leases(store: World) -> None:
    lease = leased(store)
    store.clock.reboot()
    again = store.claim()
    assert (again.job.id, again.token) == (lease.job.id, 2)
    with pytest.raises(LeaseLost):
        store.app.finish(lease, 2)


def test_every_lease_has_a_length_of_its_own(store: World) -> None:
    short = leased(store)
    store.add.enqueue(2)
    long = store.claim(seconds=100)
    store.clock.advance(LEASE + 1)
    assert store.claim().job.id == short.job.id
    assert store.app.claim() is None
    assert store.app.finish(long, 2).state == State.SUCCEEDED


def test_more_dead_leases_than_one_batch_are_all_taken_back(store: World) -> None:
    count = EXPIRE_BATCH_MAX + 5

    def take_all(moment: Moment) -> Op[list[Claimed]]:
        worker = yield from workers.register(moment, "doomed", "host", 1, 10_000_000, by_hand=False)
        lanes = yield from claim.ready_lanes(moment, None, None)
        return (yield from claim.claim(moment, claim.Holder(worker, "doomed", 10_000_000), lanes, count)).jobs

    store.app.enqueue_many(store.add.bind(n) for n in range(count))
    assert len(store.app.store.write(take_all)) == count
    store.clock.advance(LEASE + 1)
    for _ in range(2):
        store.app.claim(queues=["nowhere"])
    assert store.app.stats() == {"add": {"ready": count}}


def test_a_beat_that_is_executed_after_the_next_one_does_not_set_the_clock_back(store: World) -> None:
    """Its client has given it up and gone on."""

    def statement(moment: Moment) -> Op[list[Row]]:
        rows: list[Row] = yield workers.Beat(first, known).alone(moment).statement
        return rows

    first = store.app.store.write(lambda moment: workers.register(moment, "w", "host", 1, 10_000_000, by_hand=False))
    known = store.rows("SELECT beat_tick FROM holdfast_worker")[0][0]
    store.clock.advance(1)
    assert store.app.store.write(statement)
    before = store.everything()
    store.clock.advance(1)
    assert not store.app.store.write(statement)
    assert store.everything() == before


def test_a_beat_by_itself_is_one_statement_or_else_a_transaction_that_tells_whether_the_worker_is_there(store: World) -> None:
    first = store.app.store.write(lambda moment: workers.register(moment, "w", "host", 1, 10_000_000, by_hand=False))
    known = store.rows("SELECT beat_tick FROM holdfast_worker")[0][0]
    seen: list[str] = []
    store.app.store.probe = seen.append
    store.clock.advance(1)
    tick = store.app.store.write(workers.Beat(first, known))
    assert (tick, seen) == (store.clock.tick(), ["begin", *BEAT_ALONE[store.app.store.dialect], "committed"])
    store.clock.advance(1)
    assert store.app.store.write(workers.Beat(first, known)) == store.clock.tick()  # its reply was lost: the beat is not the last
    store.app.store.probe = None
    assert store.app.store.write(workers.Beat(first + 1, known)) is None


def test_a_holder_of_the_same_name_is_another_holder(store: World) -> None:
    lease = leased(store)
    store.clock.advance(LEASE + 1)
    again = store.claim(worker="hand-7")
    with pytest.raises(LeaseLost):
        store.app.renew(lease)
    store.clock.advance(LEASE / 2)
    store.app.renew(again)


def test_a_dead_holder_does_not_keep_a_replaced_job(store: World) -> None:
    """Cancelled while leased, retried, claimed: the first holder's expiry must not touch the second's claim."""
    lease = leased(store)
    store.app.cancel(lease.job.id)
    store.app.retry(lease.job.id)
    new = store.claim(seconds=1000)
    store.clock.advance(LEASE + 1)
    assert store.app.claim() is None
    job: Job = store.app.finish(new, 2)
    assert store.kinds(job) == ["enqueued", "started", "cancelled", "retried", "started", "succeeded"]


class SandboxClock:
    """The clock of a worker on the same machine that has another boot id, or none, or other ticks."""

    def __init__(self, clock: ManualClock, boot: str, ahead: int) -> None:
        self._clock, self._boot, self._ahead = clock, boot, ahead

    def now(self) -> int:
        return self._clock.now()

    def tick(self) -> int:
        return self._clock.tick() + self._ahead

    def boot(self) -> str:
        return self._boot


@pytest.mark.parametrize(("boot", "ahead"), [("", 0), ("boot-1 time:[2]", 100_000_000_000), ("", -100_000_000)])
def test_m10_workers_of_one_machine_that_see_another_boot_do_not_take_each_others_jobs(
    store: World, boot: str, ahead: int
) -> None:
    if store.app.store.dialect != "sqlite":
        pytest.skip("a server has one clock for all")
    lease = leased(store)
    with Holdfast(store.url, clock=SandboxClock(store.clock, boot, ahead)) as sandbox:
        assert sandbox.claim() is None
        store.add.enqueue(2)
        theirs = sandbox.claim(seconds=LEASE)
        assert theirs is not None
        assert store.app.claim() is None
        store.clock.advance(LEASE / 2)
        assert sandbox.claim() is None
        assert store.app.claim() is None
        store.app.renew(lease)
        store.clock.advance(LEASE / 2 + 1)
        again = store.app.claim()
        assert again is not None
        assert again.job.id == theirs.job.id, "a worker that does not renew loses its job, whatever boot it saw"
        assert store.app.finish(lease, 2).state == State.SUCCEEDED
