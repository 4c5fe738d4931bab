"""S0, benchmark jobs that a browser watches: what it needs of the engine. (The stream over HTTP comes with the web app.)"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast import Conflict, Context, Event, Holdfast, IllegalMove, Job, LeaseLost, Task
from holdfast.settings import url_of
from holdfast.testing import ManualClock, elsewhere, run_to_empty
from tests.seeds.elsewhere import DIES_WITH_A_JOB, run_there

DAY = 86_400


@pytest.fixture
def app(holdfast_app: Holdfast) -> Holdfast:
    @holdfast_app.task(name="benchmark")
    def benchmark(ctx: Context, corpus: dict[str, Any]) -> str:
        ctx.progress(fraction=0.0, total_documents=3)
        ctx.progress(engine="tesseract")
        for number in range(1, 4):
            ctx.emit("document", {"n": number})
            ctx.progress(processed_documents=number, fraction=number / 3)
        ctx.progress(output_path="reports/été.html")
        return "done"

    return holdfast_app


@pytest.fixture
def benchmark(app: Holdfast) -> Task[Callable[[dict[str, Any]], str]]:
    return app.task_named("benchmark")


@pytest.fixture
def live(holdfast_url: str) -> Iterator[Holdfast]:
    """On the machine's own clock, for what goes on between threads and processes."""
    with Holdfast(holdfast_url) as app:

        @app.task(name="benchmark")
        def benchmark(corpus: dict[str, Any]) -> str:
            return "done"

        yield app


def again(app: Holdfast, job: Job) -> Job:
    found = app.get(job.id)
    assert found is not None
    return found


# Does


def test_create_a_job_with_a_json_payload_and_get_it(app: Holdfast, benchmark: Any) -> None:
    payload = {"name": "Žluťoučký kůň 🐎", "engines": ["a", "b"], "deep": {"x": [1, 2.5, None, True]}}
    job = benchmark.enqueue(payload)
    assert again(app, job).arguments == {"corpus": payload}


def test_with_an_id_that_the_caller_chose(app: Holdfast, benchmark: Any) -> None:
    job = benchmark.using(id="run-2030/01").enqueue({})
    assert job.id == "run-2030/01"
    assert len(job.handle) == 16
    with pytest.raises(Conflict, match="job id 'run-2030/01' is taken"):
        benchmark.using(id="run-2030/01").enqueue({})
    assert len(app.jobs()) == 1


def test_without_one_ids_are_all_different_and_in_order(app: Holdfast, benchmark: Any) -> None:
    ids = [benchmark.enqueue({}).id for _ in range(20)]
    assert len(set(ids)) == 20
    assert app.get("not-there") is None


def test_list_the_newest_first_by_status_with_a_limit(app: Holdfast, benchmark: Any, holdfast_clock: ManualClock) -> None:
    jobs = []
    for _ in range(6):
        jobs.append(benchmark.enqueue({}))
        holdfast_clock.advance(1)
    app.cancel(jobs[1].id)
    app.cancel(jobs[4].id)
    assert [job.id for job in app.jobs()] == [job.id for job in reversed(jobs)]
    assert [job.id for job in app.jobs(limit=2)] == [jobs[5].id, jobs[4].id]
    assert [job.id for job in app.jobs(state="cancelled")] == [jobs[4].id, jobs[1].id]
    assert [job.id for job in app.jobs(state="ready", limit=2, after=jobs[5])] == [jobs[3].id, jobs[2].id]


def test_progress_fields_are_updated_one_by_one_and_untouched_ones_kept(app: Holdfast, benchmark: Any) -> None:
    job = benchmark.enqueue({})
    run_to_empty(app)
    assert again(app, job).progress == {
        "fraction": 1.0,
        "total_documents": 3,
        "engine": "tesseract",
        "processed_documents": 3,
        "output_path": "reports/été.html",
    }


