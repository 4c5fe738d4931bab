"""How often, how long in between, and for which errors."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.bounds import ATTEMPTS_MAX, SECONDS_MAX
from holdfast.domain.outcome import Failed, JobError, settle
from holdfast.domain.retry import Retry, check_attempts, seconds_of
from holdfast.errors import SettingError

DELAYS = [30.0, 120.0, 480.0, 1800.0, 7200.0]


def walk(retry: Retry, chance: float = 0.5) -> list[float | None]:
    """The delay after each failed attempt; None where it fails for good."""
    failed = Failed(JobError("E", ""))
    return [settle(attempt, retry.attempts, failed, retry, chance).delay_seconds for attempt in range(1, retry.attempts + 1)]


def test_five_delays_are_six_attempts_and_each_delay_is_used() -> None:
    assert Retry(delays=DELAYS).attempts == 6
    assert walk(Retry(delays=DELAYS, jitter=0)) == [*DELAYS, None]
    assert walk(Retry(6, delays=DELAYS, jitter=0)) == [*DELAYS, None]


def test_more_attempts_than_delays_repeat_the_last() -> None:
    assert walk(Retry(5, delays=[1, 2], jitter=0)) == [1.0, 2.0, 2.0, 2.0, None]


def test_fewer_attempts_than_delays_leave_some_unused() -> None:
    assert walk(Retry(2, delays=DELAYS, jitter=0)) == [30.0, None]


def test_no_delays_at_all_is_one_attempt_unless_more_are_asked_for() -> None:
    assert walk(Retry(delays=[])) == [None]
    assert walk(Retry(3, delays=[])) == [0.0, 0.0, None]


def test_without_delays_they_grow_up_to_a_cap() -> None:
    retry = Retry(7, base=5, factor=3, cap=100, jitter=0)
    assert walk(retry) == [5.0, 15.0, 45.0, 100.0, 100.0, 100.0, None]
    assert Retry(ATTEMPTS_MAX, jitter=0).delay_seconds(ATTEMPTS_MAX - 1, 0.5) == 3600.0


@given(
    attempt=st.integers(1, 10_000),
    chance=st.floats(0, 1),
    jitter=st.floats(0, 1),
    delays=st.none() | st.lists(st.floats(0, 1e6), max_size=5),
)
def test_jitter_stays_within_its_bounds(attempt: int, chance: float, jitter: float, delays: list[float] | None) -> None:
    plain = Retry(3, delays=delays, jitter=0).delay_seconds(attempt, 0.5)
    varied = Retry(3, delays=delays, jitter=jitter).delay_seconds(attempt, chance)
    assert varied >= 0
    assert plain * (1 - jitter) - 1e-6 <= varied <= plain * (1 + jitter) + 1e-6


def test_jitter_uses_its_whole_range() -> None:
    retry = Retry(2, delays=[100], jitter=0.1)
    assert [round(retry.delay_seconds(1, chance), 6) for chance in (0.0, 0.5, 1.0)] == [90.0, 100.0, 110.0]


def test_which_errors_deserve_another_try() -> None:
    retry = Retry(on=(OSError, ValueError), never=FileNotFoundError)
    assert [retry.wants(error) for error in (OSError(), ValueError(), FileNotFoundError(), KeyError())] == [
        True,
        True,
        False,
        False,
    ]
    assert not Retry().wants(KeyboardInterrupt())


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0}, {"attempts": -1}, {"attempts": 1.5}, {"attempts": True}, {"attempts": ATTEMPTS_MAX + 1},
        {"delays": [-1]}, {"delays": ["x"]}, {"jitter": -0.1}, {"jitter": 1.1}, {"factor": 0.5}, {"base": float("inf")},
        {"cap": -1}, {"on": "ValueError"}, {"never": (int,)},
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_the_value(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        Retry(**wrong)  # type: ignore[arg-type]


def test_durations_are_seconds_or_a_timedelta() -> None:
    assert seconds_of("x", 90) == seconds_of("x", 90.0) == seconds_of("x", timedelta(minutes=1.5)) == 90.0
    assert seconds_of("x", 0) == 0.0
    for wrong in (-1, timedelta(seconds=-1), float("nan"), float("inf"), SECONDS_MAX + 1, "90", None, True):
        with pytest.raises(SettingError, match="x "):
            seconds_of("x", wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="more than 0"):
        seconds_of("x", 0, positive=True)


def test_attempts_are_counted_in_whole_numbers() -> None:
    assert check_attempts(1) == 1
    with pytest.raises(SettingError, match=r"attempts 0 must be a whole number from 1 to 10000"):
        check_attempts(0)
