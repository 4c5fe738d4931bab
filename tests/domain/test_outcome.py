"""How a run ended, and what follows: decided without a database, a clock or a loop."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast.domain.bounds import ERROR_MESSAGE_CHARS_MAX, REASON_CHARS_MAX, TRACEBACK_CHARS_MAX
from holdfast.domain.outcome import (
    Cancelled,
    Failed,
    Fatal,
    JobError,
    Outcome,
    Released,
    RetryAfter,
    Skip,
    Skipped,
    Snooze,
    Snoozed,
    Succeeded,
    WasCancelled,
    error_of,
    outcome_of,
    settle,
)
from holdfast.domain.retry import Retry
from holdfast.domain.states import MOVES, State
from holdfast.errors import SettingError

RETRY = Retry(delays=[10, 20], jitter=0)
BROKEN = JobError("ValueError", "broken")
EXAMPLES: list[Outcome] = [
    Succeeded("1"), Failed(BROKEN), Failed(BROKEN, retryable=False), Failed(BROKEN, after_seconds=3), Snoozed(5),
    Snoozed(5, "later"), Skipped("no need"), WasCancelled("stop"), Released("the worker stops"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "attempt", "verb", "delay", "cost"),
    [
        (Succeeded("1"), 1, "finish", None, 1),
        (Failed(BROKEN), 1, "back_off", 10.0, 1),
        (Failed(BROKEN), 2, "back_off", 20.0, 1),
        (Failed(BROKEN), 3, "fail", None, 1),
        (Failed(BROKEN), 4, "fail", None, 1),
        (Failed(BROKEN, retryable=False), 1, "fail", None, 1),
        (Failed(BROKEN, after_seconds=3.5), 1, "back_off", 3.5, 1),
        (Failed(BROKEN, after_seconds=0.0), 1, "back_off", 0.0, 1),
        (Failed(BROKEN, after_seconds=3.5), 3, "fail", None, 1),
        (Snoozed(5.0), 3, "snooze", 5.0, 0),
        (Skipped("no need"), 1, "skip", None, 1),
        (WasCancelled("stop"), 1, "cancel", None, 1),
        (Released("the worker stops"), 3, "release", None, 0),
    ],
)
def test_the_settle_table(outcome: Outcome, attempt: int, verb: str, delay: float | None, cost: int) -> None:
    change = settle(attempt, 3, outcome, RETRY, 0.5)
    assert (change.verb, change.delay_seconds, change.attempt_cost) == (verb, delay, cost)


@pytest.mark.parametrize("outcome", EXAMPLES)
@pytest.mark.parametrize("attempt", [1, 3])
def test_every_outcome_makes_a_legal_move_of_a_running_job(outcome: Outcome, attempt: int) -> None:
    change = settle(attempt, 3, outcome, RETRY, 0.5)
    assert MOVES[State.RUNNING, change.verb] == change.state


@pytest.mark.parametrize("outcome", EXAMPLES)
def test_only_scheduled_jobs_have_a_delay_and_only_failed_runs_an_error(outcome: Outcome) -> None:
    change = settle(1, 3, outcome, RETRY, 0.5)
    assert (change.delay_seconds is not None) == (change.state == State.SCHEDULED)
    assert (change.error is not None) == isinstance(outcome, Failed)


def test_a_change_says_what_the_log_will_say() -> None:
    assert settle(2, 3, Failed(BROKEN), RETRY, 0.5).data == {
        "kind": "ValueError", "message": "broken", "attempt": 2, "attempts_max": 3, "delay_seconds": 20.0,
    }  # fmt: skip
    assert settle(3, 3, Failed(BROKEN), RETRY, 0.5).reason == "ValueError: broken"
    assert settle(1, 3, Snoozed(5.0), RETRY, 0.5).data == {"seconds": 5.0}
    assert settle(1, 3, Snoozed(5.0, "full"), RETRY, 0.5).data == {"seconds": 5.0, "reason": "full"}
    assert settle(1, 3, Succeeded('{"a":1}'), RETRY, 0.5).result == '{"a":1}'


def test_what_was_raised_decides() -> None:
    retry = Retry(3, on=(ValueError,), never=(UnicodeError,))
    assert outcome_of(Snooze(timedelta(minutes=1), "full"), retry) == Snoozed(60.0, "full")
    assert outcome_of(Skip("no need"), retry) == Skipped("no need")
    assert outcome_of(Cancelled("stop"), retry) == WasCancelled("stop")
    assert outcome_of(RetryAfter(7, "busy"), retry) == Failed(JobError("RetryAfter", "busy"), after_seconds=7.0)
    assert outcome_of(Fatal("hopeless"), retry) == Failed(JobError("Fatal", "hopeless"), retryable=False)
    assert outcome_of(ValueError("x"), retry) == Failed(JobError("ValueError", "x"))
    assert outcome_of(UnicodeError("x"), retry) == Failed(JobError("UnicodeError", "x"), retryable=False)
    assert outcome_of(KeyError("x"), retry) == Failed(JobError("KeyError", "'x'"), retryable=False)


def test_what_is_no_plain_exception_is_not_tried_again_unless_asked() -> None:
    assert outcome_of(SystemExit(1), Retry(3)) == Failed(JobError("SystemExit", "1"), retryable=False)
    asked = outcome_of(SystemExit(1), Retry(3, on=(BaseException,)))
    assert isinstance(asked, Failed)
    assert asked.retryable


def test_an_error_keeps_its_name_and_fits_its_bounds() -> None:
    assert error_of(SettingError("x")).kind == "holdfast.errors.SettingError"
    assert error_of(ValueError("x")).kind == "ValueError"
    long = error_of(ValueError("m" * 100_000), "t" * 100_000)
    assert len(long.message) <= ERROR_MESSAGE_CHARS_MAX
    assert len(long.traceback) <= TRACEBACK_CHARS_MAX
    skipped = outcome_of(Skip("r" * 100_000), Retry())
    assert isinstance(skipped, Skipped)
    assert len(skipped.reason) <= REASON_CHARS_MAX


def test_an_error_that_cannot_be_printed_is_stored_all_the_same() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("never")

    assert "RuntimeError" in error_of(Unspeakable()).message
    stored = error_of(ValueError("a\x00b\ud800c"))
    assert stored.message.encode()
    assert "\x00" not in stored.message


def test_a_line_for_people() -> None:
    assert JobError("ValueError", "broken").line == "ValueError: broken"
    assert JobError("TimeoutError", "").line == "TimeoutError"


@pytest.mark.parametrize("seconds", [-1, float("nan"), "soon", True])
def test_an_ending_with_an_impossible_time_is_refused_where_it_is_raised(seconds: object) -> None:
    for ending in (Snooze, RetryAfter):
        with pytest.raises(SettingError):
            ending(seconds)  # type: ignore[arg-type]
