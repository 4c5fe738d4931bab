"""Whatever a task says, and however odd it is, is that job's own affair: its worker and its neighbours go on."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast import Context, Holdfast, Retry, SettingError, State
from holdfast.domain.bounds import METERS_PER_JOB_MAX


@pytest.fixture
def app(tmp_path: Path) -> Holdfast:
    return Holdfast(f"sqlite:///{tmp_path}/jobs.db")


def test_a_list_that_grows_after_it_was_told_is_kept_as_it_was_told(app: Holdfast) -> None:
    @app.task
    def grow(ctx: Context) -> None:
        lines: list[str] = []
        ctx.progress(1, 10, lines=lines)
        lines += ["x" * 3_000] * 10

    job = grow.enqueue()
    app.worker().run_until_empty()
    found = app.wait(job)
    assert (found.state, found.progress["lines"]) == (State.SUCCEEDED, [])


@pytest.mark.parametrize(
    "amounts",
    [[{"x": 0.6e100}, {"x": 0.6e100}], [{"x" * 20_000: 1.0}], [{f"m{n}": 1.0 for n in range(METERS_PER_JOB_MAX + 1)}]],
    ids=["a sum that is too large", "a name without end", "too many"],
)
def test_a_meter_that_cannot_be_kept_is_refused_where_it_is_said(app: Holdfast, amounts: list[dict[str, float]]) -> None:
    @app.task(retry=Retry(1))
    def spend(ctx: Context) -> str:
        for each in amounts[:-1]:
            ctx.meter(**each)
        with pytest.raises(SettingError):
            ctx.meter(**amounts[-1])
        return "went on"

    @app.task
    def neighbour() -> str:
        return "fine"

    jobs = [spend.enqueue(), neighbour.enqueue()]
    app.worker().run_until_empty()
    assert [app.wait(job).result for job in jobs] == ["went on", "fine"]


def test_an_exception_whose_class_has_an_unspeakable_name_fails_its_own_job_only(app: Holdfast) -> None:
    class Odd(Exception):
        pass

    Odd.__qualname__ = "bad\ud800"

    @app.task(retry=Retry(1))
    def odd() -> None:
        raise Odd("boom")

    job = odd.enqueue()
    app.worker().run_until_empty()
    found = app.wait(job)
    assert found.state == State.FAILED
    assert "boom" in (found.error or "")


def test_the_delay_after_very_many_attempts_is_still_a_number() -> None:
    retry = Retry(attempts=10_000, base=0.001, factor=100, cap=0.001, jitter=0)
    assert retry.delay_seconds(9_999, 0.5) == 0.001


def test_one_name_counts_as_a_list_of_one(app: Holdfast) -> None:
    @app.task(name="x", queue="llm")
    def x() -> None: ...

    @app.task(name="xx", queue="other")
    def xx() -> None: ...

    x.enqueue()
    assert app.claim(tasks="xx") is None
    assert app.claim(queues="other") is None
    lease = app.claim(queues="llm", tasks=x)
    assert lease is not None
    app.release(lease)


def test_a_job_may_be_passed_wherever_its_id_may(app: Holdfast) -> None:
    @app.task
    def x() -> None: ...

    job = x.enqueue()
    assert app.get(job) == job
    assert app.cancel(job).state == State.CANCELLED
    assert app.retry(job).state == State.READY
    with pytest.raises(SettingError, match=r"3 is no job and no id of one; pass job\.id"):
        app.cancel(3)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"make one with task\.bind"):
        app.enqueue(x)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"retry=Retry\(attempts=3\)"):
        app.task(retry=3)  # type: ignore[call-overload]


def test_lanes_that_are_empty_cost_a_claim_nothing(app: Holdfast) -> None:
    @app.task
    def x() -> None: ...

    app.enqueue_many(x.using(queue=f"tenant-{number}").bind() for number in range(300))
    while lease := app.claim(seconds=60):
        app.finish(lease)
    x.enqueue()
    verbs: list[str] = []
    app.store.probe = verbs.append
    lease = app.claim()
    app.store.probe = None
    assert lease is not None
    assert verbs.count("ready_in_lane") == 1
    app.finish(lease)


def test_jobs_of_a_dead_worker_are_named_when_they_are_taken_back(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    @app.task
    def x() -> None: ...

    job = x.enqueue()
    lease = app.claim(seconds=0.001)
    assert lease is not None
    with caplog.at_level(logging.INFO, "holdfast.worker"):
        app.worker().run_until_empty()
    assert f"took back from workers that are gone: {job.id}" in caplog.text
