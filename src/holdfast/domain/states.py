"""The one state machine: every legal move `(state, verb) -> state`, as a table.

The README's diagram, the property tests and the buttons of a page are drawn from it. A key that is missing here is the
error: nothing else in the code base decides whether a move is legal.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from holdfast.errors import IllegalMove


class State(StrEnum):
    SCHEDULED = "scheduled"
    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"

    __str__ = str.__str__
    __repr__ = str.__repr__


FINAL: Final = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.SKIPPED})

MOVES: Final[dict[tuple[State | None, str], State | None]] = {
    (None, "enqueue"): State.READY,
    (None, "schedule"): State.SCHEDULED,
    (State.SCHEDULED, "promote"): State.READY,
    (State.READY, "claim"): State.RUNNING,
    (State.RUNNING, "finish"): State.SUCCEEDED,
    (State.RUNNING, "fail"): State.FAILED,
    (State.RUNNING, "back_off"): State.SCHEDULED,
    (State.RUNNING, "snooze"): State.SCHEDULED,
    (State.RUNNING, "release"): State.READY,
    (State.RUNNING, "expire"): State.READY,
    (State.RUNNING, "wait"): State.WAITING,
    (State.WAITING, "wake"): State.READY,
    (State.SCHEDULED, "cancel"): State.CANCELLED,
    (State.READY, "cancel"): State.CANCELLED,
    (State.RUNNING, "cancel"): State.CANCELLED,
    (State.WAITING, "cancel"): State.CANCELLED,
    (State.SCHEDULED, "skip"): State.SKIPPED,
    (State.READY, "skip"): State.SKIPPED,
    (State.RUNNING, "skip"): State.SKIPPED,
    (State.WAITING, "skip"): State.SKIPPED,
    (State.FAILED, "retry"): State.READY,
    (State.CANCELLED, "retry"): State.READY,
    (State.SKIPPED, "retry"): State.READY,
    (State.SCHEDULED, "delete"): None,
    (State.READY, "delete"): None,
    (State.WAITING, "delete"): None,
    (State.SUCCEEDED, "delete"): None,
    (State.FAILED, "delete"): None,
    (State.CANCELLED, "delete"): None,
    (State.SKIPPED, "delete"): None,
}

EVENTS: Final[dict[str, str]] = {
    "enqueue": "enqueued",
    "schedule": "scheduled",
    "promote": "promoted",
    "claim": "started",
    "finish": "succeeded",
    "fail": "failed",
    "back_off": "backed_off",
    "snooze": "snoozed",
    "release": "released",
    "expire": "expired",
    "wait": "suspended",
    "wake": "woken",
    "cancel": "cancelled",
    "skip": "skipped",
    "retry": "retried",
}
"""The event that each verb leaves behind, in the transaction of the move. A deleted job leaves none: its log goes with it."""


def move(state: State | None, verb: str) -> State | None:
    """The state that `verb` leads to, or `IllegalMove` with the verbs that would be legal."""
    try:
        return MOVES[state, verb]
    except KeyError:
        legal = ", ".join(verbs(state)) or "none"
        raise IllegalMove(f"a job that is {state} cannot be moved by '{verb}'; legal here: {legal}") from None


def result_of(state: State, verb: str) -> State:
    """As `move`, of verbs that leave a job behind: all but `delete`."""
    end = move(state, verb)
    assert end is not None
    return end


def allows(state: State, verb: str) -> bool:
    return (state, verb) in MOVES


def verbs(state: State | None) -> list[str]:
    """What may be done to a job in this state, in the table's order."""
    return [verb for (start, verb) in MOVES if start == state]


def diagram() -> str:
    """The table as a Mermaid state diagram; moves between the same two states share an arrow."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (start, verb), end in MOVES.items():
        if verb != "delete":
            arrows.setdefault((start or "[*]", end or "[*]"), []).append(verb)
    lines = [f"    {start} --> {end}: {', '.join(verbs_)}" for (start, end), verbs_ in arrows.items()]
    ends = [f"    {state} --> [*]" for state in State if state in FINAL]
    return "\n".join(["stateDiagram-v2", *lines, *ends])
