"""F19: a worker that runs until nothing is left says what is, and waits for jobs that back off if that is asked."""

from __future__ import annotations

import pytest

from holdfast import Holdfast, Retry
from tests.conformance.world import World


@pytest.mark.parametrize("retries", [False, True])
def test_f19_a_drain_waits_for_retries_if_asked_and_tells_what_is_left(store: World, retries: bool) -> None:
    with Holdfast(store.url) as app:  # by the real clock
        tries: list[int] = []

        @app.task(name="flaky", retry=Retry(delays=[0.2], jitter=0))
        def flaky() -> str:
            tries.append(1)
            if len(tries) == 1:
                raise ConnectionError("not yet")
            return "done"

        job = flaky.enqueue()
        flaky.using(run_after=3600).enqueue()
        left = app.worker().run_until_empty(retries=retries)
        assert (left.ready, left.running) == (0, 0)
        assert (left.scheduled, left.retrying) == ((1, 0) if retries else (2, 1))
        assert str(left) == (
            "left are 1 scheduled, 0 ready and 0 running jobs"
            if retries
            else "left are 2 scheduled (1 of them back off), 0 ready and 0 running jobs"
        )
        assert store.get(job).state == ("succeeded" if retries else "scheduled")
        assert app.worker(queues=["other"]).run_until_empty() == (0, 0, 0, 0)
