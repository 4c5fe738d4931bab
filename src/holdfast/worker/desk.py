"""The desk: jobs that were claimed and wait for a slot, those that run, and the outcomes that the clerk has not yet filed.

Whoever ends a run takes the next one from here at once, without waiting for the clerk.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NoReturn, Protocol

from holdfast.domain.job import Claimed
from holdfast.domain.outcome import Failed, JobError, Outcome, Released, Succeeded
from holdfast.registry import AnyTask
from holdfast.worker.context import Context


class Pool(Protocol):
    def stop(self, run: Run) -> None:
        """Make the code stop, as far as that can be done; from any thread."""


class Run:
    """One attempt of one job in this worker."""

    __slots__ = (
        "began_at", "came_at", "claimed", "context", "deadline", "ended", "handle", "lease", "lost", "micros", "name", "outcome",
        "pool", "queue", "refused", "stopping", "task", "verdict",
    )  # fmt: skip

    def __init__(self, claimed: Claimed, task: AnyTask, queue: str, lease: int, came_at: float = 0.0) -> None:
        self.claimed, self.task, self.queue, self.came_at = claimed, task, queue, came_at
        self.lease = lease
        """How many microseconds after the worker's last beat others may take the job."""
        self.name = task.name
        self.began_at: int | None = None
        """When its code began, in wall microseconds of the store's clock."""
        self.micros: int | None = None
        """How long its code ran, without what comes before and after it; None: it has not returned."""
        self.context: Context | None = None
        self.deadline: int | None = None
        """The tick at which the task's own timeout is over."""
        self.pool: Pool | None = None
        """Who runs it; None until it is started."""
        self.handle: Any = None
        """What its pool knows it by."""
        self.outcome: Outcome | None = None
        """What its code came to, where that is not told at once."""
        self.stopping: int | None = None
        """The tick at which it was told to stop."""
        self.lost: str | None = None
        """Why nothing may be written about it any more."""
        self.verdict: Outcome | None = None
        """What is written instead of whatever the stopped code says."""
        self.refused: Failed | None = None
        """What is written instead of all that it reported, which the database refused."""
        self.ended = False


class Desk:
    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.waiting: deque[Run] = deque()
        # By the run, not by the job: one that was taken from us may come back while its old code is still being stopped.
        self.active: dict[int, Run] = {}
        self.outcomes: deque[tuple[Run, Outcome]] = deque()
        self.closed = False
        self.emptied = threading.Event()
        """Set when the desk is closed and nothing runs any more."""
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self.call_clerk: Callable[[], None] = lambda: None
        self.start: Callable[[list[Run]], None] = lambda _: None

    def held(self) -> int:
        return len(self.waiting) + len(self.active)

    def free(self) -> int:
        """Slots for which no job is here yet."""
        return max(0, self.slots - self.held())

    def add(self, runs: Iterable[Run]) -> list[Run]:
        """New claims; those that may start now come back."""
        with self._lock:
            self.waiting.extend(runs)
            free = 0 if self.closed else self.slots - len(self.active)
            started = [self.waiting.popleft() for _ in range(min(free, len(self.waiting)))]
            for run in started:
                self.active[id(run)] = run
        return started

    def end(self, run: Run, outcome: Outcome, *, take_next: bool = True) -> Run | None:
        """A run ended: its outcome is kept for the clerk, and its slot goes to the next run, which is returned."""
        if os.getpid() != self._pid:
            leave_fork(outcome)
        with self._lock:
            if run.ended:
                return None  # given up long ago; its slot has been taken
            run.ended = True
            del self.active[id(run)]
            if self.closed and not self.active:
                self.emptied.set()
            self.outcomes.append((run, decided(run.verdict, outcome)))
            following = None
            if take_next and self.waiting and not self.closed and len(self.active) < self.slots:
                following = self.waiting.popleft()
                self.active[id(following)] = following
        self.call_clerk()
        return following

    def refuse(self, run: Run, error: Exception) -> None:
        """A run that could not be started has failed: held and renewed, but run by nobody, its job would never end."""
        # The next is left to the clerk: it would fail as this one did, and so would the one after it.
        self.end(run, Failed(JobError("StartError", f"its worker could not start it: {error}")), take_next=False)

    def close(self) -> list[Run]:
        """Nothing starts from now on; what has not started comes back."""
        with self._lock:
            self.closed = True
            if not self.active:
                self.emptied.set()
        return self.unstarted(0.0)

    def unstarted(self, since: float) -> list[Run]:
        """What has waited for a slot for so long, taken off the desk; `since` is a monotonic time, 0 takes all."""
        with self._lock:
            if not self.waiting or (since and self.waiting[0].came_at > since):
                return []
            left = list(self.waiting)
            self.waiting.clear()
        return left

    def drop(self, seq: int, token: int) -> Run | None:
        """A run that was taken from us: off the desk if it has not started, else returned to be stopped."""
        with self._lock:
            for run in self.active.values():
                if run.claimed.seq == seq and run.claimed.token == token:
                    return run
            for waiting in self.waiting:
                if waiting.claimed.seq == seq and waiting.claimed.token == token:
                    self.waiting.remove(waiting)
                    return None
        return None

    def running(self) -> list[Run]:
        with self._lock:
            return list(self.active.values())


def leave_fork(outcome: Outcome) -> NoReturn:
    """A job's code forked, and in the new process it came back to us: the run goes on in the old one, and is ended there."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(0 if isinstance(outcome, Succeeded) else 1)


def decided(verdict: Outcome | None, outcome: Outcome) -> Outcome:
    """A job that is to be handed back but came to its end all the same is not run again: its token decides what counts."""
    if verdict is None or (isinstance(verdict, Released) and isinstance(outcome, Succeeded)):
        return outcome
    return verdict
