"""A clock that stands still until a test moves it: schedules and leases are then decided in no time at all."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.domain.job import micros_of, moment_of
from holdfast.domain.retry import Duration, seconds_of

START: Final = datetime(2030, 1, 1, tzinfo=UTC)
_TICK_START: Final = 3_600_000_000


class ManualClock:
    """`Holdfast(url, clock=ManualClock())`. Safe to share between threads: a reader sees a whole move or none of it."""

    def __init__(self, start: datetime = START) -> None:
        self._lock = threading.Lock()
        self._now = micros_of(start)
        self._tick = _TICK_START
        self._boots = 1

    def now(self) -> int:
        """Wall time, in microseconds since 1970."""
        with self._lock:
            return self._now

    def tick(self) -> int:
        """Lease time, in microseconds since the last (pretended) boot."""
        with self._lock:
            return self._tick

    def boot(self) -> str:
        with self._lock:
            return f"boot-{self._boots}"

    @property
    def moment(self) -> datetime:
        """The wall time as an aware datetime."""
        return moment_of(self.now())

    def advance(self, seconds: Duration) -> datetime:
        """Time passes, for the wall and for leases alike; the wall time that this leads to."""
        passed = round(seconds_of("advance", seconds) * 1e6)
        with self._lock:
            self._now += passed
            self._tick += passed
            return moment_of(self._now)

    def jump(self, seconds: float | timedelta) -> datetime:
        """Somebody sets the wall clock, forwards or backwards; leases do not see it."""
        delta = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        with self._lock:
            self._now += delta // timedelta(microseconds=1)
            return moment_of(self._now)

    def reboot(self) -> None:
        """The machine was started again: lease time begins anew, and leases from before it mean nothing."""
        with self._lock:
            self._tick = 0
            self._boots += 1

    def __repr__(self) -> str:
        return f"<ManualClock {self.moment.isoformat()} boot {self._boots}>"
