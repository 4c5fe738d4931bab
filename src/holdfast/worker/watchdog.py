"""The watchdog: a thread that stops runs which must not go on.

A run past its timeout is stopped. So is one whose lease has not been renewed for so long that another worker may take the
job soon: it must have ended here before it starts there, also if the clerk hangs in the database.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

from holdfast.domain.outcome import Failed, JobError, Released
from holdfast.store.clock import Clock
from holdfast.worker.desk import Desk, Run
from holdfast.worker.timing import FROZEN_PATIENCE_SECONDS, FROZEN_TICKS, LEASE_MARGIN, STOP_TICKS, WATCH_SECONDS

log = logging.getLogger("holdfast.worker")


class Beaten(Protocol):
    beat_tick: int

    def nudge(self) -> None: ...


class Watchdog:
    def __init__(self, desk: Desk, clock: Clock, clerk: Beaten) -> None:
        self._desk, self._clock, self._clerk = desk, clock, clerk
        self._wake = threading.Event()
        self._closed = False
        self._looked_at = clock.tick()
        self._patient_until = 0.0
        self._thread = threading.Thread(target=self._watch, name="holdfast-watchdog", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def begin(self, run: Run) -> None:
        """A run starts now."""
        run.began_at = self._clock.now()
        if run.task.timeout_seconds is not None:
            run.deadline = self._clock.tick() + int(run.task.timeout_seconds * 1e6)
        if not self._wake.is_set():
            self._looked_at = self._clock.tick()
            self._wake.set()

    def stop(self, run: Run, why: str) -> None:
        """Tell the code to stop; what it says afterwards does not count."""
        if run.stopping is not None:
            return
        run.stopping = self._clock.tick()
        if run.context is not None:
            run.context.lost = why
        if run.pool is not None:
            run.pool.stop(run)

    def _watch(self) -> None:
        while True:
            self._wake.wait()
            if self._closed:
                return
            runs = self._desk.running()
            if not runs:
                self._wake.clear()
                if not (self._desk.active or self._closed):
                    continue
                self._wake.set()  # one began meanwhile, and saw that it was set; or we were closed
            pause, tick = WATCH_SECONDS, self._clock.tick()
            if not self._was_frozen(tick):
                pause = min([WATCH_SECONDS, *(self._judge(run, tick) for run in runs)])
            threading.Event().wait(max(0.001, pause))

    def _was_frozen(self, tick: int) -> bool:
        """Whether this whole process stood still: then the clerk's next beat tells whose the jobs are, not our guess."""
        gap, self._looked_at = tick - self._looked_at, tick
        if gap <= FROZEN_TICKS:
            return False
        self._patient_until = time.monotonic() + FROZEN_PATIENCE_SECONDS
        self._clerk.nudge()
        return True

    def _judge(self, run: Run, tick: int) -> float:
        """Stop it if it must not go on; else, in how many seconds to look again."""
        if run.stopping is not None:
            if tick - run.stopping > STOP_TICKS:
                self._leave_behind(run)
            return WATCH_SECONDS
        if run.deadline is not None and tick >= run.deadline:
            seconds = run.task.timeout_seconds
            run.verdict = Failed(JobError("TimeoutError", f"it ran longer than its timeout of {seconds:g} s"))
            self.stop(run, f"it ran longer than its timeout of {seconds:g} s")
            return WATCH_SECONDS
        given_up = self._clerk.beat_tick + run.lease - run.lease // LEASE_MARGIN
        if tick >= given_up:
            if time.monotonic() < self._patient_until:
                return WATCH_SECONDS
            run.verdict = Released("its lease could not be renewed in time")
            log.error("job %s: the lease cannot be renewed; it is stopped before another worker takes it", run.claimed.id)
            self.stop(run, "its lease could not be renewed in time")
            return WATCH_SECONDS
        return min(given_up - tick, (run.deadline or given_up) - tick) / 1e6

    def _leave_behind(self, run: Run) -> None:
        """Its slot is given to the next; what it still does is refused for its token, or ignored here."""
        log.warning("job %s (%s) did not stop when told to; its code is left behind", run.claimed.id, run.task.name)
        verdict = run.verdict or Released("its code did not stop when told to")
        following = self._desk.end(run, verdict)
        if following is not None:
            self._desk.start([following])
