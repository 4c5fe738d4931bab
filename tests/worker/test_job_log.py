"""How runs end is logged: at the right level, with the job's fields, and neutral; what a job logs carries its job."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.worker import process_tasks

from holdfast import Context, Fatal, Holdfast, JobFilter, RetryAfter, Skip, Snooze, current_job
from holdfast.cli.logs import JsonLines
from holdfast.testing import ManualClock, run_to_empty
from holdfast.testing.elsewhere import elsewhere

FORGED = "no\n2030-01-01 ERROR forged \x1b[2J"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{tmp_path}/jobs.db", clock=ManualClock()) as app:
        yield app


def of_job(caplog: pytest.LogCaptureFixture, job: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if getattr(record, "job", None) == job]


def test_f12_a_job_that_failed_for_good_is_an_error_with_a_traceback_and_fields(
    app: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    @app.task(name="refund", queue="money")
    def refund(cents: int) -> None:
        raise Fatal(f"no such account for {cents}")

    job = refund.enqueue(7)
    run_to_empty(app)
    (record,) = of_job(caplog, job.id)
    assert record.levelno == logging.ERROR
    assert "no such account for 7" in record.getMessage()
    assert "failed for good" in record.getMessage()
    fields = ("task", "queue", "attempt", "error")
    assert [getattr(record, name) for name in fields] == ["refund", "money", 1, "Fatal"]
    assert "in refund" in (record.exc_text or "")
    assert record.exc_info
    assert record.exc_info[0]
    line = JsonLines().format(record)
    assert '"error": "Fatal"' in line
    assert "in refund" in line


def test_f12_a_retry_is_a_warning(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(name="later")
    async def later() -> None:
        raise RetryAfter(60, "busy")

    job = later.enqueue()
    run_to_empty(app)
    (record,) = of_job(caplog, job.id)
    assert record.levelno == logging.WARNING
    assert record.exc_info is None
    assert "again in 60.0 s" in record.getMessage()


@pytest.mark.parametrize(
    ("ending", "said"),
    [(None, "succeeded in"), (Skip("old news"), "was skipped in"), (Snooze(30), "runs again in 30.0 s"),],
)  # fmt: skip
def test_f12_every_other_end_is_one_line_at_info(
    app: Holdfast, caplog: pytest.LogCaptureFixture, ending: Exception | None, said: str
) -> None:
    @app.task(name="work")
    def work() -> None:
        if ending:
            raise ending

    job = work.enqueue()
    with caplog.at_level(logging.INFO, "holdfast.worker"):
        run_to_empty(app)
    (record,) = of_job(caplog, job.id)
    assert record.levelno == logging.INFO
    assert f"job {job.id} (work) {said}" in record.getMessage()


def test_f12_the_cancel_of_a_running_job_is_logged(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    started = threading.Event()

    @app.task(name="long")
    async def long() -> None:
        started.set()
        await asyncio.Event().wait()

    job, worker = long.enqueue(), app.worker()
    thread = threading.Thread(target=worker.run)
    with caplog.at_level(logging.INFO, "holdfast.worker"):
        thread.start()
        assert started.wait(30)
        app.cancel(job.id)
        app.wait(job.id, timeout=30)
        worker.stop()
        thread.join(30)
    assert f"job {job.id} (long) is stopped: it was cancelled" in caplog.messages


def test_f12_a_handler_that_hangs_stops_no_beat(app: Holdfast) -> None:
    entered, gate = threading.Event(), threading.Event()

    class Hanging(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            entered.set()
            gate.wait(30)

    @app.task(name="broken")
    def broken() -> None:
        raise Fatal("no")

    @app.task(name="fine")
    def fine() -> str:
        return "done"

    broken.enqueue()
    worker, handler = app.worker(), Hanging()
    thread = threading.Thread(target=worker.run)
    logging.getLogger("holdfast.worker").addHandler(handler)
    try:
        thread.start()
        assert entered.wait(30)
        assert app.wait(fine.enqueue().id, timeout=30).result == "done"
    finally:
        gate.set()
        worker.stop()
        thread.join(30)
        logging.getLogger("holdfast.worker").removeHandler(handler)


def test_f12_what_a_job_logs_carries_its_job_and_current_job_names_it(app: Holdfast) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(JobFilter())
    handler.setFormatter(logging.Formatter("%(job)s %(task)s %(queue)s %(attempt)s %(message)s"))
    log = logging.getLogger("shop")

    def deep_inside() -> str:
        job = current_job()
        assert job is not None
        log.warning("at work")
        return job.id

    @app.task(name="thread")
    def in_thread(n: int) -> str:
        job = current_job()
        assert job is not None
        assert (job.task, job.queue, job.attempt, job.arguments) == ("thread", "default", 1, {"n": 3})
        return deep_inside()

    @app.task(name="loop")
    async def in_loop(ctx: Context) -> str:
        return await asyncio.to_thread(deep_inside)

    assert current_job() is None
    jobs = [in_thread.enqueue(3), in_loop.enqueue()]
    log.addHandler(handler)
    try:
        log.warning("outside")
        run_to_empty(app)
        log.warning("outside again")
    finally:
        log.removeHandler(handler)
    for job in jobs:
        assert app.wait(job.id).result == job.id
        assert f"{job.id} {job.task} default 1 at work" in stream.getvalue().splitlines()
    assert "None None None None outside again" in stream.getvalue()


def test_f13_what_a_child_process_logs_goes_through_its_workers_handlers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with elsewhere(process_tasks.app, f"sqlite:///{tmp_path}/jobs.db") as app, caplog.at_level(logging.INFO):
        job = process_tasks.write_log.enqueue("hello")
        run_to_empty(app)
        assert app.wait(job.id).result == job.id, "current_job() is known in a child"
    mine = {record.levelname: record for record in caplog.records if record.name == "shop.child"}
    assert set(mine) == {"INFO", "ERROR"}, "by the levels of the worker: no debug"
    info = mine["INFO"]
    assert info.getMessage() == "info hello"
    fields = {name: getattr(info, name) for name in ("job", "task", "attempt", "colour")}
    assert fields == {"job": job.id, "task": job.task, "attempt": 1, "colour": "red"}
    assert info.process != os.getpid()
    assert "ZeroDivisionError" in (mine["ERROR"].exc_text or "")
    assert "hello" not in capfd.readouterr().err, "the child writes none of it itself"


def test_l9_an_error_cannot_forge_a_line_in_a_plain_log(app: Holdfast) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    @app.task(name="forge")
    def forge(how: str) -> None:
        if how == "skip":
            raise Skip(FORGED)
        raise Fatal(FORGED) if how == "fatal" else RetryAfter(60, FORGED)

    for how in ("fatal", "retry", "skip"):
        forge.enqueue(how)
    log = logging.getLogger("holdfast.worker")
    log.addHandler(handler)
    level = log.level
    log.setLevel(logging.INFO)
    try:
        run_to_empty(app)
    finally:
        log.setLevel(level)
        log.removeHandler(handler)
    assert stream.getvalue().count("forged") >= 4
    assert "\x1b" not in stream.getvalue()
    assert not [line for line in stream.getvalue().splitlines() if line.startswith("2030-01-01 ERROR forged")]
