"""Why a job does not run yet: every reason at once, in words with units, and the cheapest thing that would start it.

The reasons of a queue come from `domain/flow`, which the claim decides by: they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from holdfast.domain.flow import Block, Flow
from holdfast.domain.job import Job, moment_of
from holdfast.domain.limits import NEVER
from holdfast.domain.states import State

AHEAD_MAX: Final = 10_000
"""So many jobs ahead are counted exactly."""
HOLDERS_MAX: Final = 5


class Reason(msgspec.Struct, frozen=True):
    """One reason why a job does not run now."""

    kind: str
    """ended, running, scheduled, no_worker, busy, ahead, paused, breaker, probe, concurrency, gap or rate."""
    text: str
    until: datetime | None = None
    """When it ends by itself, where that is known."""
    remedy: str | None = None
    """What would end it now."""


class Explanation(msgspec.Struct, frozen=True):
    """Why a job does or does not run."""

    job: str
    state: State
    runs_next: bool
    """Nothing stands in its way: the next claim of a worker that knows its task takes it."""
    reasons: tuple[Reason, ...]
    position: int | None = None
    """Of a job that is ready: 1 is the next of its queue. Beyond 10,000 it says 10,001."""

    @property
    def remedy(self) -> str | None:
        """The first thing to do; None: nothing needs to be done."""
        return next((reason.remedy for reason in self.reasons if reason.remedy is not None), None)


class Holder(NamedTuple):
    """A job that runs in the same queue."""

    id: str
    worker: str
    seconds: float


class Pauser(NamedTuple):
    """The entry of the log that paused a queue."""

    actor: str
    at: int
    reason: str


class Facts(NamedTuple):
    """What is known about the job's queue at one moment."""

    now: int
    flow: Flow | None
    """None: the queue has no limits."""
    ahead: int
    holders: list[Holder]
    serving: int
    """Living workers that take this queue."""
    free: int
    """How many slots of theirs are free."""
    pauser: Pauser | None


def explain(job: Job, facts: Facts) -> Explanation:
    if job.state is not State.READY:
        return Explanation(job.id, job.state, runs_next=False, reasons=(_not_ready(job),))
    reasons = tuple(_reasons(job, facts))
    return Explanation(job.id, job.state, not reasons, reasons, facts.ahead + 1)


def _not_ready(job: Job) -> Reason:
    if job.state is State.SCHEDULED and job.run_after is not None:
        text = f"it is not to run before {_clock(job.run_after)}" + (f", after {job.error}" if job.error else "")
        return Reason("scheduled", text, until=job.run_after)
    if job.state is State.RUNNING:
        return Reason("running", f"it runs, in attempt {job.attempt} of {job.attempts_max}")
    said = f"it is {job.state}: {job.error}" if job.error else f"it has {job.state}" if job.state is State.SUCCEEDED else None
    return Reason("ended", said or f"it was {job.state}")


def _reasons(job: Job, facts: Facts) -> Iterator[Reason]:
    queue = job.queue
    if not facts.serving:
        yield Reason("no_worker", f"no living worker takes queue {queue}", remedy=f"start a worker for queue {queue}")
    elif not facts.free:
        text = f"all slots of the {_count(facts.serving, 'worker')} that take queue {queue} are taken"
        yield Reason("busy", text, remedy=f"start another worker for queue {queue}")
    for block in facts.flow.blocks() if facts.flow is not None else ():
        yield _blocked(queue, block, facts)
    if facts.ahead:
        more = "more than " if facts.ahead > AHEAD_MAX else ""
        yield Reason("ahead", f"{more}{_count(min(facts.ahead, AHEAD_MAX), 'job')} of queue {queue} come before it")


def _blocked(queue: str, block: Block, facts: Facts) -> Reason:
    assert facts.flow is not None
    limits, memory = facts.flow.limits, facts.flow.memory
    until = None if block.until == NEVER else moment_of(block.until)
    at = "" if until is None else f" until {_clock(until)}"
    match block.kind:
        case "paused":
            return Reason("paused", f"queue {queue} is paused{at}{_by(facts.pauser)}", until, f"resume queue {queue}")
        case "breaker":
            failed = f" after {_count(len(memory.failed), 'job')} failed in a row" if memory.failed else ""
            return Reason("breaker", f"queue {queue} is stopped{at}{failed}; then one job is tried", until)
        case "probe":
            return Reason("probe", f"queue {queue} was stopped, and one job is being tried: {_names(facts.holders)}", until)
        case "concurrency":
            most = limits.concurrency or 0
            room = f"{facts.flow.running} of {_count(most, 'job')} that may run at once in queue {queue}"
            text = f"{room} run: {_names(facts.holders)}"
            return Reason("concurrency", text, until, f"raise concurrency of queue {queue} to {facts.flow.running + 1}")
        case "gap":
            text = f"queue {queue} waits {limits.gap:g} s after the end of each job, until {_clock(moment_of(block.until))}"
            return Reason("gap", text, until, f"lower the gap of queue {queue}")
    text = f"queue {queue} has started as many jobs as its rate allows, until {_clock(moment_of(block.until))}"
    return Reason("rate", text, until, f"raise the rate of queue {queue}")


def _by(pauser: Pauser | None) -> str:
    if pauser is None:
        return ""
    return f", by {pauser.actor} since {_clock(moment_of(pauser.at))}" + (f": {pauser.reason}" if pauser.reason else "")


def _names(holders: Iterable[Holder]) -> str:
    several = [f"{each.id} on {each.worker} for {each.seconds:.0f} s" for each in holders]
    return ", ".join(several) or "none that is still there"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
