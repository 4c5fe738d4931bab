"""Acting on a job from outside: cancel, skip, retry, delete. Each reads the state and moves it in one transaction.

Whoever moves a job locks first its key, if that may change hands, then its row in the narrow table of its state: always in
this order, so that nobody waits in a circle. (SQLite has the one lock for all, and takes it earlier.)
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from holdfast.domain.key import Holder, holds
from holdfast.domain.message import NOTHING_HIDDEN
from holdfast.domain.states import EVENTS, FINAL, State, move
from holdfast.domain.text import show
from holdfast.errors import Changed, Conflict, JobNotFound
from holdfast.store.callbacks import announce
from holdfast.store.op import Moment, Op, Statement

LOOKS_MAX: Final = 100


class Seen(NamedTuple):
    """A job as it stands: the columns of `job_state.sql`."""

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


def look(id: str, event_count: int | None = None) -> Op[Seen]:
    """The job's state, locked for the rest of the transaction; `Changed` if it has not so many events, where that was asked."""
    for _ in range(LOOKS_MAX):
        locked = yield Statement("lock_job", {"id": id})
        found = yield Statement("job_state", {"id": id})
        if not found:
            raise JobNotFound(f"there is no job {show(id)}; it may have been deleted or pruned")
        if locked:  # else somebody moved it just before: look again
            seen = Seen(*found[0])
            if event_count is not None and seen.event_count != event_count:
                raise Changed(_moved_on(id, seen, event_count))
            return seen._replace(state=State(seen.state))
    raise Conflict(f"job {id} is being moved by others all the time; try again")


def _moved_on(id: str, seen: Seen, event_count: int) -> str:
    return f"job {id} is {seen.state} and has {seen.event_count} events, not {event_count}: it has moved on; look at it again"


def cancel(moment: Moment, id: str, reason: str, event_count: int | None = None) -> Op[None]:
    """Final at once, also for a running job: its holder is told, and its code is stopped, but nothing it does counts."""
    seen = yield from look(id, event_count)
    yield from _end(moment, seen, "cancel", reason)


def cancel_if_open(moment: Moment, id: str, reason: str) -> Op[int | None]:
    """The seq of the job if it has a callback, which the caller has to `announce`, when it has no numbers of jobs in hand."""
    seen = yield from look(id)
    if seen.state in FINAL:
        return None
    yield from _move(moment, seen, "cancel", reason)
    return None if seen.callback is None else seen.seq


def skip(moment: Moment, id: str, reason: str, event_count: int | None = None) -> Op[None]:
    seen = yield from look(id, event_count)
    yield from _end(moment, seen, "skip", reason)


def retry(moment: Moment, id: str, event_count: int | None = None) -> Op[None]:
    """Back to ready with fresh attempts; the token goes on counting."""
    yield Statement("lock_key", {"id": id})
    seen = yield from look(id, event_count)
    move(seen.state, "retry")
    if seen.key is not None:
        yield from _take_key_back(moment, seen, id)
    yield Statement("restart_job", {"seq": seen.seq, "state": seen.state})
    yield Statement("leave_finished", {"finished_at": seen.finished_at, "seq": seen.seq})
    yield Statement("ready_jobs", {"seqs": _one(seen.seq)})
    yield from record(moment, seen.seq, EVENTS["retry"], None)


def delete(id: str, event_count: int | None = None) -> Op[None]:
    """The job, its events, errors, tags and key are gone. A running job is cancelled first, by whoever wants this."""
    yield Statement("lock_key", {"id": id})
    seen = yield from look(id, event_count)
    move(seen.state, "delete")
    yield from _leave(seen)
    seqs = {"seqs": _one(seen.seq)}
    for verb in ("free_keys", "delete_tags", "delete_events", "delete_errors", "keep_numbers", "delete_jobs", "delete_bodies"):
        yield Statement(verb, seqs)


def record(moment: Moment, seq: int, kind: str, data: dict[str, Any] | None) -> Op[None]:
    """One event about one job, numbered on."""
    text = None if data is None else msgspec.json.encode(data).decode()
    events = msgspec.json.encode([(seq, 1, kind, moment.now, text)]).decode()
    yield Statement("record_events", {"events": events})
    yield Statement("count_events", {"counts": f"[[{seq},1]]"})


def _end(moment: Moment, seen: Seen, verb: str, reason: str) -> Op[None]:
    yield from _move(moment, seen, verb, reason)
    if seen.callback is not None:
        yield from announce(moment, {seen.seq: NOTHING_HIDDEN})


def _move(moment: Moment, seen: Seen, verb: str, reason: str) -> Op[None]:
    state = move(seen.state, verb)
    yield from _leave(seen, told=str(state))
    if seen.event_count == 1:
        yield Statement("add_moved", {"seqs": _one(seen.seq)})
    change = (seen.seq, state, None, reason, None, moment.now, 0)
    yield Statement("move_jobs", {"changes": msgspec.json.encode([change]).decode()})
    yield Statement("add_finished", {"now": moment.now, "seqs": _one(seen.seq)})
    yield from record(moment, seen.seq, EVENTS[verb], {"reason": reason})


def _leave(seen: Seen, told: str = "") -> Op[None]:
    """Out of the narrow table that the job's state keeps it in; a holder is told why."""
    if seen.state == State.READY:
        yield Statement("leave_ready", {"lane": seen.lane, "priority": seen.priority, "seq": seen.seq})
    elif seen.state == State.SCHEDULED:
        yield Statement("leave_scheduled", {"run_after": seen.run_after, "seq": seen.seq})
    elif seen.state == State.RUNNING:
        yield Statement("add_notices", {"kind": told, "seqs": _one(seen.seq)})
        yield Statement("end_leases", {"seqs": _one(seen.seq)})
    elif seen.state in FINAL:
        yield Statement("leave_finished", {"finished_at": seen.finished_at, "seq": seen.seq})


def _take_key_back(moment: Moment, seen: Seen, id: str) -> Op[None]:
    """A retried job needs its key again; if another job has it by now, there would be two."""
    ours = {"key": seen.key, "seq": seen.seq, "id": id, "lane": seen.lane}
    # A later holder may be deleted, and with it what was known of the key's scope: while the job is open is what is sure.
    kept = {"scope": "active", "until": None, "failed": "free", "created_at": moment.now}
    if (yield Statement("take_key", {**ours, **kept})):
        return
    found = yield Statement("key_holder", {"key": seen.key})
    if found and found[0][0] != seen.seq and holds(Holder(*found[0]), moment.now):
        raise Conflict(
            f"job {id} cannot be retried: its key {seen.key} is held by job {found[0][1]}; cancel or delete that one first"
        )
    if found and found[0][0] != seen.seq:
        yield Statement("move_key", ours)


def _one(seq: int) -> str:
    return f"[{seq}]"
