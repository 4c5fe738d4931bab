"""How often a job may run, how long it waits in between, and which errors deserve another try."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta

from holdfast.domain.bounds import ATTEMPTS_MAX, SECONDS_MAX
from holdfast.errors import SettingError

Duration = float | timedelta


class Retry:
    """`Retry(attempts=6, delays=[30, 120, 480, 1800, 7200])`, or exponential: base, base x factor, … up to cap.

    attempts  runs in all, the first included; with `delays` alone, one more than there are delays, so that each is used.
    jitter    0.1 makes a delay vary by up to 10 % either way, so that jobs which failed together do not return together.
    on/never  the exceptions that are tried again, and those among them that are not.
    """

    __slots__ = ("attempts", "base", "cap", "delays", "factor", "jitter", "never", "on")

    def __init__(
        self,
        attempts: int | None = None,
        *,
        delays: Sequence[Duration] | None = None,
        base: Duration = 5.0,
        factor: float = 3.0,
        cap: Duration = 3600.0,
        jitter: float = 0.1,
        on: type[BaseException] | tuple[type[BaseException], ...] = (Exception,),
        never: type[BaseException] | tuple[type[BaseException], ...] = (),
    ) -> None:
        self.delays = None if delays is None else tuple(seconds_of("retry delay", delay) for delay in delays)
        if attempts is None:
            attempts = 3 if self.delays is None else len(self.delays) + 1
        self.attempts = check_attempts(attempts)
        self.base = seconds_of("retry base", base)
        self.cap = seconds_of("retry cap", cap)
        if not (isinstance(factor, int | float) and 1.0 <= factor <= 100.0):
            raise SettingError(f"retry factor {factor!r} must be a number from 1 to 100")
        if not (isinstance(jitter, int | float) and 0.0 <= jitter <= 1.0):
            raise SettingError(f"retry jitter {jitter!r} must be a number from 0 to 1")
        self.factor, self.jitter = float(factor), float(jitter)
        self.on = _classes("on", on)
        self.never = _classes("never", never)

    def __repr__(self) -> str:
        growing = f"base={self.base:g}, factor={self.factor:g}, cap={self.cap:g}"
        return f"Retry(attempts={self.attempts}, {growing if self.delays is None else f'delays={list(self.delays)}'})"

    def wants(self, error: BaseException) -> bool:
        """Whether this error deserves another try."""
        return isinstance(error, self.on) and not isinstance(error, self.never)

    def delay_seconds(self, attempt: int, chance: float) -> float:
        """The pause after failed attempt 1, 2, …; `chance` from 0 to 1 places it within the jitter."""
        if self.delays is None:
            plain = min(self.cap, self.base * self.factor ** min(attempt - 1, 150))
        elif self.delays:
            plain = self.delays[min(attempt, len(self.delays)) - 1]
        else:
            plain = 0.0
        return plain * (1.0 + self.jitter * (2.0 * chance - 1.0))


def check_attempts(attempts: int) -> int:
    if isinstance(attempts, bool) or not isinstance(attempts, int) or not 1 <= attempts <= ATTEMPTS_MAX:
        raise SettingError(f"attempts {attempts!r} must be a whole number from 1 to {ATTEMPTS_MAX}")
    return attempts


def seconds_of(what: str, duration: Duration, *, positive: bool = False) -> float:
    """A duration as seconds: a number or a timedelta, not negative, not NaN, at most a hundred years."""
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, int | float) and not isinstance(duration, bool):
        seconds = float(duration)
    else:
        raise SettingError(f"{what} {duration!r} is not a duration; give seconds or a timedelta")
    if math.isnan(seconds) or not 0.0 <= seconds <= SECONDS_MAX or (positive and seconds == 0.0):
        least = "more than 0" if positive else "0 or more"
        raise SettingError(f"{what} {duration!r} must be {least} seconds and at most {SECONDS_MAX}")
    return seconds


def _classes(what: str, classes: type[BaseException] | tuple[type[BaseException], ...]) -> tuple[type[BaseException], ...]:
    given = classes if isinstance(classes, tuple) else (classes,)
    for each in given:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise SettingError(f"retry {what}={each!r} is not an exception class")
    return given