def test_the_fraction_is_worked_out_where_done_and_total_are_told(app: Holdfast) -> None:
    @app.task(name="counted")
    def counted(ctx: Context) -> None:
        ctx.progress(1, 4, engine="a")
        ctx.progress(2)

    job = counted.enqueue()
    run_to_empty(app)
    assert again(app, job).progress == {"done": 2, "total": 4, "fraction": 0.5, "engine": "a"}


def test_progress_outlives_an_attempt(app: Holdfast, holdfast_clock: ManualClock) -> None:
    @app.task(name="resumed")
    def resumed(ctx: Context) -> int:
        pages = int(ctx.job.progress.get("pages", 0))
        if pages == 0:
            ctx.progress(pages=7)
            raise OSError("the scanner is away")
        return pages

    job = resumed.enqueue()
    run_to_empty(app, holdfast_clock)
    assert (again(app, job).state, again(app, job).result, again(app, job).attempt) == ("succeeded", 7, 2)


def test_an_append_only_event_log_numbered_from_1_read_all_after_n_and_count(app: Holdfast, benchmark: Any) -> None:
    job = benchmark.enqueue({})
    run_to_empty(app)
    events = list(app.events(job.id))
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert [event.kind for event in events if event.kind != "progress"] == [
        "enqueued", "started", "document", "document", "document", "succeeded",
    ]  # fmt: skip
    assert [event.data for event in events if event.kind == "document"] == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [event.number for event in app.events(job.id, after=3)] == list(range(4, len(events) + 1))
    assert again(app, job).event_count == len(events)
    assert list(app.events(job.id, after=len(events))) == []


def test_a_client_that_reconnects_with_the_last_number_gets_everything_it_missed_then_goes_on_live(
    live: Holdfast, holdfast_url: str
) -> None:
    """The reader has an app of its own, as in another process."""
    seen_some = threading.Event()

    @live.task(name="talks")
    def talks(ctx: Context) -> None:
        for number in range(50):
            ctx.emit("word", {"n": number})
        assert seen_some.wait(30)
        for number in range(50, 100):
            ctx.emit("word", {"n": number})

    job = talks.enqueue()
    worker = live.worker(concurrency=1)
    thread = threading.Thread(target=worker.run_until_empty)
    thread.start()
    with Holdfast(holdfast_url) as reader:
        first: list[Event] = []
        for event in reader.events(job.id, follow=True):
            first.append(event)
            if len(first) == 20:
                break  # the connection is lost here
        seen_some.set()
        rest = list(reader.events(job.id, after=first[-1].number, follow=True))
    thread.join(30)
    numbers = [event.number for event in [*first, *rest]]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [event.data["n"] for event in [*first, *rest] if event.kind == "word"] == list(range(100))
    assert rest[-1].kind == "succeeded"


def test_nothing_is_dropped_however_slow_the_client_is(app: Holdfast) -> None:
    @app.task(name="floods")
    def floods(ctx: Context) -> None:
        for number in range(5_000):
            ctx.emit("word", number)

    job = floods.enqueue()
    run_to_empty(app)
    words = [event.data for event in app.events(job.id) if event.kind == "word"]
    assert words == list(range(5_000))


def test_after_a_restart_a_client_still_finds_its_job_in_its_true_state(live: Holdfast, holdfast_url: str) -> None:
    jobs = [live.task_named("benchmark").using(id=name).enqueue({"n": name}) for name in ("kept", "gone", "run")]
    live.cancel("gone", "no longer wanted")
    live.task_named("benchmark")
    lease = live.claim()
    assert lease is not None
    live.finish(lease, "done")
    live.close()
    script = """
for id in ("kept", "gone", "run", "never"):
    job = app.get(id)
    answer(None if job is None else [job.state, job.arguments, job.error, job.event_count])
"""
    states = run_there(holdfast_url, script)
    assert len(jobs) == 3
    assert [answer and answer[0] for answer in states] == ["succeeded", "cancelled", "ready", None]
    assert states[1][2] == "no longer wanted"


