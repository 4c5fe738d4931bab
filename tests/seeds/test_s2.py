"""S2, instrument runs synced to a NAS: what it needs of the engine, through the async API that it uses.

Its stages become durable steps and waits later; here a stage is a field of the job's progress, which outlives an attempt.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from holdfast import Conflict, Context, Fatal, Holdfast, IllegalMove, Job, JobNotFound, Key, LeaseLost, Retry, Snooze, Task
from holdfast.testing import Crash, CrashPoint, ManualClock, run_to_empty
from tests.seeds.elsewhere import run_there

T = TypeVar("T")
BACKOFF = [30, 120, 480, 1_800, 7_200]


class AuthError(Exception):
    pass


class Nas:
    """The other side: what it answers, and when it was asked."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.error: Exception | None = None
        self.asked: list[float] = []
        self.transferred: list[str] = []
        self.verified = False

    def transfer(self, run_path: str) -> str:
        self.asked.append(self.clock.now() / 1e6)
        if self.error is not None:
            raise self.error
        self.transferred.append(run_path)
        return f"nas:/{run_path}"


@pytest.fixture
def nas(holdfast_clock: ManualClock) -> Nas:
    return Nas(holdfast_clock)


@pytest.fixture
def sync(holdfast_app: Holdfast, nas: Nas) -> Task[Callable[[Context, str], Coroutine[Any, Any, str]]]:
    @holdfast_app.task(name="sync", retry=Retry(delays=BACKOFF, jitter=0, never=(AuthError,)))
    async def sync(ctx: Context, run_path: str) -> str:
        stage = ctx.job.progress.get("stage", "queued")
        if stage == "queued":
            ctx.progress(stage="awaiting_verify", nas_path=nas.transfer(run_path))
            raise Snooze(60, "the NAS needs a minute to settle")
        passes = int(ctx.job.progress.get("verify_passes", 0)) + 1
        ctx.progress(verify_passes=passes)
        if not nas.verified:
            raise Snooze(60, "not yet what was sent")
        ctx.progress(stage="verified", verified_at=nas.clock.moment.isoformat())
        return str(ctx.job.progress["nas_path"])

    return sync


@pytest.fixture
def app(holdfast_app: Holdfast, sync: Any) -> Holdfast:
    return holdfast_app


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def again(app: Holdfast, job: Job) -> Job:
    found = run(app.aget(job.id))
    assert found is not None
    return found


# Does


def test_stages_follow_one_another_and_a_wait_gives_the_worker_back(
    app: Holdfast, sync: Any, nas: Nas, holdfast_clock: ManualClock
) -> None:
    job = run(sync.aenqueue("2030/run-1"))
    assert job.state == "ready"
    run_to_empty(app)
    waiting = again(app, job)
    assert (waiting.state, waiting.progress["stage"], waiting.attempt) == ("scheduled", "awaiting_verify", 0)
    nas.verified = True
    run_to_empty(app, holdfast_clock)
    done = again(app, job)
    assert (done.state, done.result, done.progress["stage"]) == ("succeeded", "nas:/2030/run-1", "verified")


def test_after_a_restart_one_that_waits_to_be_verified_is_verified_not_transferred_again(
    app: Holdfast, sync: Any, nas: Nas, holdfast_url: str, holdfast_clock: ManualClock
) -> None:
    job = run(sync.aenqueue("2030/run-1"))
    run_to_empty(app)
    app.close()
    holdfast_clock.reboot()
    nas.verified = True
    run_to_empty(app, holdfast_clock)
    assert again(app, job).state == "succeeded"
    assert nas.transferred == ["2030/run-1"]


def test_after_a_restart_a_transfer_that_was_running_is_queued_again(
    app: Holdfast, sync: Any, nas: Nas, holdfast_clock: ManualClock
) -> None:
    job = run(sync.aenqueue("2030/run-1"))
    lease = run(app.aclaim(worker="before the restart", seconds=600))
    assert lease is not None
    holdfast_clock.reboot()
    nas.verified = True
    run_to_empty(app, holdfast_clock)
    assert again(app, job).state == "succeeded"
    with pytest.raises(LeaseLost):
        run(app.afinish(lease, "too late"))


def test_the_backoff_schedule_is_30_s_2_min_8_min_30_min_2_h_then_failed(
    app: Holdfast, sync: Any, nas: Nas, holdfast_clock: ManualClock
) -> None:
    nas.error = OSError("no route to host")
    job = run(sync.aenqueue("2030/run-1"))
    run_to_empty(app, holdfast_clock)
    waits = [round(after - before) for before, after in zip(nas.asked, nas.asked[1:], strict=False)]
    assert waits == BACKOFF
    failed = again(app, job)
    assert (failed.state, failed.attempt, failed.attempts_max) == ("failed", 6, 6)
    assert failed.error == "OSError: no route to host"
    assert [error.attempt for error in failed.errors] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("error", [AuthError("password expired"), Fatal("local file vanished")])
