"""What holders say in one batch: the token decides about each word, and the log stays without gaps whatever comes together."""

from __future__ import annotations

from functools import partial

import pytest

from holdfast import Lease, LeaseLost, State
from holdfast.domain.outcome import Failed, JobError, Released, Skipped, Succeeded, settle
from holdfast.domain.retry import Retry
from holdfast.store.settle import Report
from holdfast.store.settle import settle as write_reports
from tests.conformance.world import World


def said(store: World, lease: Lease, *kinds: str, progress: str | None = None) -> Report:
    events = [(kind, store.clock.now(), None) for kind in kinds]
    return Report(seq=lease.seq, token=lease.token, lane=1, attempt=lease.job.attempt, events=events, progress=progress)


def ended(lease: Lease, outcome: Succeeded | Failed | Released | Skipped) -> Report:
    change = settle(lease.job.attempt, lease.job.attempts_max, outcome, Retry(3, jitter=0), 0.5)
    return Report(seq=lease.seq, token=lease.token, lane=1, attempt=lease.job.attempt, change=change)


def write(store: World, *reports: Report) -> set[int]:
    settled = store.app.store.write(lambda moment: write_reports(moment, reports, None))
    assert settled.busy == set()
    return settled.lost


def test_what_was_said_before_the_end_comes_before_it(store: World) -> None:
    job = store.add.enqueue(1)
    lease = store.claim()
    report = said(store, lease, "page", "page", progress='{"done":2}')
    report.change = ended(lease, Succeeded("2")).change
    assert write(store, report) == set()
    assert store.kinds(job) == ["enqueued", "started", "page", "page", "succeeded"]
    assert store.get(job).progress == {"done": 2}


def test_two_reports_about_one_job_are_numbered_on(store: World) -> None:
    """The second was gathered while the first could not be written."""
    jobs = [store.add.enqueue(n) for n in range(3)]
    one, two, three = (store.claim() for _ in jobs)
    broken = Failed(JobError("ValueError", "broken"))
    lost = write(
        store,
        said(store, one, "page", progress='{"done":1}'),
        said(store, two, "page"),
        said(store, one, "page", "page", progress='{"done":3}'),
        ended(one, broken),
        ended(two, Succeeded("2")),
        ended(three, Skipped("no need")),
    )
    assert lost == set()
    assert store.kinds(jobs[0]) == ["enqueued", "started", "page", "page", "page", "backed_off"]
    assert store.kinds(jobs[1]) == ["enqueued", "started", "page", "succeeded"]
    assert store.get(jobs[0]).progress == {"done": 3}
    assert [store.state(job) for job in jobs] == ["scheduled", "succeeded", "skipped"]


def test_in_one_batch_only_current_tokens_count(store: World) -> None:
    store.add.enqueue(1)
    store.add.enqueue(2)
    old, other = store.claim(seconds=1), store.claim(seconds=100)
    store.clock.advance(2)
    new = store.claim(seconds=100)
    assert (new.job.id, new.token) == (old.job.id, 2)
    assert write(store, ended(old, Succeeded("1")), ended(other, Succeeded("2"))) == {old.seq}
    assert (store.state(old.job), store.state(other.job)) == (State.RUNNING, State.SUCCEEDED)


def test_an_old_and_a_new_claim_of_one_worker_in_one_batch(store: World) -> None:
    job = store.add.enqueue(1)
    old = store.claim(seconds=1)
    store.clock.advance(2)
    new = store.claim(seconds=100)
    write(store, said(store, old, "zombie"), ended(old, Succeeded("1")), said(store, new, "page"), ended(new, Succeeded("2")))
    assert store.get(job).result == 2
    assert store.kinds(job) == ["enqueued", "started", "expired", "started", "page", "succeeded"]


def test_words_about_a_job_that_is_gone_are_left_out(store: World) -> None:
    store.add.enqueue(1)
    lease = store.claim()
    store.app.cancel(lease.job.id)
    store.app.delete(lease.job.id)
    assert write(store, said(store, lease, "zombie"), ended(lease, Succeeded("1"))) == {lease.seq}


def test_c3_a_report_of_another_worker_is_left_out_whatever_its_token(store: World) -> None:
    """After a restore a job may be given out again under the same number and the same token: its first holder must not end it."""
    job = store.add.enqueue(1)
    lease = store.claim()
    plain, spoken = ended(lease, Succeeded("2")), said(store, lease, "page")
    for reports in ([plain], [spoken], [spoken, plain]):
        for waits in (True, False):
            run = partial(write_reports, reports=reports, worker=lease.worker + 1, waits=waits)
            assert store.app.store.write(run).lost == {lease.seq}
    with pytest.raises(LeaseLost):
        store.app.renew(Lease(lease.job, lease.seq, lease.token, lease.worker + 1, lease.seconds, lease.expires_at))
    assert store.kinds(job) == ["enqueued", "started"]
    assert store.app.store.write(partial(write_reports, reports=[plain], worker=lease.worker)).lost == set()
    assert store.kinds(job) == ["enqueued", "started", "succeeded"]
