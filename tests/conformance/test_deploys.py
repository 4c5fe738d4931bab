"""A rolling deploy: programs with an older and a newer version of a task work on the same queue."""

from __future__ import annotations

import pytest

from holdfast import Holdfast, Job, Retry
from holdfast.domain.states import State
from tests.conformance.world import World


def old_program(store: World, kind: str) -> Holdfast:
    app = store.another()
    if kind == "loop":

        @app.task(name="mail", retry=Retry(3))
        async def mail_in_loop(to: str) -> str:
            return f"old to {to}"

    else:

        @app.task(name="mail", retry=Retry(3))
        def mail(to: str) -> str:
            return f"old to {to}"

    return app


def enqueued_by_a_newer_program(store: World) -> tuple[Holdfast, Job]:
    app = store.another()

    @app.task(name="mail", retry=Retry(3))
    def mail(to: str, html: bool = False) -> str:
        return f"new to {to}, html={html}"

    return app, mail.enqueue("ann", html=True)


@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_f25_an_argument_that_an_old_worker_does_not_know_is_left_to_a_newer_one(store: World, kind: str) -> None:
    new, job = enqueued_by_a_newer_program(store)
    old = old_program(store, kind)
    old.worker().run_until_empty()
    seen = store.get(job)
    assert (seen.state, seen.attempt) == (State.SCHEDULED, 0)
    assert "left to a newer worker" in (seen.error or "")
    assert "argument 'html'" in (seen.error or "")
    store.clock.advance(2)
    old.worker().run_until_empty()
    store.clock.advance(2)
    new.worker().run_until_empty()
    done = store.get(job)
    assert (done.state, done.attempt, done.result) == (State.SUCCEEDED, 1, "new to ann, html=True")
    assert done.error is None


def test_f25_it_fails_with_that_reason_if_no_worker_can_run_it_within_an_hour(store: World) -> None:
    _, job = enqueued_by_a_newer_program(store)
    old, turns = old_program(store, "thread"), 0
    while store.state(job) is not State.FAILED:
        old.worker().run_until_empty()
        store.clock.advance(60)
        turns += 1
    assert 60 <= turns <= 62, "an hour, a minute at a time"
    failed = store.get(job)
    assert failed.attempt == 1
    assert "there is no such parameter (any more)" in (failed.error or "")