def test_some_failures_are_final_at_once(app: Holdfast, sync: Any, nas: Nas, error: Exception) -> None:
    nas.error = error
    job = run(sync.aenqueue("2030/run-1"))
    run_to_empty(app)
    failed = again(app, job)
    assert (failed.state, failed.attempt, len(failed.errors)) == ("failed", 1, 1)
    assert str(error) in str(failed.error)


def test_a_retry_by_hand_clears_attempts_and_error_and_the_schedule_starts_afresh(
    app: Holdfast, sync: Any, nas: Nas, holdfast_clock: ManualClock
) -> None:
    nas.error = OSError("no route to host")
    job = run(sync.aenqueue("2030/run-1"))
    run_to_empty(app, holdfast_clock)
    fresh = run(app.aretry(job.id))
    assert (fresh.state, fresh.attempt, fresh.error, fresh.finished_at) == ("ready", 0, None, None)
    nas.asked.clear()
    run_to_empty(app, holdfast_clock)
    waits = [round(after - before) for before, after in zip(nas.asked, nas.asked[1:], strict=False)]
    assert waits == BACKOFF
    nas.error, nas.verified = None, True
    run(app.aretry(job.id))
    run_to_empty(app, holdfast_clock)
    assert again(app, job).state == "succeeded"


def test_unique_per_run_path_and_looked_up_by_it(app: Holdfast, sync: Any) -> None:
    first = run(sync.using(key=Key("sync", "2030/run-1")).aenqueue("2030/run-1"))
    second = run(sync.using(key=Key("sync", "2030/run-1")).aenqueue("2030/run-1"))
    assert (second.id, second.created, second.same_arguments) == (first.id, False, True)
    found = run(app.afind(Key("sync", "2030/run-1")))
    assert found is not None
    assert (found.id, found.key) == (first.id, ("sync", "2030/run-1"))
    assert run(app.afind(Key("sync", "2030/run-2"))) is None


def test_list_by_state_oldest_first(app: Holdfast, sync: Any, holdfast_clock: ManualClock) -> None:
    jobs = []
    for number in range(5):
        jobs.append(run(sync.aenqueue(f"run-{number}")))
        holdfast_clock.advance(1)
    run(app.acancel(jobs[2].id))
    ready = run(app.ajobs(state="ready", newest=False))
    assert [job.id for job in ready] == [jobs[index].id for index in (0, 1, 3, 4)]
    everything = run(app.ajobs(newest=False))
    assert [job.id for job in everything] == [job.id for job in jobs]


def test_count_of_verify_passes_when_it_was_verified_and_where_it_landed(
    app: Holdfast, sync: Any, nas: Nas, holdfast_clock: ManualClock
) -> None:
    job = run(sync.aenqueue("2030/run-1"))
    run_to_empty(app, holdfast_clock, until=150)
    assert again(app, job).progress["verify_passes"] == 2
    nas.verified = True
    run_to_empty(app, holdfast_clock)
    done = again(app, job)
    assert done.progress["verify_passes"] == 3
    assert done.progress["nas_path"] == "nas:/2030/run-1"
    assert done.progress["verified_at"].startswith("2030-01-01T00:03")


def test_one_transition_writes_all_its_columns_or_none(app: Holdfast, sync: Any, holdfast_clock: ManualClock) -> None:
    job = run(sync.aenqueue("2030/run-1"))
    crashes = 0
    while True:
        lease = app.claim(seconds=600)
        assert lease is not None
        point = CrashPoint(app, nth=crashes + 1)
        with point:
            try:
                app.finish(lease, "nas:/x", meter={"bytes": 5})
                break
            except Crash:
                crashes += 1
        found = again(app, job)
        if found.state == "succeeded":  # the crash came after the commit
            break
        assert (found.state, found.result, found.meter, found.finished_at) == ("running", None, {}, None)
        app.release(lease)
    done = again(app, job)
    assert (done.state, done.result, done.meter) == ("succeeded", "nas:/x", {"bytes": 5.0})
    assert crashes >= 5


def test_delete_a_cleaned_job(app: Holdfast, sync: Any, nas: Nas, holdfast_clock: ManualClock) -> None:
    nas.verified = True
    job = run(sync.using(key=Key("sync", "run-1"), tags=["nas"]).aenqueue("run-1"))
    run_to_empty(app, holdfast_clock)
    run(app.adelete(job.id))
    assert run(app.aget(job.id)) is None
    assert run(app.ajobs(tag="nas")) == []
    with pytest.raises(JobNotFound, match=job.id):
        run(app.adelete(job.id))
    assert run(sync.using(key=Key("sync", "run-1")).aenqueue("run-1")).created


