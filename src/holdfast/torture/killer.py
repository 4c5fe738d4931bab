"""The killer: SIGKILL and SIGSTOP to random processes of the fleet; at the end two workers that are spared finish the rest."""

from __future__ import annotations

import random
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from holdfast.torture.direct import DirectSqlite, connect
from holdfast.torture.fleet import LEASES_SECONDS, OPEN_JOBS, Fleet, Plan, Slot

PAUSE_MEAN_SECONDS: Final = 0.07
PAUSE_SECONDS_MAX: Final = 0.6
STOP_SHARE: Final = 0.1
"""The share of strikes that are SIGSTOP for longer than a lease, followed by SIGCONT; the others are SIGKILL."""
LOCKED_SHARE: Final = 0.2
"""A process that is stopped inside a transaction blocks all writers of an SQLite file: tried, but seldom."""
SPARED_SECONDS: Final = 0.5
"""After SIGCONT no strike for so long: time for the process to do what its lost lease forbids."""
DRAINERS: Final = 2
PROGRESS_SECONDS: Final = 1.0


class KillPlan(Plan, frozen=True, kw_only=True):
    """Either `kills` or `minutes` is given; without `url` the database is an SQLite file in the directory."""

    kills: int | None = None
    minutes: float | None = None
    url: str | None = None

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        database = "" if self.url is None else "--url … "
        length = f"--kills {self.kills}" if self.minutes is None else f"--minutes {self.minutes:g}"
        return f"holdfast torture {database}{length} --seed {self.seed} --workers {self.workers} --enqueuers {self.enqueuers}"


class Strike(msgspec.Struct, frozen=True):
    """A pause, then one process is killed, or stopped for so many seconds."""

    pause_seconds: float
    choice: float
    """From 0 to 1: which of the running processes."""
    stopped_seconds: float | None


def strikes(seed: int) -> Iterator[Strike]:
    chance = random.Random(f"{seed}/strikes")
    while True:
        pause = min(chance.expovariate(1 / PAUSE_MEAN_SECONDS), PAUSE_SECONDS_MAX)
        stopped = chance.uniform(1.2, 3.0) * max(LEASES_SECONDS) if chance.random() < STOP_SHARE else None
        yield Strike(pause, chance.random(), stopped)


class Killer:
    def __init__(self, plan: KillPlan, url: str, fleet: Fleet, echo: Callable[[str], None]) -> None:
        self._plan, self.fleet, self._echo = plan, fleet, echo
        self.stops = 0
        self.seconds = 0.0
        self._wake_at: dict[int, float] = {}
        """By pid: when a stopped process goes on. SIGKILL before that would prevent what the stop is to provoke."""
        self._spared_until: dict[int, float] = {}
        self._reader, self._writer = connect(url), connect(url)
        if isinstance(self._writer, DirectSqlite):
            self._writer.execute("PRAGMA busy_timeout = 100")
        self._began = self._echoed_at = time.monotonic()

    @property
    def kills(self) -> int:
        return sum(self.fleet.kills.values())

    def strike_all(self) -> None:
        """Strike after strike, until the plan's number of kills or its time is reached."""
        self.fleet.fill()
        self._began = time.monotonic()
        for strike in strikes(self._plan.seed):
            if self._is_enough():
                break
            self.fleet.fill()
            time.sleep(strike.pause_seconds)
            self._continue_stopped()
            self._strike(strike)
            self._echo_progress()
        for slot in self.fleet.slots:
            self.fleet.kill(slot)
        self.seconds = time.monotonic() - self._began

    def drain(self) -> None:
        """Jobs still kill these workers; those are started again."""
        self.fleet.wait_for_children()
        drainers = [Slot("worker", f"drainer-{n}") for n in range(DRAINERS)]
        self.fleet.drain(drainers, self._count, self._echo_progress)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def _is_enough(self) -> bool:
        if self._plan.minutes is not None:
            return time.monotonic() - self._began >= self._plan.minutes * 60
        return self.kills >= (self._plan.kills or 0)

    def _strike(self, strike: Strike) -> None:
        now = time.monotonic()
        slots = [slot for slot in self.fleet.slots if slot.pid not in self._wake_at and now >= self._spared(slot)]
        if strike.stopped_seconds is not None:  # only a worker holds leases that run out meanwhile
            slots = [slot for slot in slots if slot.role == "worker"]
        if not slots:
            return
        slot = slots[int(strike.choice * len(slots))]
        if strike.stopped_seconds is None:
            self.fleet.kill(slot)
        elif self.fleet.signal(slot, signal.SIGSTOP):
            if self._is_locked() and strike.choice > LOCKED_SHARE:
                self.fleet.signal(slot, signal.SIGCONT)
                return
            assert slot.pid is not None
            self._wake_at[slot.pid] = now + strike.stopped_seconds
            self.stops += 1

    def _spared(self, slot: Slot) -> float:
        return self._spared_until.get(slot.pid or 0, 0.0)

    def _is_locked(self) -> bool:
        """Whether the stopped process holds the write lock of an SQLite file. PostgreSQL locks rows only."""
        if not isinstance(self._writer, DirectSqlite):
            return False
        try:
            self._writer.begin()
        except sqlite3.OperationalError:
            return True
        self._writer.execute("ROLLBACK")
        return False

    def _continue_stopped(self) -> None:
        now = time.monotonic()
        for slot in self.fleet.slots:
            if slot.pid is not None and now >= self._wake_at.get(slot.pid, now + 1):
                self.fleet.signal(slot, signal.SIGCONT)
                del self._wake_at[slot.pid]
                self._spared_until[slot.pid] = now + SPARED_SECONDS

    def _count(self, query: str = OPEN_JOBS) -> int:
        return int(self._reader.execute(query).fetchone()[0])

    def _echo_progress(self) -> None:
        now = time.monotonic()
        if now - self._echoed_at < PROGRESS_SECONDS:
            return
        self._echoed_at = now
        seconds, jobs, left = now - self._began, self._count("SELECT count(*) FROM holdfast_job"), self._count()
        self._echo(
            f"{seconds:6.0f} s  {self.kills:6,} kills  {self.kills / seconds:5.1f}/s  {self.stops:4,} stops  "
            f"{jobs:8,} jobs  {jobs - left:8,} ended  {left:6,} open"
        )
