"""What a task's code is given: the job that it works for, and how to report on it.

Nothing here touches the database or waits for it: what is reported is kept until the clerk's next turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from holdfast.domain import codec
from holdfast.domain.bounds import (
    EVENT_BYTES_MAX,
    EVENTS_PER_JOB_MAX,
    EVENTS_WAITING_BYTES_MAX,
    EVENTS_WAITING_MAX,
    METER_MAX,
    METERS_PER_JOB_MAX,
    PROGRESS_BYTES_MAX,
)
from holdfast.domain.event import DROPPED, PROGRESSED, check_emitted, check_name
from holdfast.domain.job import Job
from holdfast.errors import LeaseLost, PayloadError, SettingError
from holdfast.store.moves import Emitted
from holdfast.store.settle import Gathered, Report


class WorkerLink(Protocol):
    """What a context needs of the worker that runs it."""

    def job(self) -> Job: ...
    def has_news(self, context: Context) -> None:
        """There is something to take; called from the task's thread, must not wait."""

    def finish(self, context: Context, on: Any, result: Any) -> None: ...
    async def afinish(self, context: Context, on: Any, result: Any) -> None: ...


class Context:
    """`ctx`: the first parameter of a task that asks for it by annotation."""

    # `_take`, `_relay`, `_in_flight` and `_waiting_bytes` are for the worker: an underscore keeps them out of completion.

    def __init__(self, link: WorkerLink, token: int, progress: dict[str, Any], meter: dict[str, float]) -> None:
        self._link = link
        self.token = token
        self.lost: str | None = None
        self.finished = False
        self._lock = threading.Lock()
        self._progress, self._meter = progress, meter
        self._progress_text = "{}"
        self._emitted = 0
        self._in_flight: list[Report] = []
        """What the clerk has taken and may not have written yet."""
        self._events: list[Emitted] = []
        self._waiting_bytes = 0
        """Of events that the clerk has not taken yet."""
        self._spent: dict[str, float] = {}
        self._moved = False
        self._dropped = 0
        self._has_news = False
        self._job: Job | None = None

    @property
    def job(self) -> Job:
        """The job as it was when this attempt started."""
        if self._job is None:
            self._job = self._link.job()
        return self._job

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job.id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.job.attempt

    def check(self) -> None:
        """Raise `LeaseLost` if the job was cancelled, timed out or taken: for code that cannot be interrupted."""
        if self.lost is not None:
            raise LeaseLost(f"job {self.job.id} is no longer this worker's: {self.lost}; stop, nothing you write counts")

    def progress(self, done: float | None = None, total: float | None = None, **fields: Any) -> None:
        """How far it is. Fields that are not given keep their values; only the latest state is sure to be stored."""
        self.check()
        given = {name: value for name, value in (("done", done), ("total", total)) if value is not None} | fields
        with self._lock:
            merged = self._progress | given
            if "fraction" not in fields and merged.get("total") and merged.get("done") is not None:
                merged["fraction"] = round(merged["done"] / merged["total"], 6)
            # What is kept is what was encoded: the caller may go on changing the lists that it passed.
            self._progress_text = codec.encode(merged, "progress", PROGRESS_BYTES_MAX)
            self._progress, self._moved = msgspec.json.decode(self._progress_text), True
        self._report()

    def emit(self, kind: str, data: Any = None) -> None:
        """An event of the task's own, numbered and kept in the job's log."""
        self.check()
        text = None if data is None else codec.encode(data, f"event {kind!r}", EVENT_BYTES_MAX)
        check_emitted(kind)
        with self._lock:
            self._emitted += 1
            if len(self._events) >= EVENTS_WAITING_MAX or self._emitted > EVENTS_PER_JOB_MAX:
                self._dropped += 1
            else:
                self._keep([(kind, time.time_ns() // 1000, text)])
        self._report()

    def meter(self, **amounts: float) -> None:
        """What it cost: summed per job, task, queue and day."""
        self.check()
        with self._lock:
            if len(self._meter.keys() | amounts.keys()) > METERS_PER_JOB_MAX:
                raise SettingError(f"a job has at most {METERS_PER_JOB_MAX} meters; this would be one more")
            spent, total = check_meter(amounts), dict(self._meter)
            for name, amount in spent.items():
                total[name] = total.get(name, 0.0) + amount
            check_meter(total)
            for name, amount in spent.items():
                self._spent[name] = self._spent.get(name, 0.0) + amount
            self._meter = total
        self._report()

    def finish(self, *, on: Any, result: Any = None) -> None:
        """End the job inside the caller's transaction: its result commits with the caller's own rows, or not at all."""
        self.check()
        self._link.finish(self, on, result)

    async def afinish(self, *, on: Any, result: Any = None) -> None:
        """The async twin of `finish`."""
        self.check()
        await self._link.afinish(self, on, result)

    def _take(self, progress_too: bool = True, bytes_max: int | None = None) -> Gathered:
        """For the clerk: what was gathered since the last time; progress may wait, for only its latest state counts.

        bytes_max  So much of its events at a time, or one; `_waiting_bytes` tells that there are more.
        """
        with self._lock:
            events = self._first_events(bytes_max)
            all_taken = not self._events
            dropped, self._dropped = (self._dropped, 0) if all_taken else (0, self._dropped)
            spent, self._spent = self._spent, {}
            moved = self._moved and progress_too and all_taken
            self._moved = self._moved and not moved
            self._has_news = self._moved or not all_taken
            progress = self._progress_text if moved else None
            meter = codec.encode(self._meter, "meter", PROGRESS_BYTES_MAX) if spent else None
        now = time.time_ns() // 1000
        if progress is not None:
            events.append((PROGRESSED, now, progress))
        if dropped:
            events.append((DROPPED, now, f'{{"count":{dropped}}}'))
        return Gathered(events, progress, meter, spent or None)

    def _relay(self, gathered: Gathered) -> None:
        """For a job that runs in a child process: what it reported there, as if it had been reported here."""
        with self._lock:
            # The child numbers nothing: a progress event is written when the clerk takes it, as for any other job.
            own = [event for event in gathered.events if event[0] != PROGRESSED]
            room = max(0, EVENTS_WAITING_MAX - len(self._events))
            self._dropped += len(own) - len(own[:room])
            self._keep(own[:room])
            if gathered.progress is not None:
                self._progress_text = gathered.progress
                self._progress, self._moved = msgspec.json.decode(gathered.progress), True
            for name, amount in (gathered.spent or {}).items():
                self._spent[name] = self._spent.get(name, 0.0) + amount
                self._meter[name] = self._meter.get(name, 0.0) + amount
        self._report()

    def _keep(self, events: list[Emitted]) -> None:
        size = sum(map(_size, events))
        if self._waiting_bytes + size > EVENTS_WAITING_BYTES_MAX:
            raise PayloadError(
                f"event {events[0][0]!r}: this job's events come faster than the database takes them, and "
                f"{EVENTS_WAITING_BYTES_MAX >> 20} MB of them wait; emit less, and keep large data in files"
            )
        self._waiting_bytes += size
        self._events += events

    def _first_events(self, bytes_max: int | None) -> list[Emitted]:
        count, size = len(self._events), self._waiting_bytes
        if bytes_max is not None and size > bytes_max:
            count = size = 0
            while count < 1 or size + _size(self._events[count]) <= bytes_max:
                size += _size(self._events[count])
                count += 1
        events, self._events = self._events[:count], self._events[count:]
        self._waiting_bytes -= size
        return events

    def _report(self) -> None:
        if not self._has_news:
            self._has_news = True
            self._link.has_news(self)


class Detached:
    """Stands in for a worker when a task is simply called: its reports go nowhere."""

    def __init__(self, job: Callable[[], Job]) -> None:
        self.job = job

    def has_news(self, context: Context) -> None:
        return None

    def finish(self, context: Context, on: Any, result: Any) -> None:
        context.finished = True

    async def afinish(self, context: Context, on: Any, result: Any) -> None:
        context.finished = True


def _size(event: Emitted) -> int:
    return len(event[2] or "")


def check_meter(meter: dict[str, float]) -> dict[str, float]:
    for name, amount in meter.items():
        check_name("meter", name)
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount - amount != 0:
            raise SettingError(f"meter {name}={amount!r} is not a finite number")
        if abs(amount) > METER_MAX:
            raise SettingError(f"meter {name}={amount!r} is larger than {METER_MAX:g}; use a larger unit")
    return {name: float(amount) for name, amount in meter.items()}