def test_a_job_whose_process_died_is_found_by_any_living_process_with_a_reason_that_a_person_can_read(
    live: Holdfast, holdfast_url: str
) -> None:
    """This process was there before the other one died, and nobody is restarted."""
    job = live.task_named("benchmark").enqueue({})
    ((id, pid),) = run_there(holdfast_url, DIES_WITH_A_JOB, exit_code=9)
    assert id == job.id
    live.worker(concurrency=1).run_until_empty()
    done = again(live, job)
    assert (done.state, done.attempt) == ("succeeded", 2)
    (error,) = done.errors
    assert error.kind == "WorkerLost"
    assert error.message.startswith("worker ocr-1 (")
    assert f"pid {pid}) stopped renewing its lease, last seen " in error.message
    assert error.message.endswith("UTC, in attempt 1 of 3")


def test_retention_finished_jobs_older_than_n_days_go_and_their_events_with_them(
    app: Holdfast, benchmark: Any, holdfast_clock: ManualClock
) -> None:
    old = benchmark.using(tags=["old"]).enqueue({})
    run_to_empty(app)
    holdfast_clock.advance(6 * DAY)
    young, waiting = benchmark.enqueue({}), benchmark.using(run_after=100 * DAY).enqueue({})
    run_to_empty(app)
    holdfast_clock.advance(2 * DAY)
    assert app.prune(older_than=7 * DAY) == 1
    assert [app.get(job.id) is None for job in (old, young, waiting)] == [True, False, False]
    with closing(sqlite3.connect(app.store.path)) as connection:
        for table in ("event", "error", "tag", "finished"):
            column = "job" if table in ("event", "error") else "seq"
            left = f"SELECT count(*) FROM holdfast_{table} WHERE {column} NOT IN (SELECT seq FROM holdfast_job)"
            assert connection.execute(left).fetchone() == (0,)


def test_retention_is_on_by_default_and_workers_see_to_it(app: Holdfast, benchmark: Any, holdfast_clock: ManualClock) -> None:
    for _ in range(10):
        benchmark.enqueue({})
    run_to_empty(app)
    holdfast_clock.advance(8 * DAY)
    worker = app.worker(concurrency=1)
    gone = threading.Event()
    app.store.probe = lambda what: gone.set() if what == "delete_finished" else None
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert gone.wait(30)
    worker.stop()
    thread.join(30)
    assert app.jobs() == []


def test_the_path_comes_from_an_environment_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "from-the-environment.db"
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{path}")
    with Holdfast() as app:
        app.migrate()
    assert path.exists()
    assert url_of(None, {}) == "sqlite:///holdfast.db"
    assert url_of("sqlite:///given.db", {"HOLDFAST_URL": "sqlite:///other.db"}) == "sqlite:///given.db"


def test_the_store_can_be_another_one_in_tests(app: Holdfast, benchmark: Any, tmp_path: Path) -> None:
    with elsewhere(app, f"sqlite:///{tmp_path / 'test.db'}"):
        benchmark.enqueue({})
        assert len(app.jobs()) == 1
    assert app.jobs() == []


def test_the_file_is_readable_with_dump(app: Holdfast, benchmark: Any) -> None:
    job = benchmark.enqueue({"corpus": "Žluťoučký kůň"})
    run_to_empty(app)
    with closing(sqlite3.connect(app.store.path)) as connection:
        dump = "\n".join(connection.iterdump())
    assert "CREATE VIEW holdfast_jobs" in dump
    assert job.id in dump
    assert '{"corpus":{"corpus":"Žluťoučký kůň"}}' in dump
    assert '"output_path":"reports/été.html"' in dump
    assert "X'" not in dump


# Gets wrong


