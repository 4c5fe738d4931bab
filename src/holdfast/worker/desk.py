"""The desk: jobs that were claimed and wait for a slot, those that run, and the outcomes that the clerk has not yet filed.

Whoever ends a run takes the next one from here at once, without waiting for the clerk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

from holdfast.domain.job import Claimed
from holdfast.domain.outcome import Outcome
from holdfast.registry import AnyTask
from holdfast.worker.context import Context


class Run:
    """One attempt of one job in this worker."""

    __slots__ = ("claimed", "context", "deadline", "ended", "lease", "lost", "queue", "stop", "stopping", "task", "verdict")

    def __init__(self, claimed: Claimed, task: AnyTask, queue: str, lease: int) -> None:
        self.claimed, self.task, self.queue = claimed, task, queue
        self.lease = lease
        """How many microseconds after the worker's last beat others may take the job."""
        self.context: Context | None = None
        self.deadline: int | None = None
        """The tick at which the task's own timeout is over."""
        self.stop: Callable[[], None] | None = None
        """Makes the code stop, as far as its pool can: set by the pool that runs it."""
        self.stopping: int | None = None
        """The tick at which it was told to stop."""
        self.lost: str | None = None
        """Why nothing may be written about it any more."""
        self.verdict: Outcome | None = None
        """What is written instead of whatever the stopped code says."""
        self.ended = False


class Desk:
    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.waiting: deque[Run] = deque()
        self.active: dict[int, Run] = {}
        self.outcomes: deque[tuple[Run, Outcome]] = deque()
        self.closed = False
        self._lock = threading.Lock()
        self.call_clerk: Callable[[], None] = lambda: None
        self.start: Callable[[list[Run]], None] = lambda runs: None

    def held(self) -> int:
        return len(self.waiting) + len(self.active)

    def add(self, runs: Iterable[Run]) -> list[Run]:
        """New claims; those that may start now come back."""
        with self._lock:
            self.waiting.extend(runs)
            free = 0 if self.closed else self.slots - len(self.active)
            started = [self.waiting.popleft() for _ in range(min(free, len(self.waiting)))]
            for run in started:
                self.active[run.claimed.seq] = run
        return started

    def end(self, run: Run, outcome: Outcome) -> Run | None:
        """A run ended: its outcome is kept for the clerk, and its slot goes to the next run, which is returned."""
        with self._lock:
            if run.ended:
                return None  # given up long ago; its slot has been taken
            run.ended = True
            del self.active[run.claimed.seq]
            self.outcomes.append((run, run.verdict or outcome))
            following = None
            if self.waiting and not self.closed and len(self.active) < self.slots:
                following = self.waiting.popleft()
                self.active[following.claimed.seq] = following
        self.call_clerk()
        return following

    def close(self) -> list[Run]:
        """Nothing starts from now on; what has not started comes back."""
        with self._lock:
            self.closed = True
            left = list(self.waiting)
            self.waiting.clear()
        return left

    def unstarted(self) -> list[Run]:
        """All that wait for a slot, taken off the desk."""
        with self._lock:
            left = list(self.waiting)
            self.waiting.clear()
        return left

    def drop(self, seq: int, token: int) -> Run | None:
        """A run that was taken from us: off the desk if it has not started, else returned to be stopped."""
        with self._lock:
            run = self.active.get(seq)
            if run is not None and run.claimed.token == token:
                return run
            for waiting in self.waiting:
                if waiting.claimed.seq == seq and waiting.claimed.token == token:
                    self.waiting.remove(waiting)
                    return None
        return None

    def running(self) -> list[Run]:
        with self._lock:
            return list(self.active.values())
