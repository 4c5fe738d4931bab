"""C3: a database that was set back under a running worker, in which other jobs now have the numbers of those that it runs."""

from __future__ import annotations

import threading

import pytest

from holdfast import Context, State
from tests.conformance.world import World
from tests.until import PATIENCE, until
from tests.workers import working

# As a restore leaves it: the worker's row has an older beat, and the number of the job that runs is that of another one.
SET_BACK = (
    "UPDATE holdfast_worker SET beat_tick = beat_tick - 1 RETURNING 1",
    "DELETE FROM holdfast_running RETURNING 1",
    "DELETE FROM holdfast_event RETURNING 1",
    "DELETE FROM holdfast_job_state RETURNING 1",
    """UPDATE holdfast_job_spec SET id = 'new', arguments = '{"name":"new"}' RETURNING 1""",
    "INSERT INTO holdfast_ready (lane, priority, seq) SELECT lane, priority, seq FROM holdfast_job_spec RETURNING 1",
)


def test_c3_a_job_does_not_get_the_result_of_the_one_whose_number_it_has(store: World, caplog: pytest.LogCaptureFixture) -> None:
    gates = {name: threading.Event() for name in ("old", "new", "later")}
    began: list[str] = []

    @store.app.task(name="gated")
    def gated(ctx: Context, name: str) -> str:
        began.append(name)
        gates[name].wait(PATIENCE)
        return name

    gates["later"].set()
    with working(store.app, concurrency=4):
        gated.enqueue("old")
        until(lambda: "old" in began, "the first runs")
        for statement in SET_BACK:
            store.rows(statement)
        later = [gated.enqueue("later")]  # wakes the worker
        until(lambda: "new" in began, "the job that has its number runs")
        gates["old"].set()
        for _ in range(3):  # what the old run returned is reported before these
            later.append(gated.enqueue("later"))
            assert store.app.wait(later[-1].id, timeout=PATIENCE).state is State.SUCCEEDED
        assert store.get("new").state is State.RUNNING
        gates["new"].set()
        assert store.app.wait("new", timeout=PATIENCE).result == "new"
    assert "or the database was restored; it registers again" in caplog.text
