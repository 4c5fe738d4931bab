"""What a job's own code, or our error about its result, quotes of its secret arguments is not stored."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

from holdfast import Context, Retry, Secret
from tests.conformance.world import World

PASSWORD = 'Pä"ss\\w0rd'


def in_json(password: str) -> None:
    raise RuntimeError(f"400 Bad Request: {json.dumps({'user': 'bob', 'x': password})}")


def in_bytes(password: str) -> None:
    raise RuntimeError(f"sent {password.encode()!r}")


def as_key_of_the_result(password: str) -> dict[Any, int]:
    return {("bob", password): 1}


def beside_a_surrogate(password: str) -> dict[str, str]:
    return {"echo": password + "\ud800"}


@pytest.mark.parametrize("leak", [in_json, in_bytes, as_key_of_the_result, beside_a_surrogate])
def test_m7_an_error_is_stored_without_the_secret_that_it_quotes(store: World, leak: Any) -> None:
    @store.app.task(name="leak", retry=Retry(1))
    def task(password: Annotated[str, Secret()]) -> Any:
        return leak(password)

    job = task.enqueue(PASSWORD)
    store.app.worker().run_until_empty()
    failed = store.get(job)
    (attempt,) = failed.errors
    events = [event.data for event in store.app.events(job.id)]
    assert failed.error is not None
    assert "[redacted]" in failed.error
    for told in (failed.error, attempt.message, attempt.traceback, str(events)):
        assert "w0rd" not in told


LONG = "".join(f"{number:04x}" for number in range(100)) + "  end"
"""Longer than what our errors show of a value; two spaces, which they would make one."""


def within_the_result(ctx: Context, password: str) -> Any:
    return {("bob", password): 1}


def beside_a_lone_surrogate(ctx: Context, password: str) -> Any:
    return password + "\ud800"


def within_an_event(ctx: Context, password: str) -> None:
    ctx.emit("login", {("bob", password): 1})


def within_progress(ctx: Context, password: str) -> None:
    ctx.progress(1, at={("bob", password): 1})


@pytest.mark.parametrize("leak", [within_the_result, beside_a_lone_surrogate, within_an_event, within_progress])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_m7_a_secret_is_taken_out_before_a_value_is_shortened(store: World, leak: Any, kind: str) -> None:
    def task(ctx: Context, password: Annotated[str, Secret()]) -> Any:
        return leak(ctx, password)

    async def atask(ctx: Context, password: Annotated[str, Secret()]) -> Any:
        return leak(ctx, password)

    job = store.app.task(name="leak", retry=Retry(1))(task if kind == "def" else atask).enqueue(LONG)
    store.app.worker().run_until_empty()
    failed = store.get(job)
    (attempt,) = failed.errors
    for told in (failed.error or "", attempt.message, attempt.traceback):
        assert "[redacted]" in told or told is attempt.traceback
        assert not any(LONG[at : at + 8] in told for at in range(len(LONG) - 8))
