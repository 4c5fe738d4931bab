"""Run a real worker on the real store until there is nothing left to do, then go on to the next thing that is due."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final

from holdfast.app import Holdfast
from holdfast.domain.job import micros_of
from holdfast.domain.retry import Duration, seconds_of
from holdfast.errors import SettingError
from holdfast.store import tend
from holdfast.testing.clock import ManualClock

MOVES_MAX: Final = 1_000
SECONDS_MAX: Final = 60.0


def run_to_empty(
    app: Holdfast,
    clock: ManualClock | None = None,
    *,
    until: datetime | Duration | None = None,
    queues: list[str] | None = None,
    concurrency: int = 10,
    seconds: float = SECONDS_MAX,
) -> int:
    """Work until nothing is ready or running; how many times the clock was moved on.

    clock    the app's own ManualClock: it is moved to the time of the next scheduled job, or at which a closed queue opens,
             again and again, until nothing is scheduled any more, so that retries, snoozes and delayed jobs all run now.
             Without it they are left.
    until    how far the clock may be moved: a moment, or seconds from now. Jobs beyond it are left, and the clock stops there.
    seconds  real time; after it the jobs that still run are handed back and `TimeoutError` is raised.
    """
    return asyncio.run(arun_to_empty(app, clock, until=until, queues=queues, concurrency=concurrency, seconds=seconds))


async def arun_to_empty(
    app: Holdfast,
    clock: ManualClock | None = None,
    *,
    until: datetime | Duration | None = None,
    queues: list[str] | None = None,
    concurrency: int = 10,
    seconds: float = SECONDS_MAX,
) -> int:
    """The same inside a running event loop."""
    last = _last(app, clock, until)
    moves = 0
    while True:
        await _work(app, clock, queues, concurrency, seconds)
        due = app.store.read(tend.next_due)
        if clock is None or due is None or (last is not None and due > last):
            break
        if moves == MOVES_MAX:
            raise TimeoutError(f"after {moves} moves of the clock there still is a job scheduled; give until= a bound")
        clock.advance(max(0, due - clock.now()) / 1e6)
        moves += 1
    if clock is not None and last is not None:
        clock.advance(max(0, last - clock.now()) / 1e6)
    return moves


async def _work(app: Holdfast, clock: ManualClock | None, queues: list[str] | None, concurrency: int, seconds: float) -> None:
    worker = app.worker(queues, concurrency, "run-to-empty", grace=0)
    worker._retention_seconds = None  # a clock that is moved by weeks must not sweep away what the test looks at next
    worker._patient = clock is None  # else the clock is moved to the time at which a closed queue opens
    try:
        await asyncio.wait_for(worker.arun_until_empty(), seconds)
    except TimeoutError:
        held = ", ".join(f"{job.id} ({job.task})" for job in app.jobs(state="running", limit=5)) or "none"
        raise TimeoutError(f"not empty after {seconds:g} s; leased by somebody else: {held}") from None


def _last(app: Holdfast, clock: ManualClock | None, until: datetime | Duration | None) -> int | None:
    if clock is None and until is not None:
        raise SettingError("until= moves a ManualClock; give it as clock=, and to the app as Holdfast(url, clock=...)")
    if clock is None or until is None:
        last = None
    elif isinstance(until, datetime):
        last = micros_of(until)
    else:
        last = clock.now() + round(seconds_of("until", until) * 1e6)
    if clock is not None and app.store.clock is not clock:
        raise SettingError("clock= is not the clock of this app; make it with Holdfast(url, clock=clock)")
    return last
