"""S3, the GPU backfill: a corpus to work through on one scarce machine, by priority, over days.

All of what it does, and none of what it gets wrong. The functions below are its own, in Holdfast's words.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast import Conflict, Fatal, Holdfast, Job, Key, Lease, LeaseLost, Retry, Skip, Task
from holdfast.testing import ManualClock, run_to_empty
from tests.seeds.elsewhere import DIES_WITH_A_JOB, PRELUDE, run_there
from tests.until import until

Backfill = Task[Callable[[str], str]]


@pytest.fixture
def app(holdfast_app: Holdfast) -> Holdfast:
    @holdfast_app.task(name="transcribe", queue="gpu", retry=Retry(attempts=5, delays=[60], jitter=0))
    def transcribe(target: str) -> str:
        return f"s3://{target}.txt"

    @holdfast_app.task(name="embed", queue="gpu", retry=Retry(attempts=5, delays=[60], jitter=0))
    def embed(target: str) -> str:
        return f"s3://{target}.vec"

    return holdfast_app


@pytest.fixture
def transcribe(app: Holdfast) -> Backfill:
    return app.task_named("transcribe")


@pytest.fixture
def embed(app: Holdfast) -> Backfill:
    return app.task_named("embed")


@pytest.fixture
def others(holdfast_url: str, holdfast_clock: ManualClock) -> Iterator[list[Holdfast]]:
    """Eight more apps on the same file: what eight more processes have."""
    apps = [Holdfast(holdfast_url, clock=holdfast_clock) for _ in range(8)]
    yield apps
    for app in apps:
        app.close()


def enqueue(task: Backfill, target: str, content: str, **using: Any) -> Job:
    return task.using(key=Key(task.name, content), **using).enqueue(target)


def lease_next(app: Holdfast, worker: str = "gpu-1", seconds: float = 600, **chosen: Any) -> Lease:
    lease = app.claim(worker=worker, seconds=seconds, **chosen)
    assert lease is not None
    return lease


def again(app: Holdfast, job: Job) -> Job:
    found = app.get(job.id)
    assert found is not None
    return found


# Does


def test_enqueue_is_a_no_op_for_content_seen_before(app: Holdfast, transcribe: Backfill, embed: Backfill) -> None:
    first = enqueue(transcribe, "talk-1", "hash-a")
    second = enqueue(transcribe, "talk-1-again", "hash-a")
    assert (second.id, second.created, second.same_arguments) == (first.id, False, False)
    assert again(app, first).arguments == {"target": "talk-1"}
    assert enqueue(embed, "talk-1", "hash-a").created
    assert app.stats() == {"transcribe": {"ready": 1}, "embed": {"ready": 1}}


def test_content_that_was_done_is_still_seen_after_its_job_was_pruned(
    app: Holdfast, transcribe: Backfill, holdfast_clock: ManualClock
) -> None:
    first = enqueue(transcribe, "talk-1", "hash-a")
    app.finish(lease_next(app), "s3://talk-1.txt")
    holdfast_clock.advance(30 * 86_400)
    assert app.prune(older_than=86_400) == 1
    assert again(app, first).pruned
    again_ = enqueue(transcribe, "talk-1", "hash-a")
    assert (again_.id, again_.created, again_.state) == (first.id, False, "succeeded")


def test_a_corpus_goes_in_at_once_and_what_was_seen_is_left_out(app: Holdfast, transcribe: Backfill) -> None:
    corpus = [f"talk-{number % 700}" for number in range(1_000)]
    batch = app.enqueue_many(transcribe.using(key=Key("transcribe", name)).bind(name) for name in corpus)
    assert (len(batch), batch.created) == (1_000, 700)
    assert app.stats() == {"transcribe": {"ready": 700}}


def test_lease_the_most_urgent_job_lower_number_first_then_oldest(app: Holdfast, transcribe: Backfill) -> None:
    names = {"filing": 10, "old": 100, "young": 100, "backtest": 1, "whenever": 500}
    for name, priority in names.items():
        enqueue(transcribe, name, name, priority=priority)
    taken = [lease_next(app).job.arguments["target"] for _ in names]
    assert taken == ["backtest", "filing", "old", "young", "whenever"]
    assert app.claim() is None


def test_lease_only_some_job_types(app: Holdfast, transcribe: Backfill, embed: Backfill) -> None:
    enqueue(transcribe, "audio", "a", priority=1)
    enqueue(embed, "text", "b")
    assert lease_next(app, tasks=[embed]).job.task == "embed"
    assert app.claim(tasks=["embed"]) is None
    assert lease_next(app, tasks=["embed", "transcribe"]).job.task == "transcribe"


def test_lease_for_n_seconds_as_a_named_worker_and_attempts_count_at_the_lease(
    app: Holdfast, transcribe: Backfill, holdfast_clock: ManualClock
) -> None:
    job = enqueue(transcribe, "talk", "a")
    lease = lease_next(app, worker="gpu-7", seconds=600)
    assert (lease.job.attempt, lease.token) == (1, 1)
    assert (lease.expires_at - holdfast_clock.moment).total_seconds() == 600
    assert again(app, job).attempt == 1
    started = list(app.events(job.id))[-1]
    assert (started.kind, started.data["worker"]) == ("started", "gpu-7")


def test_a_lease_that_expired_returns_the_job_to_the_pool(
    app: Holdfast, transcribe: Backfill, holdfast_clock: ManualClock
) -> None:
    job = enqueue(transcribe, "talk", "a")
    lease_next(app, worker="gpu-1", seconds=600)
    holdfast_clock.advance(599)
    assert app.claim() is None
    holdfast_clock.advance(2)
    second = lease_next(app, worker="gpu-2")
    assert (second.job.id, second.job.attempt, second.token) == (job.id, 2, 2)
    assert "gpu-1" in str(again(app, job).errors[0].message)


def test_complete_with_a_reference_to_the_output_and_the_gpu_seconds_spent(app: Holdfast, transcribe: Backfill) -> None:
    job = enqueue(transcribe, "talk", "a")
    done = app.finish(lease_next(app), "s3://talk.txt", meter={"gpu_seconds": 12.5})
    assert (done.state, done.result, done.meter, done.error) == ("succeeded", "s3://talk.txt", {"gpu_seconds": 12.5}, None)
    assert again(app, job).finished_at is not None


def test_gpu_seconds_of_all_attempts_are_kept(app: Holdfast, transcribe: Backfill, holdfast_url: str) -> None:
    for name in ("one", "two"):
        enqueue(transcribe, name, name)
        app.finish(lease_next(app), name, meter={"gpu_seconds": 10})
    with closing(sqlite3.connect(app.store.path)) as connection:
        spent = connection.execute("SELECT name, sum(amount) FROM holdfast_meter GROUP BY name").fetchall()
    assert spent == [("gpu_seconds", 20.0)]


def test_fail_tries_again_or_dead_letters_by_max_attempts(
    app: Holdfast, transcribe: Backfill, holdfast_clock: ManualClock
) -> None:
    job = enqueue(transcribe, "talk", "a", attempts=3)
    states = []
    for attempt in range(1, 4):
        lease = lease_next(app)
        assert lease.job.attempt == attempt
        states.append(app.fail(lease, f"CUDA error {attempt}").state)
        holdfast_clock.advance(61)
    assert states == ["scheduled", "scheduled", "failed"]
    assert app.claim() is None
    dead = again(app, job)
    assert dead.error == "Error: CUDA error 3"
    assert [error.message for error in dead.errors] == ["CUDA error 1", "CUDA error 2", "CUDA error 3"]


def test_an_error_text_of_any_length_is_kept_within_bounds(app: Holdfast, transcribe: Backfill) -> None:
    enqueue(transcribe, "talk", "a", attempts=1)
    dead = app.fail(lease_next(app), "x" * 1_000_000)
    assert dead.state == "failed"
    assert 1_000 < len(dead.errors[0].message) <= 10_000


def test_skip_with_a_reason_is_terminal_and_not_an_error(
    app: Holdfast, transcribe: Backfill, holdfast_clock: ManualClock
) -> None:
    by_lease = enqueue(transcribe, "talk", "a")
    skipped = app.skip(lease_next(app), "no speech in it")
    assert (skipped.state, skipped.error, skipped.errors) == ("skipped", "no speech in it", ())
    by_id = enqueue(transcribe, "other", "b")
    assert app.skip(by_id.id, "dropped from the corpus").state == "skipped"
    holdfast_clock.advance(86_400)
    assert app.claim() is None
    assert not again(app, by_lease).errors


def test_a_task_may_skip_itself(app: Holdfast) -> None:
    @app.task(name="claims")
    def claims(chunk: str) -> int:
        raise Skip(f"{chunk} has no claims")

    job = claims.enqueue("c1")
    run_to_empty(app)
    assert (again(app, job).state, again(app, job).error) == ("skipped", "c1 has no claims")


def test_one_at_a_time_two_audio_jobs_never_run_side_by_side(app: Holdfast, holdfast_url: str) -> None:
    running, most, lock = 0, 0, threading.Lock()

    @app.task(name="audio")
    def audio(target: str) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.001)  # blocks on purpose: room for another to overlap
        with lock:
            running -= 1

    app.enqueue_many(audio.bind(f"talk-{number}") for number in range(40))
    app.worker(concurrency=1).run_until_empty()
    assert most == 1
    assert app.stats() == {"audio": {"succeeded": 40}}


def test_statistics_job_type_by_state(app: Holdfast, transcribe: Backfill, embed: Backfill) -> None:
    for name in "abcde":
        enqueue(transcribe, name, name)
    enqueue(embed, "x", "x")
    app.finish(lease_next(app, tasks=[transcribe]), "ref")
    app.skip(lease_next(app, tasks=[transcribe]), "no speech")
    app.fail(lease_next(app, tasks=[transcribe]), Fatal("broken file"))
    lease_next(app, tasks=[transcribe])
    assert app.stats() == {
        "transcribe": {"succeeded": 1, "skipped": 1, "failed": 1, "running": 1, "ready": 1},
        "embed": {"ready": 1},
    }


def test_the_parent_document_of_a_job(app: Holdfast, transcribe: Backfill, embed: Backfill) -> None:
    for name in "abc":
        enqueue(transcribe, name, name, parent="doc-1")
    enqueue(embed, "x", "x", parent="doc-2")
    assert [job.arguments["target"] for job in app.jobs(parent="doc-1", newest=False)] == ["a", "b", "c"]
    assert [job.parent for job in app.jobs(parent="doc-2")] == ["doc-2"]


def test_the_whole_queue_is_a_select(app: Holdfast, transcribe: Backfill) -> None:
    enqueue(transcribe, "talk", "hash-a", priority=7, parent="doc-1")
    app.finish(lease_next(app), "s3://talk.txt", meter={"gpu_seconds": 2.5})
    with closing(sqlite3.connect(app.store.path)) as connection:
        connection.row_factory = sqlite3.Row
        (row,) = connection.execute("SELECT * FROM holdfast_jobs").fetchall()
    assert (row["task"], row["queue"], row["state"], row["priority"]) == ("transcribe", "gpu", "succeeded", 7)
    assert (row["arguments"], row["result"], row["parent"]) == ('{"target":"talk"}', '"s3://talk.txt"', "doc-1")
    assert (row["key"], row["meter"], row["attempt"]) == ('["transcribe","hash-a"]', '{"gpu_seconds":2.5}', 1)
    assert row["created_at"] == "2030-01-01 00:00:00"


# Gets wrong


def test_two_workers_can_not_lease_the_same_job(app: Holdfast, transcribe: Backfill, others: list[Holdfast]) -> None:
    app.enqueue_many(transcribe.bind(str(number)) for number in range(200))
    taken: list[str] = []

    def drain(mine: Holdfast, name: str) -> None:
        while (lease := mine.claim(worker=name)) is not None:
            taken.append(lease.job.id)

    threads = [threading.Thread(target=drain, args=(mine, f"gpu-{number}")) for number, mine in enumerate(others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(taken) == len(set(taken)) == 200
    assert {job.attempt for job in app.jobs(state="running", limit=200)} == {1}


def test_a_job_that_crashes_its_worker_is_not_leased_past_max_attempts(
    app: Holdfast, transcribe: Backfill, holdfast_clock: ManualClock
) -> None:
    job = enqueue(transcribe, "talk", "a", attempts=3)
    leased = 0
    while app.claim(worker=f"gpu-{leased}", seconds=600) is not None:
        leased += 1
        holdfast_clock.advance(601)
    assert leased == 3
    dead = again(app, job)
    assert (dead.state, dead.attempt, len(dead.errors)) == ("failed", 3, 3)
    assert "stopped renewing its lease" in str(dead.error)
    assert "attempt 3 of 3" in str(dead.error)


def test_a_process_that_dies_with_its_job_is_counted(holdfast_url: str) -> None:
    with Holdfast(holdfast_url) as app:

        @app.task(name="transcribe")
        def transcribe(target: str) -> None: ...

        job = transcribe.using(attempts=2).enqueue("talk")
        pids = [run_there(holdfast_url, DIES_WITH_A_JOB, exit_code=9)[0][1] for _ in range(2)]
        assert app.claim() is None
        dead = again(app, job)
        assert (dead.state, dead.attempt) == ("failed", 2)
        assert f"pid {pids[1]}" in str(dead.error)


def test_a_job_longer_than_its_lease_is_not_taken_from_a_living_worker(
    app: Holdfast, transcribe: Backfill, others: list[Holdfast], holdfast_clock: ManualClock
) -> None:
    job = enqueue(transcribe, "a-long-talk", "a")
    lease = lease_next(app, seconds=600)
    for _ in range(20):
        holdfast_clock.advance(500)
        app.renew(lease)
        assert others[0].claim() is None
    done = app.finish(lease, "s3://a-long-talk.txt")
    assert (done.id, done.state, done.attempt) == (job.id, "succeeded", 1)


def test_a_worker_renews_by_itself_for_as_long_as_its_job_takes(holdfast_url: str) -> None:
    with Holdfast(holdfast_url) as app, Holdfast(holdfast_url) as other:
        beats, beaten = 0, threading.Event()

        @app.task(name="long", lease=0.3)
        def long() -> None:
            while not beaten.wait(0.05):  # blocks on purpose: a job that takes several leases
                assert other.claim() is None

        def count(what: str) -> None:
            nonlocal beats
            beats += what == "beat"
            if beats > 12:
                beaten.set()

        app.store.probe = count
        job = long.enqueue()
        app.worker(concurrency=1, lease=0.3).run_until_empty()
        done = again(app, job)
        assert (done.state, done.attempt) == ("succeeded", 1)


def test_complete_and_fail_are_fenced(app: Holdfast, transcribe: Backfill, holdfast_clock: ManualClock) -> None:
    job = enqueue(transcribe, "talk", "a")
    late = lease_next(app, worker="gpu-1", seconds=600)
    holdfast_clock.advance(601)
    current = lease_next(app, worker="gpu-2", seconds=600)
    before = again(app, job), list(app.events(job.id))
    for write in (
        lambda: app.finish(late, "late", meter={"gpu_seconds": 1}),
        lambda: app.fail(late, "late"),
        lambda: app.skip(late, "late"),
        lambda: app.release(late),
        lambda: app.renew(late),
    ):
        with pytest.raises(LeaseLost, match="token 1 is not the current one"):
            write()
    assert (again(app, job).state, list(app.events(job.id))) == (before[0].state, before[1])
    assert app.finish(current, "s3://talk.txt").result == "s3://talk.txt"


def test_a_late_result_that_nobody_else_works_on_is_not_thrown_away(
    app: Holdfast, transcribe: Backfill, holdfast_clock: ManualClock
) -> None:
    enqueue(transcribe, "talk", "a")
    lease = lease_next(app, seconds=600)
    holdfast_clock.advance(7_200)
    assert app.finish(lease, "s3://talk.txt").state == "succeeded"


def test_a_retry_is_not_immediate(app: Holdfast, transcribe: Backfill, holdfast_clock: ManualClock) -> None:
    enqueue(transcribe, "talk", "a")
    failed = app.fail(lease_next(app), "503 from upstream")
    assert failed.run_after is not None
    assert (failed.run_after - holdfast_clock.moment).total_seconds() == 60
    assert app.claim() is None
    holdfast_clock.advance(59)
    assert app.claim() is None
    holdfast_clock.advance(1)
    assert lease_next(app).job.attempt == 2


def test_a_job_that_failed_for_good_does_not_block_its_content(app: Holdfast, transcribe: Backfill) -> None:
    dead = enqueue(transcribe, "talk", "hash-a", attempts=1)
    assert app.fail(lease_next(app), "disk full").state == "failed"
    fresh = enqueue(transcribe, "talk", "hash-a")
    assert fresh.created
    assert fresh.id != dead.id
    found = app.find(Key("transcribe", "hash-a"))
    assert found is not None
    assert found.id == fresh.id
    with pytest.raises(Conflict, match=fresh.id):
        app.retry(dead.id)


def test_unless_it_was_asked_to(app: Holdfast, transcribe: Backfill) -> None:
    key = Key("transcribe", "hash-a", failed="hold")
    dead = transcribe.using(key=key, attempts=1).enqueue("talk")
    app.fail(lease_next(app), "disk full")
    assert transcribe.using(key=key).enqueue("talk").id == dead.id
    assert app.retry(dead.id).state == "ready"


def test_one_at_a_time_holds_however_many_processes_were_started(
    app: Holdfast, transcribe: Backfill, others: list[Holdfast]
) -> None:
    """Look and claim in one transaction of the caller's own: the write lock lets one process at a time do that."""
    app.enqueue_many(transcribe.bind(str(number)) for number in range(60))
    running, overlaps, done, lock = 0, 0, 0, threading.Lock()

    def claim_alone(mine: Holdfast, connection: sqlite3.Connection) -> Lease | None:
        connection.execute("BEGIN IMMEDIATE")
        here = mine.on(connection)
        lease = None if here.jobs(state="running", task="transcribe") else here.claim(tasks=["transcribe"])
        connection.execute("COMMIT")
        return lease

    def work(mine: Holdfast) -> None:
        nonlocal running, overlaps, done
        with closing(sqlite3.connect(mine.store.path, isolation_level=None, timeout=60)) as connection:
            while done < 60:
                lease = claim_alone(mine, connection)
                if lease is None:
                    continue
                with lock:
                    overlaps += running
                    running += 1
                with lock:
                    running -= 1
                    done += 1
                mine.finish(lease, "ref")

    threads = [threading.Thread(target=work, args=(mine,)) for mine in others[:4]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert overlaps == 0
    assert app.stats() == {"transcribe": {"succeeded": 60}}


AUDIO = """
import time
app.queue("audio", concurrency=1)
@app.task(name="audio", queue="audio", retry=Retry(attempts=9, delays=[0.01]))
def audio(number):
    with open(sys.argv[2], "a", buffering=1) as ledger:
        ledger.write(f"start {time.monotonic()} {os.getpid()}\\n")
        time.sleep(0.02)  # blocks on purpose: another run would show beside it
        ledger.write(f"end {time.monotonic()} {os.getpid()}\\n")
app.worker(concurrency=4, lease=1).run_until_empty()
"""


def test_one_at_a_time_holds_when_four_processes_are_killed_in_the_middle(holdfast_url: str, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    ledger.touch()

    def start() -> list[subprocess.Popen[bytes]]:
        command = [sys.executable, "-c", PRELUDE + AUDIO, holdfast_url, str(ledger)]
        return [subprocess.Popen(command) for _ in range(4)]

    with Holdfast(holdfast_url) as app:
        app.queue("audio", concurrency=1)

        @app.task(name="audio", queue="audio")
        def audio(number: int) -> None: ...

        app.enqueue_many(audio.bind(number) for number in range(30))
        first = start()
        until(lambda: ledger.read_text().count("end") >= 5, "some have run")
        for process in first:
            process.kill()
        killed = time.monotonic()
        for process in (*first, *start()):
            process.wait(60)
        assert app.stats() == {"audio": {"succeeded": 30}}
    running: dict[str, float] = {}
    for what, at, pid in sorted((line.split() for line in ledger.read_text().splitlines()), key=lambda line: float(line[1])):
        if what == "end":
            running.pop(pid)
            continue
        running = {other: since for other, since in running.items() if not (since < killed <= float(at))}  # they ended with it
        assert not running, "two at once"
        running[pid] = float(at)
