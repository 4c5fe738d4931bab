"""The clerk: the one thread that speaks to the store for a worker.

In one transaction it writes outcomes, progress and events, renews all leases with one beat, and claims what there is room for. It
shares nothing with the user's code but the desk, so a blocked event loop cannot stop a beat. What a turn does is decided by
`worker/decision`, from facts that are gathered here.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.domain import codec
from holdfast.domain.job import Claimed
from holdfast.domain.outcome import Failed, JobError, Released, error_of
from holdfast.domain.outcome import settle as decide_change
from holdfast.domain.retry import Retry
from holdfast.domain.sanitize import one_line
from holdfast.domain.secret import secrets_in
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.registry import Registry
from holdfast.store import claim, queue_settings, tend, workers
from holdfast.store.browse import Left
from holdfast.store.claim import Claim, WorkerGone
from holdfast.store.op import Moment, Op, Operation, Refused, together
from holdfast.store.settle import NOTHING_LEFT, Report, Settled
from holdfast.store.settle import settle as write_reports
from holdfast.store.store import Store
from holdfast.worker.claimer import Claimer
from holdfast.worker.config import WorkerConfig
from holdfast.worker.decision import Beat, Delay, Facts, File, Look, Rest, decide
from holdfast.worker.desk import Desk, Run
from holdfast.worker.job_log import Ended, JobLog
from holdfast.worker.prefetch import Prefetch
from holdfast.worker.reports import ReportQueue
from holdfast.worker.timing import (
    BEATS_PER_LEASE,
    BUSY_SECONDS,
    CLOSING_SECONDS,
    DELAY_SECONDS,
    NOTICE_SECONDS,
    PRUNE_SECONDS,
    REPORT_SECONDS,
    RETRY_SECONDS,
    START_SECONDS,
    TEND_SECONDS,
    UNSTARTED_SECONDS,
)

log = logging.getLogger("holdfast.worker")

_chance: Final = random.SystemRandom()  # the program may have seeded the common one for itself
_NEVER_STARTED: Final = Released("its claim was kept, but the reply was lost")


class Filed(msgspec.Struct):
    """What one transaction brought back."""

    beat_tick: int | None = None
    """The lease clock of its beat, if it had one."""
    settled: Settled = NOTHING_LEFT
    notices: list[tuple[int, int, str]] = []
    claim: Claim = claim.NOTHING
    tended: Tended | None = None


class Tended(msgspec.Struct):
    next_due: int | None
    expired: list[str]
    pruned: int


class Clerk:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        desk: Desk,
        config: WorkerConfig,
        start: Callable[[list[Run]], None],
        stop: Callable[[Run, str], None],
    ) -> None:
        self._store, self._desk, self._config = store, desk, config
        self._start, self._stop = start, stop
        self.worker = 0
        self.beat_tick = 0
        """The lease clock at the last beat that was committed."""
        self._tasks = registry.runnable() if config.callbacks else dict(registry.tasks)
        self._queues = registry.queues
        self._claimer = Claimer(store, config, self._tasks)
        self._runs: dict[int, Run] = {}
        self._reports = ReportQueue(desk, self._forget)
        self._prefetch = Prefetch(desk)
        self._job_log = JobLog()
        self._asleep = False
        self._woken = True
        self._found: workers.Work | None = None
        self._tended_at = self._pruned_at = self._filed_at = self._looked_at = 0.0
        self._failures = self._busy = 0
        self._again_at = math.inf
        """When to look again at a queue that another transaction had locked."""
        self._in_doubt = False
        self._unproven = False
        self._generation = 0
        desk.call_clerk = self._outcome_came

    # Its loop

    def open(self, follows: bool = False) -> None:
        """Register; raises if the store cannot be used, before anything else is started.

        follows  Wakes also when others finish jobs: a worker that runs until nothing is left waits for that.
        """
        self._watcher = self._store.watcher(follows)
        self._generation = self._store.generation
        self._register()

    def work(self, finished: Callable[[], bool]) -> None:
        """Turn after turn until `finished()` and everything is committed."""
        try:
            closing = finished()
            while not (closing and self._nothing_left()):
                pause = self._turn_safely(closing)
                before, closing = closing, finished()
                if pause > 0 and closing == before:
                    self._sleep(pause)
                    closing = finished()
            # Not after an error: jobs that are still held expire by the worker's row.
            self._leave()
        finally:
            self._watcher.close()
            self._job_log.close()

    def nudge(self) -> None:
        """Look again now."""
        self._woken = True
        self._watcher.nudge()

    def has_news(self, run: Run) -> None:
        """From a task's code: there is something to take from its context."""
        self._reports.speaking.append(run)
        if self._asleep:
            self._watcher.nudge()

    def _outcome_came(self) -> None:
        if self._asleep:
            self._asleep = False
            self._watcher.nudge()

    def _sleep(self, seconds: float) -> None:
        self._asleep = seconds > DELAY_SECONDS
        # An outcome that came before the flag was set has not nudged: look once more.
        if self._asleep and self._desk.outcomes:
            self._asleep = False
            return
        if seconds <= DELAY_SECONDS:
            time.sleep(seconds)
        else:
            self._woken = self._wait(seconds) or self._woken
        self._asleep = False

    def _wait(self, seconds: float) -> bool:
        try:
            return self._watcher.wait(seconds)
        except Exception as error:
            # Without notifications we look for ourselves, as often as the turns come.
            log.warning("commits of others are not noticed (%s)", one_line(str(error)))
            time.sleep(min(seconds, RETRY_SECONDS[0]))
            return True

    def _nothing_left(self) -> bool:
        desk = self._desk
        return not (desk.active or desk.waiting or desk.outcomes or self._reports.waiting)

    def _turn_safely(self, closing: bool) -> float:
        """One turn; the seconds that may pass before the next. A store that fails is tried again, forever."""
        try:
            pause = self._turn(closing)
            self._failures = 0
            return pause
        except StoreUnavailable as error:
            self._failures += 1
            self._in_doubt, self._woken = self._in_doubt or not isinstance(error, Refused), True
            low, high = RETRY_SECONDS
            pause = min(high, low * float(2 ** min(self._failures, 10))) * _chance.uniform(0.5, 1.0)
            log.warning("the store does not answer (%s); trying again in %.2f s", one_line(str(error)), pause)
            return pause

    def _turn(self, closing: bool) -> float:
        if self._store.generation != self._generation:
            self._start_over()
        match action := decide(self._facts(closing)):
            case Delay(seconds):
                return seconds
            case Beat():
                self._beat()
            case Look(claims):
                self._look(claims)
                return 0.0 if self._found and (self._found.to_tend or self._found.ready) else self._pause(closing)
            case File():
                self._file(action)
            case Rest(seconds):
                return self._pause(closing) if seconds is None else seconds
        busy = self._desk.outcomes or self._woken or self._unproven or self._reports.has_more
        return 0.0 if busy else self._pause(closing)

    def _facts(self, closing: bool) -> Facts:
        now = time.monotonic()
        for run in self._desk.unstarted(now - UNSTARTED_SECONDS):
            self._desk.outcomes.append((run, Released("it waited for a slot too long; others may have one")))
        self._prefetch.count(now, self._reports.gather(now))
        reports, found = self._reports.due(now), self._found
        if now >= self._again_at:
            self._again_at, self._woken = math.inf, True
        return Facts(
            reports=reports,
            may_delay=self._prefetch.may_delay_commit(reports, now - self._filed_at),
            unproven=self._unproven,
            in_doubt=self._in_doubt,
            beat_due=self._beat_due(),
            tend_due=now - self._tended_at >= TEND_SECONDS or self._due_in() <= 0,
            prune_due=now - self._pruned_at >= PRUNE_SECONDS,
            room=0 if closing or self._reports.is_full else self._prefetch.claim_size(),
            woken=self._woken,
            notified=self._woken and self._store.is_remote and self._watcher.notified,
            looked_lately=now - self._looked_at < NOTICE_SECONDS,
            found_ready=found is not None and found.ready,
            found_to_tend=found is not None and found.to_tend,
        )

    # What a turn does

    def _beat(self) -> None:
        tick = self._store.write(workers.Beat(self.worker, self.beat_tick))
        if tick is None:
            self._lose_all()
        else:
            self.beat_tick = tick

    def _look(self, claims: bool) -> None:
        retention = self._config.retention_seconds
        pruning = retention is not None and time.monotonic() - self._pruned_at >= PRUNE_SECONDS
        self._woken = False
        self._found = self._claimer.look(self.worker, claims, int((retention or 0.0) * 1e6) if pruning else None)
        self._looked_at = self._tended_at = time.monotonic()
        if not self._found.ready:
            self._busy = 0

    def _file(self, action: File) -> None:
        size = action.claim
        reports = self._reports.take() if action.report else []
        self._woken, self._found = self._woken and not (size or reports), None
        try:
            filed = self._store.write(self._filing(reports, size, action.tend, action.beat))
        except WorkerGone:
            self._lose_all()
            return
        except Exception as error:
            if not reports:
                raise
            self._could_not_write(reports, error)
            return
        self._unproven = False
        if reports:
            self._reports.written()
        if self._store.generation != self._generation:
            self._start_over()  # whatever was claimed runs out with the number that it was claimed by
            return
        self._in_doubt = False
        self._filed_at = self._looked_at = time.monotonic()
        self._take_in(filed, size, reports)

    def _could_not_write(self, reports: list[Report], error: Exception) -> None:
        """A store that fails is tried again, after a filing without reports. What it refuses is one report's fault: see there."""
        self._unproven = True
        if isinstance(error, StoreUnavailable) and not isinstance(error, Refused):
            self._reports.postpone(reports)
            raise error
        if self._reports.accuse(reports):
            self._refuse(reports[0], error)

    def _refuse(self, report: Report, error: Exception) -> None:
        run = self._runs.get(report.seq)
        run = run if run is not None and run.claimed.token == report.token else None
        failed = Failed(JobError("ReportRefused", f"what it reported cannot be written: {_line_of(error, run)}"), retryable=False)
        if not self._reports.refuse(run, failed):
            log.error(
                "a job (number %d) cannot be written at all, and is left as it is: %s", report.seq, one_line(failed.error.message)
            )
        elif run is not None and not run.ended:
            run.verdict = failed
            self._stop(run, "what it reported cannot be written")

    def _filing(self, reports: list[Report], size: int, tends: bool, beats: bool) -> Operation[Filed]:
        slots = self._desk.free()
        in_doubt, prunes = self._in_doubt, tends and time.monotonic() - self._pruned_at >= PRUNE_SECONDS
        since = 0 if beats else self.beat_tick  # the beat has compared it, and the clock may have been set back

        def run(moment: Moment) -> Op[Filed]:
            current = [report for report in reports if not report.recalled]
            settled, notices, alive, lanes = yield from together(
                write_reports(moment, current, self.worker, waits=False),
                workers.notices(self.worker),
                workers.beat(moment, self.worker, self.beat_tick) if beats else _nothing(True),
                self._claimer.lanes(moment) if size and not tends else _nothing([]),
            )
            if not alive:
                raise WorkerGone(f"worker {self._config.name} was given up for dead, or the database was restored")
            if in_doubt:  # after the beat: a statement of ours that is still on its way was fenced by the beat before
                yield from self._give_back_unknown(moment)
            tended = (yield from self._tend(moment, prunes)) if tends else None
            if tends and size:
                lanes = yield from self._claimer.lanes(moment)
            claimed = (yield from self._claimer.claim(moment, self.worker, since, lanes, size, slots)) if lanes else claim.NOTHING
            return Filed(moment.tick if beats else None, settled, notices, claimed, tended)

        return run

    def _give_back_unknown(self, moment: Moment) -> Op[None]:
        """Jobs that this worker holds and does not know of: its beats would renew their leases, and no worker would run them."""
        unknown = [
            Report(seq, token, lane, attempt, decide_change(attempt, attempts_max, _NEVER_STARTED, Retry(), 0.5))
            for seq, token, lane, attempt, attempts_max in (yield from workers.held_by(self.worker))
            if seq not in self._runs or self._runs[seq].claimed.token != token
        ]
        if unknown:
            yield from write_reports(moment, unknown, self.worker)

    def _tend(self, moment: Moment, prunes: bool) -> Op[Tended]:
        """A batch is pruned once a minute while there is little to forget, with every tending while there is more."""
        expired = yield from tend.expire(moment)
        yield from tend.promote(moment)
        next_due = yield from tend.next_due(moment)
        pruned = 0
        if prunes:
            yield from tend.forget(moment)
            retention = self._config.retention_seconds
            pruned = 0 if retention is None else (yield from tend.prune(moment, moment.now - int(retention * 1e6)))
        return Tended(next_due, expired, pruned)

    # What a transaction brought back

    def _take_in(self, filed: Filed, size: int, reports: list[Report]) -> None:
        self.beat_tick = self.beat_tick if filed.beat_tick is None else filed.beat_tick
        self._claimer.committed(filed.claim)
        if reports:
            self._end_runs(filed.settled, reports)
        for seq, token, kind in filed.notices:
            self._lose(seq, token, f"it was {kind}")
        if filed.tended is not None:
            self._take_in_tended(filed.tended)
        claimed = filed.claim
        self._woken = self._woken or (size > 0 and (len(claimed.jobs) == size or claimed.partial))
        if size:
            self._look_again(claimed.busy)
        if claimed.jobs:
            now = time.monotonic()
            self._start(self._desk.add([self._as_run(each, claimed, now) for each in _limited_first(claimed)]))
            if not (self._woken or self._desk.outcomes):
                time.sleep(START_SECONDS)

    def _look_again(self, busy: bool) -> None:
        """A claim of another worker takes a moment; a transaction of a caller's may stay open for long."""
        low, high = BUSY_SECONDS
        self._busy = min(self._busy + 1, 10) if busy else 0
        self._again_at = time.monotonic() + min(high, low * 2.0 ** (self._busy - 1)) if busy else math.inf

    def _end_runs(self, settled: Settled, reports: list[Report]) -> None:
        busy = [report for report in reports if report.seq in settled.busy and not (report.written or report.recalled)]
        # The job's own code holds a transaction open: to wait for that would stop everything else that there is to do.
        self._reports.put_back(busy)
        logged, every = [], self._job_log.wanted()
        for report in reports:
            if report.change is not None and report.seq not in settled.busy:
                run = self._runs.pop(report.seq, None)
                if run is not None and (every or report.change.error is not None):
                    logged.append(Ended(run, report.change, lost=report.seq in settled.lost))
        if logged:
            self._job_log.write(logged)
        for seq in settled.lost:
            ended = self._runs.get(seq)
            if ended is None or ended.context is None or not ended.context.finished:  # else it ended its job itself
                self._lose(seq, None, "its token is no longer the current one")

    def _take_in_tended(self, tended: Tended) -> None:
        self._tended_at = time.monotonic()
        self._claimer.next_due = tended.next_due
        if tended.pruned == 0:
            self._pruned_at = self._tended_at
        if tended.expired:
            log.info("took back from workers that are gone: %s", ", ".join(tended.expired[:20]))

    def _as_run(self, claimed: Claimed, claim: Claim, now: float) -> Run:
        lane = claim.lanes[claimed.lane]
        run = Run(claimed, self._tasks[lane.task], lane.queue, self._claimer.lease_of(lane.task), now)
        self._runs[claimed.seq] = run
        return run

    def _lose(self, seq: int, token: int | None, why: str) -> None:
        run = self._runs.get(seq)
        if run is None or (token is not None and run.claimed.token != token):
            return
        active = self._desk.drop(seq, run.claimed.token)
        run.lost = why
        if active is not None and self._job_log.wanted():
            self._job_log.write([Ended(run, None, reason=why)])
        if active is not None:
            self._stop(active, why)
        else:
            self._runs.pop(seq, None)

    def _lose_all(self) -> None:
        self._start_over("was given up for dead by the others, or the database was restored")

    def _start_over(self, what: str = "has another database than before") -> None:
        """Nothing that the worker holds is its own any more; a job's number may be another's. It goes on under a new one."""
        log.warning("worker %s %s; it registers again", self._config.name, what)
        generation = self._store.generation
        self._reports.clear()
        self._claimer.start_over()
        for seq in list(self._runs):
            self._lose(seq, None, f"its worker {what}")
        self._register()
        self._generation, self._woken = generation, True

    def _forget(self, run: Run) -> None:
        """It has ended, and its job was taken from this worker before."""
        if self._runs.get(run.claimed.seq) is run:  # else the job has come back, and is another run's by now
            del self._runs[run.claimed.seq]
            self._woken = True  # its slot is free, and no transaction will claim for it

    # When

    def _beat_due(self) -> bool:
        return self._store.clock.tick() - self.beat_tick >= self._claimer.lease_min / BEATS_PER_LEASE

    def _pause(self, closing: bool) -> float:
        """Until the next thing that is known to be due; a commit or an outcome ends it earlier."""
        beat = self._claimer.lease_min / 1e6 / BEATS_PER_LEASE / 2
        now = time.monotonic()
        pause = min(TEND_SECONDS - (now - self._tended_at), beat, self._due_in(), self._again_at - now)
        if self._reports.speaking:
            pause = min(pause, REPORT_SECONDS)
        if closing:
            pause = min(pause, CLOSING_SECONDS)
        return max(0.001, pause)

    def _due_in(self) -> float:
        due_in = self._claimer.due_in()
        return TEND_SECONDS if due_in is None else due_in

    # Coming and going

    def _register(self) -> None:
        config, lease_min, declared = self._config, self._claimer.lease_min, dict(self._queues)

        def run(moment: Moment) -> Op[tuple[int, int]]:
            yield from queue_settings.declare_all(moment, declared)
            worker = yield from workers.register(
                moment,
                config.name,
                config.host,
                config.pid,
                lease_min,
                by_hand=False,
                slots=self._desk.slots,
                queues=config.queues,
            )
            return worker, moment.tick

        self.worker, self.beat_tick = self._store.write(run)

    def _leave(self) -> None:
        """Nothing is held any more: the worker's row goes."""
        try:
            self._store.write(lambda _: workers.leave(self.worker))
        except StoreUnavailable as error:
            log.warning("worker %s could not sign off (%s)", self._config.name, one_line(str(error)))

    def idle(self) -> bool:
        """Whether there is nothing to commit and the last look found nothing to claim."""
        return not (self._woken or self._again_at < math.inf or self._reports.waiting or self._desk.outcomes)

    def check_empty(self, retries: bool, patient: bool) -> bool:
        """Whether nothing is ready, due or running, here or elsewhere, in its lanes; nor backs off, if that is asked.

        patient  Wait for queues that let nothing start for a time.
        """
        try:
            found = self._claimer.look(self.worker, claims=True, retention=None)
            if found.ready or self._due_in() <= 0:
                self._woken = True
                return False
            return self._claimer.is_empty(patient) and not (retries and self._claimer.left().retrying)
        except StoreUnavailable:
            return False  # it is not known

    def left(self) -> Left:
        """What there is in this worker's lanes."""
        return self._claimer.left()


def _limited_first(claim: Claim) -> list[Claimed]:
    """There are no more of them than free slots, so that each starts now, at the time that its queue counts."""
    if not any(lane.limited for lane in claim.lanes.values()):
        return claim.jobs
    return sorted(claim.jobs, key=lambda each: -claim.lanes[each.lane].limited)


def _nothing(value: object) -> Op[object]:
    """In place of an operation that is not needed."""
    yield from ()
    return value


def _line_of(error: Exception, run: Run | None) -> str:
    """Without the secret arguments that it may quote."""
    hidden: list[str] = []
    if run is not None:
        with suppress(Exception):  # they may be what is damaged
            hidden = [*secrets_in(codec.decode(run.claimed.arguments), run.task.signature.secrets)]
    known = error_of(error, hidden=hidden)
    return known.message if isinstance(error, HoldfastError) else known.line
