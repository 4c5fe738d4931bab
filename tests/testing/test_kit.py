"""The rest of the kit: running to empty, crash points, replay, an app elsewhere, and the fixtures."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Context, Holdfast, Job, Retry, SettingError, Snooze, State
from holdfast.store.sqlite.driver import SqliteStore
from holdfast.testing import (
    Crash,
    CrashPoint,
    ManualClock,
    always_replay,
    arun_to_empty,
    elsewhere,
    every_crash,
    run_to_empty,
    statements_of,
)


def state(app: Holdfast, job: Job) -> State:
    found = app.get(job.id)
    assert found is not None
    return found.state


# The fixtures


def test_the_fixtures_belong_together(
    holdfast_app: Holdfast, holdfast_store: SqliteStore, holdfast_clock: ManualClock, holdfast_url: str, tmp_path: Path
) -> None:
    assert holdfast_app.url == holdfast_url
    assert holdfast_app.store is holdfast_store
    assert holdfast_store.clock is holdfast_clock
    assert str(tmp_path) in holdfast_url
    assert holdfast_app.stats() == {}


def test_the_plugin_brings_no_heavy_library_along() -> None:
    heavy = ("hypothesis", "sqlalchemy", "aiosqlite", "typer", "rich", "unittest.mock", "pytest_timeout")
    asked = f"import sys, holdfast.testing.plugin as p; print([m for m in {heavy!r} if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    answer = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, env=environment)
    assert answer.stdout.strip() == "[]"


# Running to empty


def test_everything_that_is_ready_is_run_and_the_rest_is_left(holdfast_app: Holdfast) -> None:
    @holdfast_app.task
    def double(n: int) -> int:
        return 2 * n

    jobs = [double.enqueue(n) for n in range(5)]
    later = double.using(run_after=60).enqueue(9)
    assert run_to_empty(holdfast_app) == 0
    assert [holdfast_app.wait(job.id, timeout=0).result for job in jobs] == [0, 2, 4, 6, 8]
    assert state(holdfast_app, later) == State.SCHEDULED


def test_with_a_clock_retries_snoozes_and_delays_run_too(holdfast_app: Holdfast, holdfast_clock: ManualClock) -> None:
    ran: list[tuple[str, float]] = []
    start = holdfast_clock.moment

    @holdfast_app.task(retry=Retry(delays=[30, 120], jitter=0))
    def flaky(ctx: Context, name: str) -> None:
        ran.append((name, (holdfast_clock.moment - start).total_seconds()))
        if name == "fails":
            raise ValueError("broken")
        if name == "snoozes" and len([each for each in ran if each[0] == name]) == 1:
            raise Snooze(3600)

    failing, snoozing = flaky.enqueue("fails"), flaky.enqueue("snoozes")
    later = flaky.using(run_after=timedelta(days=30)).enqueue("later")
    moves = run_to_empty(holdfast_app, holdfast_clock)
    assert sorted(ran, key=lambda each: (each[1], each[0])) == [
        ("fails", 0.0), ("snoozes", 0.0), ("fails", 30.0), ("fails", 150.0), ("snoozes", 3600.0), ("later", 2_592_000.0),
    ]  # fmt: skip
    assert moves == 4
    assert [state(holdfast_app, job) for job in (failing, snoozing, later)] == ["failed", "succeeded", "succeeded"]


def test_until_bounds_how_far_the_clock_goes(holdfast_app: Holdfast, holdfast_clock: ManualClock) -> None:
    @holdfast_app.task
    def tick() -> None:
        raise Snooze(60)

    start = holdfast_clock.moment
    job = tick.enqueue()
    run_to_empty(holdfast_app, holdfast_clock, until=150)
    assert holdfast_clock.moment == start + timedelta(seconds=150)
    assert [event.kind for event in holdfast_app.events(job.id)].count("started") == 3
    run_to_empty(holdfast_app, holdfast_clock, until=start + timedelta(seconds=180))
    assert [event.kind for event in holdfast_app.events(job.id)].count("started") == 4


def test_it_can_be_awaited(holdfast_app: Holdfast, holdfast_clock: ManualClock) -> None:
    @holdfast_app.task
    async def double(n: int) -> int:
        await asyncio.sleep(0)
        return 2 * n

    async def both() -> Job:
        job = await double.using(run_after=5).aenqueue(4)
        await arun_to_empty(holdfast_app, holdfast_clock)
        return await holdfast_app.await_job(job.id, timeout=0)

    assert asyncio.run(both()).result == 8


def test_somebody_elses_lease_is_named_when_the_time_is_over(holdfast_app: Holdfast) -> None:
    @holdfast_app.task(name="held")
    def held() -> None:
        return None

    job = held.enqueue()
    holdfast_app.claim()
    with pytest.raises(TimeoutError, match=rf"{job.id} \(held\)"):
        run_to_empty(holdfast_app, seconds=0.1)  # blocks on purpose


def test_a_clock_that_is_not_the_apps_is_refused(holdfast_app: Holdfast) -> None:
    with pytest.raises(SettingError, match="not the clock of this app"):
        run_to_empty(holdfast_app, ManualClock())
    with pytest.raises(SettingError, match="until="):
        run_to_empty(holdfast_app, until=5)


# Crash points


def test_a_crash_before_a_statement_after_it_and_after_the_commit(holdfast_app: Holdfast) -> None:
    @holdfast_app.task
    def work() -> None:
        return None

    holdfast_app.migrate()
    for where in ({"at": "add_job"}, {"at": "add_job", "when": "after"}, {"at": "commit"}, {"nth": 2}):
        with CrashPoint(holdfast_app, **where) as point, pytest.raises(Crash):
            work.enqueue()
        assert point.hit
        assert holdfast_app.stats() == {}, where
    with CrashPoint(holdfast_app, at="committed"), pytest.raises(Crash):
        work.enqueue()
    assert holdfast_app.stats()[work.name] == {"ready": 1}


def test_the_nth_of_a_kind(holdfast_app: Holdfast) -> None:
    @holdfast_app.task
    def work() -> None:
        return None

    with CrashPoint(holdfast_app, at="committed", nth=3) as point:
        work.enqueue()
        work.enqueue()
        assert not point.hit
        with pytest.raises(Crash):
            work.enqueue()
        work.enqueue()
    assert point.seen.count("committed") == 4


def test_a_point_that_is_not_reached_does_nothing(holdfast_app: Holdfast) -> None:
    with CrashPoint(holdfast_app, at="none-such") as point:
        assert holdfast_app.stats() == {}
    assert not point.hit
    assert holdfast_app.store.probe is None


def test_something_else_may_happen_there(holdfast_app: Holdfast) -> None:
    seen: list[str] = []
    with CrashPoint(holdfast_app, at="begin", does=seen.append):
        holdfast_app.claim()
    assert seen == ["begin"]


def test_one_crash_point_at_a_time(holdfast_app: Holdfast) -> None:
    with CrashPoint(holdfast_app), pytest.raises(SettingError, match="already"), CrashPoint(holdfast_app):
        pass
    for wrong in ({"nth": 0}, {"when": "during"}):
        with pytest.raises(SettingError):
            CrashPoint(holdfast_app, **wrong)


def test_every_place_of_an_operation_can_be_gone_through(tmp_path: Path) -> None:
    made: list[Holdfast] = []

    def make() -> Holdfast:
        app = Holdfast(f"sqlite:///{tmp_path / str(len(made))}.db")
        app.task(name="work")(work)
        app.migrate()
        app.task_named("work").using(id="job-1").enqueue()
        made.append(app)
        return app

    def work() -> None:
        return None

    places = statements_of(make(), lambda app: app.cancel("job-1"))
    assert places[0] == "begin"
    assert places[-1] == "committed"
    gone_through = []
    for place, app in every_crash(make, lambda app: app.cancel("job-1")):
        job = app.get("job-1")
        assert job is not None
        assert job.state == (State.CANCELLED if place.endswith("committed") else State.READY)
        gone_through.append(place)
    assert [place.partition(": ")[2] for place in gone_through] == places


# Replay


def test_every_attempt_of_every_job_is_run_twice(holdfast_app: Holdfast, holdfast_clock: ManualClock) -> None:
    ran: list[tuple[str, int]] = []

    @holdfast_app.task(retry=Retry(2, delays=[10]))
    def plain(ctx: Context, name: str) -> str:
        ran.append((name, ctx.attempt))
        if name == "fails once" and ctx.attempt == 1:
            raise ValueError("broken")
        return name

    @holdfast_app.task
    async def soft(ctx: Context) -> None:
        ran.append(("async", ctx.attempt))

    jobs = [plain.enqueue("works"), plain.enqueue("fails once"), soft.enqueue()]
    with always_replay(holdfast_app):
        run_to_empty(holdfast_app, holdfast_clock)
    assert [state(holdfast_app, job) for job in jobs] == ["succeeded"] * 3
    assert sorted(ran) == sorted([("works", 1), ("fails once", 1), ("fails once", 2), ("async", 1)] * 2)
    assert [event.kind for event in holdfast_app.events(jobs[0].id)] == [
        "enqueued",
        "started",
        "released",
        "started",
        "succeeded",
    ]
    again = plain.enqueue("afterwards")
    run_to_empty(holdfast_app)
    assert ran.count(("afterwards", 1)) == 1
    assert state(holdfast_app, again) == State.SUCCEEDED


# Elsewhere


def test_an_app_with_all_its_tasks_on_another_database(tmp_path: Path, holdfast_url: str, holdfast_clock: ManualClock) -> None:
    app = Holdfast(f"sqlite:///{tmp_path / 'production.db'}")

    @app.task
    def double(n: int) -> int:
        return 2 * n

    with elsewhere(app, holdfast_url, holdfast_clock):
        job = double.using(run_after=3600).enqueue(4)
        run_to_empty(app, holdfast_clock)
        assert app.wait(job.id, timeout=0).result == 8
        assert app.url == holdfast_url
    assert not (tmp_path / "production.db").exists()
    assert app.url.endswith("production.db")
    assert app.stats() == {}
    app.close()