def test_two_writers_never_take_the_same_event_number(live: Holdfast, holdfast_url: str) -> None:
    job = live.task_named("benchmark").enqueue({})
    apps = [Holdfast(holdfast_url) for _ in range(4)]
    moves = 0
    lock = threading.Lock()

    def turn(app: Holdfast) -> None:
        nonlocal moves
        for _ in range(25):
            for verb in (app.cancel, app.retry):
                try:
                    verb(job.id)
                except IllegalMove:
                    continue
                with lock:
                    moves += 1

    threads = [threading.Thread(target=turn, args=(app,)) for app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    events = list(live.events(job.id))
    assert [event.number for event in events] == list(range(1, moves + 2))
    kinds = [event.kind for event in events[1:]]
    assert kinds == ["cancelled", "retried"] * (moves // 2) + ["cancelled"] * (moves % 2)
    for app in apps:
        app.close()


def test_a_cancelled_job_can_not_be_set_to_complete_by_the_worker_that_did_not_notice(app: Holdfast, benchmark: Any) -> None:
    job = benchmark.enqueue({})
    lease = app.claim()
    assert lease is not None
    app.cancel(job.id, "the user closed the page")
    with pytest.raises(LeaseLost):
        app.finish(lease, "done")
    with pytest.raises(LeaseLost):
        app.fail(lease, "late")
    found = again(app, job)
    assert (found.state, found.error, found.result) == ("cancelled", "the user closed the page", None)
    assert [event.kind for event in app.events(job.id)] == ["enqueued", "started", "cancelled"]


def test_only_legal_moves_are_made(app: Holdfast, benchmark: Any) -> None:
    job = benchmark.enqueue({})
    with pytest.raises(IllegalMove, match="ready cannot be moved by 'retry'; legal here: "):
        app.retry(job.id)
    run_to_empty(app)
    for verb in (app.cancel, app.retry, partial(app.skip, reason="no")):
        with pytest.raises(IllegalMove, match="succeeded cannot be moved by"):
            verb(job.id)
    assert again(app, job).state == "succeeded"


def test_a_task_that_is_cancelled_is_told_and_what_it_returns_does_not_count(live: Holdfast) -> None:
    begun, told = threading.Event(), threading.Event()

    @live.task(name="stubborn")
    def stubborn(ctx: Context) -> str:
        begun.set()
        try:
            while True:
                ctx.check()
                threading.Event().wait(0.005)  # blocks on purpose: code that looks up now and then
        except LeaseLost:
            told.set()
        return "complete"

    job = stubborn.enqueue()
    worker = live.worker(concurrency=1)
    thread = threading.Thread(target=worker.run_until_empty)
    thread.start()
    assert begun.wait(30)
    live.cancel(job.id)
    assert told.wait(30)
    thread.join(30)
    assert again(live, job).state == "cancelled"


def test_a_second_process_does_not_kill_the_live_jobs_of_the_first(live: Holdfast, holdfast_url: str) -> None:
    live.task_named("benchmark").enqueue({})
    lease = live.claim(worker="first", seconds=600)
    assert lease is not None
    script = """
@app.task(name="benchmark")
def benchmark(corpus: dict) -> str:
    return "by the second"
second = app.worker(concurrency=1)
app.migrate()
answer([app.claim() is None, app.jobs()[0].state])
"""
    assert run_there(holdfast_url, script) == [[True, "running"]]
    assert live.finish(lease, "by the first").result == "by the first"


def test_live_events_reach_the_clients_of_every_process(live: Holdfast, holdfast_url: str) -> None:
    job = live.task_named("benchmark").enqueue({})
    script = """
@app.task(name="benchmark")
def benchmark(ctx: Context, corpus: dict) -> str:
    ctx.emit("page", {"n": 1})
    return "done"
app.worker(concurrency=1).run_until_empty()
"""
    heard: list[Event] = []
    listener = threading.Thread(target=lambda: heard.extend(live.events(job.id, follow=True)))
    listener.start()
    run_there(holdfast_url, script)
    listener.join(30)
    assert [event.kind for event in heard] == ["enqueued", "started", "page", "succeeded"]
