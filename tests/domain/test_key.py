"""Keys: how they are written down, and when a holder keeps others out."""

from __future__ import annotations

import itertools
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.bounds import INTEGER_MAX, KEY_BYTES_MAX
from holdfast.domain.key import Holder, Key, holds, key_of, key_text
from holdfast.domain.states import FINAL, State
from holdfast.errors import SettingError

PARTS = st.lists(
    st.one_of(
        st.integers(-INTEGER_MAX, INTEGER_MAX),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    ),
    min_size=1,
    max_size=4,
).map(tuple)


@given(PARTS, PARTS)
def test_keys_are_the_same_exactly_when_their_parts_are(one: tuple[str | int, ...], other: tuple[str | int, ...]) -> None:
    assert (key_text(one) == key_text(other)) == (one == other)
    assert (Key(*one) == Key(*other)) == (one == other)


def test_a_key_is_written_as_a_json_array() -> None:
    assert Key("client-7", 1).text == '["client-7",1]'
    assert Key("client-7", 1).parts == ("client-7", 1)
    assert hash(Key("a", scope="active")) == hash(Key("a"))


def test_what_may_be_passed_as_a_key() -> None:
    key = Key("a", 1)
    assert key_of(key) is key
    assert key_of(("a", 1)) == key_of(["a", 1]) == key
    assert key_of("a").parts == ("a",)
    assert key_of(7).parts == (7,)


@pytest.mark.parametrize(
    "parts", [(), (1.5,), (None,), (True,), (b"x",), ("a\0b",), ("\ud800",), (2**70,), ("x" * KEY_BYTES_MAX,)], ids=repr
)
def test_parts_that_cannot_be_stored_are_refused(parts: tuple[object, ...]) -> None:
    with pytest.raises(SettingError, match="key"):
        Key(*parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"scope": "always"}, {"scope": 0}, {"scope": -1}, {"scope": True}, {"conflict": "ignore"}, {"failed": "no"}]
)
def test_options_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(SettingError, match="key"):
        Key("a", **options)  # type: ignore[arg-type]


def test_a_scope_may_be_a_duration() -> None:
    assert Key("a", scope=60).scope == Key("a", scope=timedelta(minutes=1)).scope == 60.0


def holder(scope: str, failed: str, state: State | None, ended: State | None = None, until: int | None = None) -> Holder:
    return Holder(1, "id", scope, until, failed, ended, 0, "task", "queue", state)


@pytest.mark.parametrize(("failed", "state"), list(itertools.product(["free", "hold"], State)))
def test_who_holds_a_key(failed: str, state: State) -> None:
    freed = state == State.FAILED and failed == "free"
    for seen, ended in ((state, None), (None, state)):
        if ended is not None and ended not in FINAL:
            continue
        assert holds(holder("forever", failed, seen, ended), 100) == (not freed)
        assert holds(holder("active", failed, seen, ended), 100) == (state not in FINAL)
        assert holds(holder("seconds", failed, seen, ended, until=101), 100) == (not freed)
        assert not holds(holder("seconds", failed, seen, ended, until=100), 100)


def test_a_job_that_is_only_just_being_written_holds_its_key() -> None:
    for scope, until in (("forever", None), ("active", None), ("seconds", 200)):
        assert holds(holder(scope, "free", None, until=until), 100)
