"""Every move of a job that is already there, but the claim: finish, fail, back off, release, expire, cancel, skip, retry, delete.

A move takes the job out of the narrow table of its old state, writes what changed into `job_state`, puts the job into the narrow
table of its new state, adds the event that the move leaves behind and, where the job ends, the callback. Which moves there are
is decided by `domain/states` and `domain/outcome`; nothing here compares states but to find a table.

Locks are taken in the order that ARCHITECTURE lists: the key's row, then the narrow row, then `job_state`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from holdfast.domain.bounds import ERRORS_PER_JOB_MAX
from holdfast.domain.message import Hidden
from holdfast.domain.outcome import Change
from holdfast.domain.states import EVENTS, FINAL, State, move, result_of
from holdfast.domain.text import show
from holdfast.errors import Changed, Conflict, JobNotFound
from holdfast.store.callbacks import announce
from holdfast.store.op import Moment, Op, Statement, json_of

LOCK_TRIES_MAX: Final = 100
DELETES: Final = ("delete_tags", "delete_events", "delete_errors", "delete_states", "delete_specs")
"""What is deleted with a job, beside its key and its narrow row. Tags go first: they are found by the spec."""

_LEAVE: Final = {
    State.READY: "leave_ready",
    State.SCHEDULED: "leave_scheduled",
    State.RUNNING: "end_claims",
    **dict.fromkeys(FINAL, "leave_finished"),
}
_ENTER: Final = {
    State.READY: "ready_jobs",
    State.SCHEDULED: "schedule_jobs",
    **dict.fromkeys(FINAL, "add_finished"),
}

Emitted = tuple[str, int, str | None]
"""An event: kind, wall microseconds, data as JSON."""


class Found(NamedTuple):
    """A job as it stands, locked: the columns of `job_to_move`."""

    seq: int
    state: State
    token: int
    event_count: int
    priority: int
    run_after: int | None
    finished_at: int | None
    lane: int
    key: str | None
    callback: str | None


class Move(NamedTuple):
    """A change of one job that was taken out of its narrow table."""

    seq: int
    attempt: int
    change: Change
    callback: Hidden | None
    """Set where the job has a callback: what the message must not show."""
    began_at: int | None = None
    """When its code began, where that was measured."""
    ended_at: int | None = None
    """When it ended, if not now."""


def lock(id: str, event_count: int | None = None) -> Op[Found]:
    """The job's state, locked for the rest of the transaction; `Changed` if it has not so many events, where that was asked."""
    for _ in range(LOCK_TRIES_MAX):
        locked = yield Statement("lock_job", {"id": id})
        rows = yield Statement("job_to_move", {"id": id})
        if not rows:
            raise JobNotFound(f"there is no job {show(id)}; it may have been deleted or pruned")
        if locked:  # else another transaction moved it just before: look again
            found = Found(*rows[0])
            if event_count is not None and found.event_count != event_count:
                raise Changed(_moved_on(id, found, event_count))
            return found._replace(state=State(found.state))
    raise Conflict(f"job {id} is being moved by others all the time; try again")


def _moved_on(id: str, found: Found, event_count: int) -> str:
    return f"job {id} is {found.state} and has {found.event_count} events, not {event_count}: it has moved on; look at it again"


def leave(found: Found, notice: str = "") -> Op[None]:
    """Out of the narrow table of its state; the worker that runs it is left a notice of why."""
    fields = {**found._asdict(), "seqs": f"[{found.seq}]"}
    if found.state is State.RUNNING:
        yield Statement("add_notices", {**fields, "kind": notice})
    if found.state in _LEAVE:
        yield Statement(_LEAVE[found.state], fields)


