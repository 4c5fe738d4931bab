"""The clerk: the one thread that speaks to the store for a worker.

In one transaction it files outcomes, progress and events, renews all leases with one beat, and claims what there is room
for. It shares nothing with the user's code but the desk, so a blocked event loop cannot stop a heartbeat.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.domain.bounds import CLAIMED_SLICE_MAX
from holdfast.domain.job import Claimed
from holdfast.domain.outcome import Change, Released
from holdfast.domain.outcome import settle as decide
from holdfast.domain.retry import Retry
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.registry import Registry
from holdfast.store import claim, tend
from holdfast.store.op import Moment, Op, together
from holdfast.store.settle import Report
from holdfast.store.settle import settle as write_reports
from holdfast.store.store import Store
from holdfast.worker.appetite import Appetite
from holdfast.worker.desk import Desk, Run
from holdfast.worker.lookout import Lookout
from holdfast.worker.outbox import SAID_SECONDS, Outbox
from holdfast.worker.terms import Terms

log = logging.getLogger("holdfast.worker")

_chance: Final = random.SystemRandom()  # the program may have seeded the common one for itself
BEATS_PER_LEASE: Final = 3
TEND_SECONDS: Final = 1.0
PRUNE_SECONDS: Final = 60.0
LINGER_SECONDS: Final = 0.001
NOTICE_SECONDS: Final = 0.05
START_SECONDS: Final = 0.000_2
"""For the thread that starts a job: we have nothing to do, and it would wait for the interpreter until we sleep."""
UNSTARTED_SECONDS: Final = 1.0
RETRY_SECONDS: Final = (0.05, 2.0)
_NEVER_STARTED: Final = Released("its claim was kept, but the answer was lost")


class Turn(msgspec.Struct):
    """What one transaction brought back."""

    alive: bool
    lost: set[int]
    notices: list[tuple[int, int, str]]
    claimed: list[Claimed]
    full: bool
    pruned: int = 0


class Clerk:
    def __init__(
        self,
        store: Store,
        registry: Registry,
        desk: Desk,
        terms: Terms,
        start: Callable[[list[Run]], None],
        stop: Callable[[Run, str], None],
    ) -> None:
        self._store, self._desk, self._terms = store, desk, terms
        self._start, self._stop = start, stop
        self.worker = 0
        self.beat_tick = 0
        """The lease clock at the last beat that was committed."""
        self._known = registry.runnable() if terms.callbacks else dict(registry.tasks)
        self._lookout = Lookout(store, terms, self._known)
        self._runs: dict[int, Run] = {}
        self._outbox = Outbox(desk, self._forget)
        self._appetite = Appetite(desk)
        self._asleep = False
        self._look = True
        self._tended_at = self._pruned_at = self._filed_at = self._looked_at = 0.0
        self._failures = 0
        self._in_doubt = False
        desk.call_clerk = self._outcome_came

    # Its loop

    def open(self, follows: bool = False) -> None:
        """Register; raises if the store cannot be used, before anything else is started.

        follows  Hears also of what others finish: who works until nothing is left waits for that.
        """
        self._watcher = self._store.watcher(follows)
        self._register()

    def work(self, finished: Callable[[], bool]) -> None:
        """Turn after turn until `finished()` and everything is filed."""
        try:
            closing = finished()
            while not (closing and self._nothing_left()):
                pause = self._turn_safely(closing)
                before, closing = closing, finished()
                if pause > 0 and closing == before:
                    self._sleep(pause)
                    closing = finished()
            # Not after an error: the row is what the jobs that are still held expire by.
            self._leave()
        finally:
            self._watcher.close()

    def nudge(self) -> None:
        """Look again now."""
        self._look = True
        self._watcher.nudge()

    def said(self, run: Run) -> None:
        """From a task's code: there is something to take from its context."""
        self._outbox.said.append(run)
        if self._asleep:
            self._watcher.nudge()

    def _outcome_came(self) -> None:
        if self._asleep:
            self._asleep = False
            self._watcher.nudge()

    def _sleep(self, seconds: float) -> None:
        self._asleep = seconds > LINGER_SECONDS
        # An outcome that came before the flag was set has nudged nobody: look once more.
        if self._asleep and self._desk.outcomes:
            self._asleep = False
            return
        if seconds <= LINGER_SECONDS:
            time.sleep(seconds)
        else:
            self._look = self._wait(seconds) or self._look
        self._asleep = False

    def _wait(self, seconds: float) -> bool:
        try:
            return self._watcher.wait(seconds)
        except Exception as error:
            # Without its word we look for ourselves, as often as the turns come.
            log.warning("nobody tells of commits (%s)", error)
            time.sleep(min(seconds, RETRY_SECONDS[0]))
            return True

    def _nothing_left(self) -> bool:
        desk = self._desk
        return not (desk.active or desk.waiting or desk.outcomes or self._outbox.unsent)

    def _turn_safely(self, closing: bool) -> float:
        """One turn; the seconds that may pass before the next. A store that fails is tried again, forever."""
        try:
            pause = self._turn(closing)
            self._failures = 0
            return pause
        except StoreUnavailable as error:
            self._failures += 1
            self._in_doubt = True  # a claim may have been kept whose answer was lost
            low, high = RETRY_SECONDS
            pause = min(high, low * float(2 ** min(self._failures, 10))) * _chance.uniform(0.5, 1.0)
            log.warning("the store does not answer (%s); trying again in %.2f s", error, pause)
            self._look = True
            return pause

    def _turn(self, closing: bool) -> float:
        desk, now = self._desk, time.monotonic()
        for run in desk.unstarted(now - UNSTARTED_SECONDS):
            desk.outcomes.append((run, Released("it waited for a slot too long; others may have one")))
        self._appetite.count(now, self._outbox.gather(now))
        if self._appetite.may_linger(len(self._outbox.unsent), now - self._filed_at):
            return LINGER_SECONDS
        tending = now - self._tended_at >= TEND_SECONDS or self._due_in() <= 0
        beating = self._beat_due()
        room = 0 if closing else self._appetite.room()
        silent = not (self._outbox.unsent or self._in_doubt)
        if beating and silent:
            # The next turn asks, by one statement, whether there is anything else to do, and looks for what there may be.
            if now - self._pruned_at < PRUNE_SECONDS:
                return self._beat(now, closing)
            tending, room = True, 0
        looking = room > 0 and (self._look or tending)
        quiet = silent and not beating
        if quiet and self._look and not (looking or tending) and now - self._looked_at < NOTICE_SECONDS:
            return NOTICE_SECONDS  # somebody committed, perhaps ourselves: only a notice could be of interest now
        if quiet and (self._look or tending):
            self._looked_at = now
            picking = looking and self._look and self._watcher.heard and self._lookout.may_pick_up()
            self._look = False
            looking, to_tend = self._pick_up(room) if picking else self._look_around(looking)
            if not picking and (tending or not looking):
                self._tended_at = now
            tending = to_tend and (tending or not looking)
        if quiet and not (looking or tending):
            return 0.0 if self._look else self._pause(now, closing)
        reports = self._outbox.take()
        self._look = self._look and not (looking or reports)
        try:
            turn = self._store.write(self._filing(reports, tending, room if looking or reports else 0))
        except HoldfastError:
            for report in reports:
                report.written = False
            self._outbox.put_back(reports)
            raise
        self._in_doubt = False
        self._filed_at = self._looked_at = now
        if tending:
            self._tended_at = now
        # Of a job whose own code holds a transaction open: to wait for that would stop everything else that we have to do.
        waiting = [report for report in reports if not (report.written or report.recalled)]
        self._outbox.put_back(waiting)
        self._take_in(turn, [report for report in reports if report.written or report.recalled] if waiting else reports)
        return 0.0 if desk.outcomes or self._look else self._pause(time.monotonic(), closing)

    def _beat(self, now: float, closing: bool) -> float:
        beaten = self._lookout.beat(self.worker, self.beat_tick)
        if beaten is None:
            self._in_doubt = True  # given up for dead, perhaps: the next turn finds out
            return 0.0
        self.beat_tick = beaten
        return 0.0 if self._look else self._pause(now, closing)

    # What a transaction says and brings

    def _filing(self, reports: list[Report], tending: bool, room: int) -> Callable[[Moment], Op[Turn]]:
        doubting, place = self._in_doubt, self._lookout.place

        def make(moment: Moment) -> Op[Turn]:
            self._lookout.return_to(place)  # of a try before this one nothing was kept
            current = [report for report in reports if not report.recalled]
            # Who holds jobs that are ready waits for nobody: with plain reports alone there is nobody to wait for.
            waits = doubting or not all(report.plain for report in current)
            lost, notices, alive, near = yield from together(
                write_reports(moment, current, waits=False),
                claim.notices(self.worker),
                claim.beat(moment, self.worker),
                self._lookout.near(moment, 0 if waits else room),
            )
            if doubting:  # after the beat, which ends whatever was begun before it
                yield from self._give_back_unknown(moment)
            pruned = 0
            if tending:
                expired = yield from tend.expire(moment)
                if expired:
                    log.info("took back from workers that are gone: %s", ", ".join(expired[:20]))
                yield from tend.promote(moment)
                self._lookout.next_due = yield from tend.next_due()
                pruned = yield from self._prune(moment)
            claimed: list[Claimed] = []
            if near and alive:
                claimed = yield from self._lookout.take_offered(moment, self.worker, near)
            elif near:
                self._lookout.return_to(place)
            elif room > 0 and alive:
                claimed = yield from self._lookout.take(moment, self.worker, room)
            self._tick = moment.tick
            full = room > 0 and (len(claimed) == room or self._lookout.partial)
            return Turn(alive, lost, notices, claimed, full=full, pruned=pruned)

        return make

    def _give_back_unknown(self, moment: Moment) -> Op[None]:
        """Jobs that we hold and do not know of: our beats would renew their leases for ever, and nobody would run them."""
        unknown = [
            Report(seq, token, lane, attempt, decide(attempt, attempts_max, _NEVER_STARTED, Retry(), 0.5))
            for seq, token, lane, attempt, attempts_max in (yield from claim.held_by(self.worker))
            if seq not in self._runs or self._runs[seq].claimed.token != token
        ]
        if unknown:
            yield from write_reports(moment, unknown)

    def _prune(self, moment: Moment) -> Op[int]:
        """A batch a minute while there is little to forget, a batch a second while there is more."""
        retention = self._terms.retention_seconds
        if time.monotonic() - self._pruned_at < PRUNE_SECONDS:
            return 0
        yield from tend.forget(moment)
        pruned = 0 if retention is None else (yield from tend.prune(moment, moment.now - int(retention * 1e6)))
        if pruned == 0:
            self._pruned_at = time.monotonic()
        return pruned

    def _look_around(self, looking: bool) -> tuple[bool, bool]:
        """Whether there is something to claim, and to tend."""
        pruning = time.monotonic() - self._pruned_at >= PRUNE_SECONDS and self._terms.retention_seconds is not None
        retention = int((self._terms.retention_seconds or 0.0) * 1e6) if pruning else None
        left = self._lookout.look(self.worker, looking, retention)
        return left.ready, left.to_tend

    def _pick_up(self, room: int) -> tuple[bool, bool]:
        """The same, and what could be taken at once is."""
        room = min(room, CLAIMED_SLICE_MAX)  # all that was taken is one answer
        claimed, self._tick, left = self._lookout.pick_up(self.worker, self.beat_tick, room)
        if claimed:
            self._take_in(Turn(True, set(), [], claimed, full=len(claimed) == room), [])
        return left.ready, left.to_tend

    def _take_in(self, turn: Turn, reports: list[Report]) -> None:
        if turn.alive:
            self.beat_tick = self._tick
        else:
            self._lose_all()
        for report in reports:
            if report.change is not None:
                run = self._runs.pop(report.seq, None)
                if run is not None and report.seq not in turn.lost:
                    _log_failure(run, report.change)
        for seq in turn.lost:
            ended = self._runs.get(seq)
            if ended is None or ended.context is None or not ended.context.finished:  # else it ended its job itself
                self._lose(seq, None, "its token is no longer the current one")
        for seq, token, kind in turn.notices:
            self._lose(seq, token, f"it was {kind}")
        self._look = self._look or turn.full
        if turn.claimed:
            now = time.monotonic()
            self._start(self._desk.add([self._as_run(claimed, now) for claimed in turn.claimed]))
            if not (self._look or self._desk.outcomes):
                time.sleep(START_SECONDS)

    def _as_run(self, claimed: Claimed, now: float) -> Run:
        queue, name = self._lookout.lanes[claimed.lane]
        lease = self._lookout.leases.get(name, self._terms.lease_seconds)
        run = Run(claimed, self._known[name], queue, int(lease * 1e6), now)
        self._runs[claimed.seq] = run
        return run

    def _lose(self, seq: int, token: int | None, why: str) -> None:
        run = self._runs.get(seq)
        if run is None or (token is not None and run.claimed.token != token):
            return
        active = self._desk.drop(seq, run.claimed.token)
        run.lost = why
        if active is not None:
            self._stop(active, why)
        else:
            self._runs.pop(seq, None)

    def _lose_all(self) -> None:
        """We were given up for dead: nothing that we hold is ours any more. Start over under a new number."""
        log.warning("worker %s was given up for dead by the others; it registers again", self._terms.name)
        for seq in list(self._runs):
            self._lose(seq, None, "its lease ran out")
        self._register()

    def _forget(self, run: Run) -> None:
        """It has ended, and its job was taken from us before."""
        if self._runs.get(run.claimed.seq) is run:  # else the job has come back, and is another run's by now
            del self._runs[run.claimed.seq]
            self._look = True  # its slot is free, and nothing that is filed will make us claim for it

    # When

    def _beat_due(self) -> bool:
        return self._store.clock.tick() - self.beat_tick >= self._lookout.lease_min * 1e6 / BEATS_PER_LEASE

    def _pause(self, now: float, closing: bool) -> float:
        """Until the next thing that is known to be due; a change in the store or an outcome cuts it short."""
        beat = self._lookout.lease_min / BEATS_PER_LEASE / 2
        pause = min(TEND_SECONDS - (now - self._tended_at), beat, self._due_in())
        if self._outbox.said:
            pause = min(pause, SAID_SECONDS)
        if closing:
            pause = min(pause, 0.05)
        return max(0.001, pause)

    def _due_in(self) -> float:
        due_in = self._lookout.due_in()
        return TEND_SECONDS if due_in is None else due_in

    # Coming and going

    def _register(self) -> None:
        terms = self._terms
        lease_min = int(self._lookout.lease_min * 1e6)

        def make(moment: Moment) -> Op[int]:
            self._tick = moment.tick
            return (
                yield from claim.register(
                    moment,
                    terms.name,
                    terms.host,
                    terms.pid,
                    lease_min,
                    by_hand=False,
                    slots=self._desk.slots,
                    queues=terms.queues,
                )
            )

        self.worker = self._store.write(make)
        self.beat_tick = self._tick

    def _leave(self) -> None:
        """Nothing is held any more: take the worker's row along."""
        try:
            self._store.write(lambda _: claim.leave(self.worker))
        except StoreUnavailable as error:
            log.warning("worker %s could not sign off (%s)", self._terms.name, error)

    def idle(self) -> bool:
        """Whether there is nothing to file and the last look found nothing to claim."""
        return not (self._look or self._outbox.unsent or self._desk.outcomes)

    def check_empty(self) -> bool:
        """Whether nothing is ready, due or running, here or elsewhere, in what this worker works on."""
        try:
            left = self._lookout.look(self.worker, looking=True, retention=None)
            if left.ready or self._due_in() <= 0:
                self._look = True
                return False
            return self._lookout.is_empty()
        except StoreUnavailable:
            return False  # nobody knows


def _log_failure(run: Run, change: Change) -> None:
    if change.error is None:
        return
    claimed = run.claimed
    then = "it has failed for good" if change.delay_seconds is None else f"again in {change.delay_seconds:.1f} s"
    log.warning(
        "job %s (%s), attempt %d of %d: %s; %s",
        claimed.id, run.task.name, claimed.attempt, claimed.attempts_max, change.error.line, then,
    )  # fmt: skip