# Gets wrong


def test_a_stage_can_not_follow_any_other(app: Holdfast, sync: Any) -> None:
    job = run(sync.aenqueue("run-1"))
    for verb in (app.aretry(job.id), app.aretry(job.id)):
        with pytest.raises(IllegalMove):
            run(verb)
    run(app.askip(job.id, "not needed"))
    with pytest.raises(IllegalMove, match="skipped cannot be moved by 'cancel'"):
        run(app.acancel(job.id))


def test_two_writers_do_not_lose_each_others_update(app: Holdfast, sync: Any, holdfast_url: str) -> None:
    """Of two that end the same job at once, one does and the other is told; what was written is one of the two, whole."""
    for _ in range(10):
        job = run(sync.aenqueue("run-1"))
        lease = app.claim()
        assert lease is not None
        other = Holdfast(holdfast_url, clock=app.store.clock)
        said: list[str] = []

        def attempt(name: str, act: Any, said: list[str] = said) -> None:
            try:
                act()
                said.append(name)
            except (LeaseLost, IllegalMove):
                return

        finish = threading.Thread(target=attempt, args=("succeeded", lambda lease=lease: app.finish(lease, "ok")))
        cancel = threading.Thread(target=attempt, args=("cancelled", lambda other=other, job=job: other.cancel(job.id)))
        for thread in (finish, cancel):
            thread.start()
        for thread in (finish, cancel):
            thread.join(30)
        other.close()
        assert said == [again(app, job).state]


def test_the_fifth_delay_is_used(app: Holdfast, sync: Any, nas: Nas, holdfast_clock: ManualClock) -> None:
    nas.error = OSError("no route to host")
    job = run(sync.aenqueue("run-1"))
    run_to_empty(app, holdfast_clock, until=30 + 120 + 480 + 1_800)
    before = again(app, job)
    assert (before.state, before.attempt) == ("scheduled", 5)
    assert before.run_after is not None
    assert round((before.run_after - holdfast_clock.moment).total_seconds()) == 7_200
    nas.error, nas.verified = None, True
    run_to_empty(app, holdfast_clock)
    assert again(app, job).state == "succeeded"


def test_a_running_worker_picks_up_the_jobs_that_are_due(holdfast_url: str) -> None:
    with Holdfast(holdfast_url) as app:
        tries = 0

        @app.task(name="flaky", retry=Retry(delays=[0.01, 0.02], jitter=0))
        async def flaky() -> int:
            nonlocal tries
            tries += 1
            if tries < 3:
                raise OSError("not yet")
            return tries

        worker = app.worker(concurrency=1)
        thread = threading.Thread(target=worker.run)
        thread.start()
        job = flaky.using(run_after=0.02).enqueue()
        assert app.wait(job.id, timeout=30).result == 3
        worker.stop()
        thread.join(30)


def test_a_duplicate_does_not_raise_the_drivers_own_error(app: Holdfast, sync: Any) -> None:
    first = run(sync.using(key=Key("run-1"), id="mine").aenqueue("run-1"))
    with pytest.raises(Conflict, match=r'key \["run-1"\] is held by job mine'):
        run(sync.using(key=Key("run-1", conflict="raise")).aenqueue("run-1"))
    with pytest.raises(Conflict, match="job id 'mine' is taken"):
        run(sync.using(id="mine").aenqueue("run-2"))
    with pytest.raises(Conflict, match="job id 'twice' is taken"):
        run(app.aenqueue_many(sync.using(id="twice").bind("run-3") for _ in range(2)))
    assert [job.id for job in run(app.ajobs())] == [first.id]


def test_a_second_process_does_not_re_queue_what_the_first_is_running(app: Holdfast, holdfast_url: str) -> None:
    async def main() -> None:
        with Holdfast(holdfast_url) as live:
            begun, over = asyncio.Event(), asyncio.Event()

            @live.task(name="transfer")
            async def transfer() -> str:
                begun.set()
                await over.wait()
                return "sent"

            job = await transfer.aenqueue()
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                worker = live.worker(concurrency=1)
                group.create_task(worker.arun())
                await begun.wait()
                states = await asyncio.to_thread(run_there, holdfast_url, SECOND)
                assert states == [["running", None]]
                over.set()
                done = await live.await_job(job.id, timeout=30)
                worker.stop()
            assert (done.result, done.attempt) == ("sent", 1)
            assert [event.kind async for event in live.aevents(job.id)] == ["enqueued", "started", "succeeded"]

    asyncio.run(main())


SECOND = """
@app.task(name="transfer")
def transfer() -> str:
    return "sent twice"
app.migrate()
lease = app.claim()
answer([app.jobs()[0].state, lease and lease.job.id])
"""
