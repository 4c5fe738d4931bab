"""What a job's own code, or our error about its result, quotes of its secret arguments is not stored."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest

from holdfast import Retry, Secret
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