def end(moment: Moment, found: Found, verb: str, reason: str, callback: Hidden | None) -> Op[None]:
    """A job in any state that allows it is cancelled or skipped, also while a worker runs it."""
    change = Change(verb, result_of(found.state, verb), reason=reason, data={"reason": reason})
    yield from leave(found, notice=change.state)
    if found.event_count == 1:  # it never moved, and has no row of `job_state` yet
        yield Statement("add_states", {"seqs": f"[{found.seq}]"})
    yield from record([(found.seq, [event_of(change, moment.now)])])
    yield from write(moment, [Move(found.seq, 0, change, callback)])


def restart(moment: Moment, found: Found) -> Op[None]:
    """Back to ready with fresh attempts; the token goes on counting."""
    yield Statement("restart_job", {"seq": found.seq, "state": found.state})
    yield from leave(found)
    yield Statement(_ENTER[result_of(found.state, "retry")], {"seqs": f"[{found.seq}]"})
    yield Statement("note_returned", {"seqs": f"[{found.seq}]"})
    yield from record([(found.seq, [(EVENTS["retry"], moment.now, None)])])


def delete(found: Found) -> Op[None]:
    """The job, its events, errors, tags and key are gone. A running job must be cancelled first."""
    move(found.state, "delete")
    yield from leave(found)
    seqs = {"seqs": f"[{found.seq}]"}
    for verb in ("free_keys", *DELETES):
        yield Statement(verb, seqs)


def write(moment: Moment, moves: Sequence[Move]) -> Op[None]:
    """Moves of jobs that were locked and taken out of their narrow tables; of each job at most one."""
    now = moment.now
    into: dict[str, list[int]] = {}
    for each in moves:
        into.setdefault(_ENTER[each.change.state], []).append(each.seq)
    yield Statement("move_jobs", {"changes": json_of([_columns(each, now) for each in moves])})
    for verb, seqs in into.items():
        yield Statement(verb, {"now": now, "seqs": json_of(seqs)})
    back = [each.seq for each in moves if not each.change.ends]
    if back:
        yield Statement("note_returned", {"seqs": json_of(back)})
    yield from _write_errors(now, moves)
    told = {each.seq: each.callback for each in moves if each.callback is not None and each.change.ends}
    if told:
        yield from announce(moment, told)


def _columns(each: Move, now: int) -> tuple[Any, ...]:
    change = each.change
    due = None if change.delay_seconds is None else now + int(change.delay_seconds * 1e6)
    ended = (each.ended_at or now) if change.ends else None
    return each.seq, change.state, change.result, change.reason, due, ended, 1 - change.attempt_cost, each.began_at


def _write_errors(now: int, moves: Iterable[Move]) -> Op[None]:
    failed = [(each, each.change.error) for each in moves if each.change.error is not None]
    if not failed:
        return
    errors = [(each.seq, each.attempt, now, error.kind, error.message, error.traceback) for each, error in failed]
    yield Statement("add_errors", {"errors": json_of(errors)})
    yield Statement("trim_errors", {"seqs": json_of([each.seq for each, _ in failed]), "keep": ERRORS_PER_JOB_MAX})


def record(events: Iterable[tuple[int, Iterable[Emitted]]]) -> Op[None]:
    """Events of jobs, by their numbers, counted on from those that each has. Before `write`, which may add a callback."""
    rows: list[tuple[Any, ...]] = []
    counts: dict[int, int] = {}
    for seq, emitted in events:
        for event in emitted:
            counts[seq] = counts.get(seq, 0) + 1
            rows.append((seq, counts[seq], *event))
    if rows:
        yield Statement("record_events", {"events": json_of(rows)})
        yield Statement("count_events", {"counts": json_of(list(counts.items()))})


def event_of(change: Change, now: int, run_seconds: float | None = None) -> Emitted:
    """What a move leaves in the job's log; of a failed attempt also how long its code ran, which is kept nowhere else."""
    data = change.data if run_seconds is None or change.data is None else {**change.data, "run_seconds": run_seconds}
    return EVENTS[change.verb], now, None if data is None else json_of(data)
