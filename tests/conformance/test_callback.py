"""A job's callback is stored with it and read with it, whichever way it came in. What is done with it: see tests/events."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import SettingError
from holdfast.domain.job import callback_status
from holdfast.domain.states import State
from tests.conformance.world import World

URL = "https://hooks.example.com/ended?for=7"


@pytest.fixture
def world(store: World) -> World:
    """The example's address is looked up nowhere."""
    store.app.courier.resolve = lambda *_: ["93.184.215.14"]
    return store


def test_a_callback_is_kept_whatever_else_a_job_has(world: World) -> None:
    asked = world.add.using(callback=URL)
    tasks = (asked, asked.using(key="k"), asked.using(id="mine"), asked.using(tags=["t"]), asked.using(run_after=60))
    for task in (*tasks, asked.using(meta={"a": 1})):
        job = task.enqueue(1)
        assert (job.callback, job.callback_status) == (URL, "pending")
        assert (world.get(job).callback, world.get(job).callback_status) == (URL, "pending")
        assert [event.number for event in world.app.events(job.id)] == [1]


def test_a_callback_of_many_jobs(world: World) -> None:
    batch = world.app.enqueue_many([world.add.using(callback=URL).bind(1), world.add.bind(2)])
    assert [(job.callback, job.callback_status) for job in batch] == [(URL, "pending"), (None, None)]


def test_a_holder_knows_the_callback(world: World) -> None:
    world.add.using(callback=URL).enqueue(1)
    world.add.enqueue(2)
    assert [(world.claim().job.callback, world.claim().job.callback)] == [(URL, None)]


def test_what_is_no_url_is_refused(world: World) -> None:
    wrong: list[Any] = ["ftp://example.com/", "example.com", 7, "https://" + "x" * 2_000, ""]
    for url in wrong:
        with pytest.raises(SettingError, match="callback"):
            world.add.using(callback=url)


@pytest.mark.parametrize("state", [None, *State])
def test_the_status_follows_from_the_job_that_tells(state: State | None) -> None:
    told = {State.SUCCEEDED: "delivered", State.FAILED: "failed", State.CANCELLED: "failed", State.SKIPPED: "failed"}
    assert callback_status(URL, state) == (told.get(state, "pending") if state else "pending")
    assert callback_status(None, state) is None
