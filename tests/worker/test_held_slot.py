"""L6: a job that waits for one that cannot start, since all slots are taken, is warned of with the remedy."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.until import until
from tests.workers import working

from holdfast import Holdfast


@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_l6_a_job_that_waits_in_the_last_slot_for_another_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("holdfast.client.held_slot.UNSTARTED_SECONDS", 0.05)
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(name="child")
    def child() -> int:
        return 1

    @app.task(name="thread")
    def in_thread() -> int:
        return int(app.wait(child.enqueue().id).result)

    @app.task(name="loop")
    async def in_loop() -> int:
        return int((await app.await_job((await child.aenqueue()).id)).result)

    job = app.task_named(kind).enqueue()
    with working(app, concurrency=1), caplog.at_level(logging.WARNING, "holdfast.worker"):
        warned = until(lambda: [text for text in caplog.messages if "keeps its slot" in text], "a warning")
        assert f"job {job.id} ({kind}) waits for job" in warned[0]
        assert "raise the concurrency, give child a queue with workers of its own" in warned[0]
        with working(app, concurrency=2):
            assert app.wait(job.id, timeout=30).result == 1


def test_l6_outside_of_a_task_nobody_is_warned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.client.held_slot.UNSTARTED_SECONDS", 0.01)
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(name="child")
    def child() -> int:
        return 1

    with pytest.raises(TimeoutError):
        app.wait(child.enqueue().id, timeout=0.1)
    assert "keeps its slot" not in caplog.text
