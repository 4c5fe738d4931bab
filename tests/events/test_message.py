"""What a message says, decided without a store: its id, what is left out, and what is not told."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.bounds import CALLBACK_BODY_BYTES_MAX, ID_CHARS_MAX, NAME_CHARS_MAX
from holdfast.domain.job import handle_of
from holdfast.domain.message import Ended, Hidden, event_of, message_id

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=10,
)


def ended(**given: Any) -> Ended:
    facts: dict[str, Any] = {
        "seq": 7, "id": "mine", "task": "shop.analyse", "queue": "llm", "state": "failed", "attempt": 3, "number": 9,
        "created_at": 1, "finished_at": 2_000_000, "result": None, "reason": None, "key": None, "tags": None, "meta": None,
        "callback": "https://example.com/",
    }  # fmt: skip
    return Ended(**facts | given)


def test_the_least_that_is_told() -> None:
    assert event_of(ended()) == {
        "type": "job.failed",
        "timestamp": "1970-01-01T00:00:02+00:00",
        "data": {
            "id": "mine",
            "handle": handle_of("mine"),
            "task": "shop.analyse",
            "queue": "llm",
            "state": "failed",
            "attempt": 3,
            "created_at": "1970-01-01T00:00:00.000001+00:00",
            "finished_at": "1970-01-01T00:00:02+00:00",
        },
    }


def test_an_error_that_quotes_a_secret_is_told_without_it() -> None:
    told = event_of(ended(reason="cannot log in with 'hunter22'"), Hidden(texts=frozenset({"hunter22"})))
    assert told["data"]["error"] == "cannot log in with '[redacted]'"


def test_of_a_long_error_beginning_and_end_are_told() -> None:
    told = event_of(ended(reason=f"it began {'☃' * 8_000} and ended"))["data"]
    assert told["error"].startswith("it began ☃")
    assert told["error"].endswith("☃ and ended")
    assert "left_out" not in told


def test_one_ending_is_one_message() -> None:
    assert message_id(ended()) == message_id(ended(state="succeeded", attempt=1))
    assert len({message_id(ended(**other)) for other in ({}, {"number": 10}, {"seq": 8}, {"id": "other"})}) == 4


@pytest.mark.parametrize("field", ["result", "key", "tags", "meta"])
def test_what_somebody_damaged_is_told_as_nothing(field: str) -> None:
    assert event_of(ended(**{field: "{"}))["data"][field] is None


@given(result=JSON, meta=st.dictionaries(st.text(), JSON, max_size=5), size=st.sampled_from([0, 3_000, 15_000, 19_500, 60_000]))
def test_a_message_is_small_whatever_is_in_it(result: Any, meta: Any, size: int) -> None:
    content = {"id": "i" * ID_CHARS_MAX, "task": "t" * NAME_CHARS_MAX, "queue": "q" * NAME_CHARS_MAX, "reason": "☃" * 2_000}
    padded = [result, "x" * size]
    texts = {"result": msgspec.json.encode(padded).decode(), "meta": msgspec.json.encode(meta).decode()}
    event = event_of(ended(**content, **texts))
    assert len(msgspec.json.encode(event)) < CALLBACK_BODY_BYTES_MAX
    assert ("result" in event["data"]) != ("result" in event["data"].get("left_out", ()))
