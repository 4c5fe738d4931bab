"""Durations and moments as people type them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.cli.times import moment_in, seconds_in, span
from holdfast.cli.trouble import Trouble


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("0.5", 0.5),
        ("30s", 30),
        ("5m", 300),
        ("2h", 7200),
        ("7d", 604_800),
        ("1w", 604_800),
        ("1h30m", 5400),
        ("250ms", 0.25),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert seconds_in("--lease", text) == seconds


@pytest.mark.parametrize("text", ["", "s", "5 apples", "-5s", "5y", "nan", "1h 30m x", "30s5"])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(Trouble, match=r"--lease .* is not a duration; use for example 30s") as caught:
        seconds_in("--lease", text)
    assert caught.value.code == 2


def test_moments() -> None:
    assert moment_in("--run-after", "10m") == 600
    assert moment_in("--run-after", "20300131") == 20_300_131  # a number is seconds
    assert moment_in("--run-after", "2030-01-31T09:00Z") == datetime(2030, 1, 31, 9, tzinfo=UTC)
    assert moment_in("--run-after", "2030-01-31T11:00+02:00") == datetime(2030, 1, 31, 9, tzinfo=UTC)


def test_a_moment_without_timezone_is_refused() -> None:
    with pytest.raises(Trouble, match="has no timezone; add Z"):
        moment_in("--run-after", "2030-01-31T09:00")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0ms"), (0.0214, "21ms"), (0.4, "0.4s"), (12, "12s"), (119, "119s"), (300, "5m"), (7300, "2h"), (200_000, "2d")],
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text
