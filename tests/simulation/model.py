"""The queue as a few dictionaries: what the engine must do, said a second time and as plainly as possible.

Times are seconds. A verb raises the error that the engine has to raise; a job's log is the list of its events' kinds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast import Conflict, IllegalMove, Key, LeaseLost, State
from holdfast.domain.states import FINAL

DELAY = 5.0
"""The pause after every failed attempt of the tasks in the simulation."""


@dataclass
class ModelJob:
    id: str
    order: int
    queue: str
    priority: int
    attempts_max: int
    key: str | None
    state: State
    run_at: float
    log: list[str]
    attempt: int = 0
    token: int = 0
    ended_at: float = 0.0
    beat: float = 0.0
    lease: float = 0.0


@dataclass
class Holding:
    """Who has a key; `job` is gone once it was pruned, and `state` then says how it ended."""

    job: ModelJob
    scope: str | float
    failed: str
    taken_at: float
    pruned: bool = False


@dataclass
class Model:
    now: float = 0.0
    tick: float = 0.0
    jobs: dict[str, ModelJob] = field(default_factory=dict)
    keys: dict[str, Holding] = field(default_factory=dict)
    accepted: int = 0

    def reboot(self) -> None:
        """No lease from before counts any more."""
        self.tick = 0.0
        for job in self.jobs.values():
            job.beat = float("-inf")

    # Enqueue

    def enqueue(self, id: str, queue: str, priority: int, attempts: int, delay: float, key: Key | None) -> str:
        """The id of the job that the caller gets: the one given, or that of the job which has the key."""
        self.accepted += 1
        if key is not None and (holding := self.keys.get(key.text)) is not None and self.holds(holding):
            if key.conflict == "raise":
                raise Conflict("held")
            if key.conflict == "return":
                return holding.job.id
            if not holding.pruned and holding.job.state not in FINAL:
                self._end(holding.job, State.CANCELLED, "cancelled")
        state, first = (State.SCHEDULED, "scheduled") if delay else (State.READY, "enqueued")
        text = None if key is None else key.text
        job = ModelJob(id, self.accepted, queue, priority, attempts, text, state, self.now + delay, [first])
        self.jobs[id] = job
        if key is not None:
            self.keys[key.text] = Holding(job, key.scope, key.failed, self.now)
        return id

    def holds(self, holding: Holding) -> bool:
        if holding.job.state == State.FAILED and holding.failed == "free":
            return False
        if holding.scope == "active":
            return holding.job.state not in FINAL
        return holding.scope == "forever" or self.now < holding.taken_at + float(holding.scope)

    # Claims

    def tend(self) -> None:
        for job in list(self.jobs.values()):
            if job.state == State.RUNNING and job.beat + job.lease < self.tick:
                if job.attempt >= job.attempts_max:
                    self._end(job, State.FAILED, "failed")
                else:
                    self._move(job, State.READY, "expired")
            elif job.state == State.SCHEDULED and job.run_at <= self.now:
                self._move(job, State.READY, "promoted")

    def claim(self, queue: str | None, seconds: float) -> ModelJob | None:
        self.tend()
        ready = [job for job in self.jobs.values() if job.state == State.READY and queue in (None, job.queue)]
        if not ready:
            return None
        job = min(ready, key=lambda each: (each.priority, each.order))
        self._move(job, State.RUNNING, "started")
        job.attempt, job.token, job.beat, job.lease = job.attempt + 1, job.token + 1, self.tick, seconds
        return job

    def held(self, id: str, token: int) -> ModelJob:
        job = self.jobs.get(id)
        if job is None or job.state != State.RUNNING or job.token != token:
            raise LeaseLost("not the current token")
        return job

    def renew(self, id: str, token: int) -> None:
        self.held(id, token).beat = self.tick

    def settle(self, id: str, token: int, outcome: str) -> None:
        job = self.held(id, token)
        match outcome:
            case "finish":
                self._end(job, State.SUCCEEDED, "succeeded")
            case "skip":
                self._end(job, State.SKIPPED, "skipped")
            case "cancel":
                self._end(job, State.CANCELLED, "cancelled")
            case "fatal":
                self._end(job, State.FAILED, "failed")
            case "release":
                self._move(job, State.READY, "released")
                job.attempt -= 1
            case "snooze":
                self._move(job, State.SCHEDULED, "snoozed")
                job.attempt, job.run_at = job.attempt - 1, self.now + DELAY
            case "fail":
                if job.attempt >= job.attempts_max:
                    self._end(job, State.FAILED, "failed")
                else:
                    self._move(job, State.SCHEDULED, "backed_off")
                    job.run_at = self.now + DELAY

    # From outside

    def cancel(self, id: str) -> None:
        self._end(self._open(id), State.CANCELLED, "cancelled")

    def skip(self, id: str) -> None:
        self._end(self._open(id), State.SKIPPED, "skipped")

    def retry(self, id: str) -> None:
        job = self.jobs[id]
        if job.state not in (State.FAILED, State.CANCELLED, State.SKIPPED):
            raise IllegalMove(job.state)
        if job.key is not None:
            holding = self.keys.get(job.key)
            if holding is None:
                self.keys[job.key] = Holding(job, "active", "free", self.now)
            elif holding.job is not job:
                if self.holds(holding):
                    raise Conflict("held")
                holding.job, holding.pruned = job, False
        self._move(job, State.READY, "retried")
        job.attempt = 0

    def delete(self, id: str) -> None:
        job = self.jobs[id]
        if job.state == State.RUNNING:
            raise IllegalMove(job.state)
        del self.jobs[id]
        if job.key is not None and (holding := self.keys.get(job.key)) is not None and holding.job is job:
            del self.keys[job.key]

    def prune(self, age: float) -> int:
        old = [job for job in self.jobs.values() if job.state in FINAL and job.ended_at < self.now - age]
        for job in old:
            del self.jobs[job.id]
            holding = self.keys.get(job.key) if job.key is not None else None
            if job.key is None or holding is None or holding.job is not job:
                continue
            timed = isinstance(holding.scope, float) and self.now < holding.taken_at + holding.scope
            freed = job.state == State.FAILED and holding.failed == "free"
            if (holding.scope == "forever" or timed) and not freed:
                holding.pruned = True
            else:
                del self.keys[job.key]
        return len(old)

    def _open(self, id: str) -> ModelJob:
        if self.jobs[id].state in FINAL:
            raise IllegalMove(self.jobs[id].state)
        return self.jobs[id]

    def _move(self, job: ModelJob, state: State, kind: str) -> None:
        job.state = state
        job.log.append(kind)

    def _end(self, job: ModelJob, state: State, kind: str) -> None:
        self._move(job, state, kind)
        job.ended_at = self.now
