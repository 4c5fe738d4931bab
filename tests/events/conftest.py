"""Callbacks on every store, with somebody on this machine who is called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Job
from holdfast.domain.callback import CALLBACK_QUEUE
from tests.conformance.conftest import store as store
from tests.conformance.world import World, sqlite_world
from tests.events.receiver import SECRET, Receiver
from tests.simulation.invariants import Rows

URL = "http://127.0.0.1:9/hook"
"""Where nobody is; for tests that deliver nothing."""


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("HOLDFAST_WEBHOOK_ALLOW", "127.0.0.0/8")
    monkeypatch.setenv("HOLDFAST_WEBHOOK_DELAYS", "10,20")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def telling(world: World, job: Job | str | None = None) -> list[Job]:
    """The jobs that tell of an end, the oldest first."""
    return world.app.jobs(queue=CALLBACK_QUEUE, parent=job, newest=False)


def check_told(rows: Rows) -> None:
    """Every end of a job with a callback is told by one job, and nothing else is."""
    ends = rows(
        "SELECT body.id, count(*) FROM holdfast_job_spec AS body JOIN holdfast_event AS event ON event.job = body.seq"
        " WHERE body.callback IS NOT NULL AND event.kind IN ('succeeded', 'failed', 'cancelled', 'skipped') GROUP BY body.id"
    )
    told = rows("SELECT parent, count(*) FROM holdfast_job_spec WHERE id LIKE 'msg_%' GROUP BY parent")
    assert sorted(ends) == sorted(told)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """For what does not depend on the store."""
    made = sqlite_world(tmp_path)
    yield made
    made.close()
