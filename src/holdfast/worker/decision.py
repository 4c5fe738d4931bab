"""What a clerk's turn is for: a pure function from facts to one action, as a table that is read from the top."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from holdfast.worker.timing import DELAY_SECONDS, NOTICE_SECONDS


class Facts(NamedTuple):
    """All that a turn is decided by."""

    reports: int = 0
    """Reports that wait to be committed."""
    may_delay: bool = False
    """The pools have work for a while, and the reports are few: a later commit holds up no run."""
    unproven: bool = False
    """Reports could not be written, and nothing has been committed since: the store may be at fault, or a report."""
    in_doubt: bool = False
    """The reply to the last transaction was lost: jobs may be claimed that this worker does not know of."""
    beat_due: bool = False
    tend_due: bool = False
    prune_due: bool = False
    room: int = 0
    """How many jobs to claim, if there are any."""
    woken: bool = False
    """Something may have changed since the last look: a commit, a free slot, a nudge."""
    notified: bool = False
    """It was a commit that brings work, and to look first would cost as much as to claim."""
    looked_lately: bool = False
    found_ready: bool = False
    """The last look found a job to claim."""
    found_to_tend: bool = False
    """The last look found something due, expired, too old, or a notice."""


class Delay(NamedTuple):
    """Wait a moment for more reports."""

    seconds: float = DELAY_SECONDS


class Beat(NamedTuple):
    """Renew the leases, by one statement."""


class Look(NamedTuple):
    """Ask, without a lock, whether there is anything to do."""

    claims: bool


class File(NamedTuple):
    """One transaction: write the reports, tend, and claim up to so many jobs."""

    claim: int
    tend: bool = False
    beat: bool = True
    report: bool = True


class Rest(NamedTuple):
    """Sleep until something is due, or a commit or an outcome ends the sleep; at most so long, if that is set."""

    seconds: float | None = None


Action = Delay | Beat | Look | File | Rest


class Rule(NamedTuple):
    name: str
    applies: Callable[[Facts], bool]
    action: Callable[[Facts], Action]


TABLE: Final = (
    Rule(
        "reports could not be written: no beat and no claim waits for them",
        lambda facts: facts.unproven,
        lambda facts: File(facts.room, tend=facts.tend_due, report=False),
    ),
    Rule("few reports while the pools are busy", lambda facts: facts.may_delay, lambda _: Delay()),
    Rule(
        "something to write",
        lambda facts: facts.reports > 0 or facts.in_doubt,
        lambda facts: File(facts.room, tend=facts.tend_due),
    ),
    Rule("a beat and nothing else", lambda facts: facts.beat_due and not facts.prune_due, lambda _: Beat()),
    Rule("a beat, and old rows to forget", lambda facts: facts.beat_due, lambda _: File(0, tend=True)),
    Rule(
        "a look found work",
        lambda facts: (facts.found_ready and facts.room > 0) or facts.found_to_tend,
        lambda facts: File(facts.room if facts.found_ready else 0, tend=facts.found_to_tend),
    ),
    Rule(
        "a notification of work, and room for it",
        lambda facts: facts.notified and facts.room > 0,
        lambda facts: File(facts.room, beat=False),
    ),
    Rule(
        "woken without room, just after a look: only a notice could matter",
        lambda facts: facts.woken and facts.room == 0 and not facts.tend_due and facts.looked_lately,
        lambda _: Rest(NOTICE_SECONDS),
    ),
    Rule(
        "something may have changed, or it is time to tend",
        lambda facts: facts.woken or facts.tend_due,
        lambda facts: Look(claims=facts.room > 0),
    ),
    Rule("nothing to do", lambda _: True, lambda _: Rest()),
)


def decide(facts: Facts) -> Action:
    return next(rule.action(facts) for rule in TABLE if rule.applies(facts))
