"""Acting on a job from outside: cancel, skip, retry, delete. Each locks the job and moves it in one transaction."""

from __future__ import annotations

from holdfast.domain.key import Holder, holds
from holdfast.domain.message import NOTHING_HIDDEN, Hidden
from holdfast.domain.states import allows, move
from holdfast.errors import Conflict
from holdfast.store import moves
from holdfast.store.moves import Found, lock
from holdfast.store.op import Moment, Op, Statement, json_of


def cancel(moment: Moment, id: str, reason: str, event_count: int | None = None) -> Op[None]:
    """Final at once, also for a running job: its holder is left a notice, its code is stopped, and nothing it does counts."""
    found = yield from lock(id, event_count)
    yield from moves.end(moment, found, "cancel", reason, _callback(found))


def skip(moment: Moment, id: str, reason: str, event_count: int | None = None) -> Op[None]:
    found = yield from lock(id, event_count)
    yield from moves.end(moment, found, "skip", reason, _callback(found))


def cancel_if_open(moment: Moment, id: str, reason: str) -> Op[int | None]:
    """Cancel a job that has not ended. The seq of the job, if it has a callback: the caller has to `announce` it."""
    found = yield from lock(id)
    if not allows(found.state, "cancel"):
        return None
    yield from moves.end(moment, found, "cancel", reason, callback=None)
    return None if found.callback is None else found.seq


def retry(moment: Moment, id: str, event_count: int | None = None) -> Op[None]:
    """Back to ready with fresh attempts; the token goes on counting."""
    yield Statement("lock_key", {"id": id})
    found = yield from lock(id, event_count)
    move(found.state, "retry")
    if found.key is not None:
        yield from _take_key_back(moment, found, found.key, id)
    yield from moves.restart(moment, found)


def delete(id: str, event_count: int | None = None) -> Op[None]:
    yield Statement("lock_key", {"id": id})
    yield from moves.delete((yield from lock(id, event_count)))


def _callback(found: Found) -> Hidden | None:
    return None if found.callback is None else NOTHING_HIDDEN


def _take_key_back(moment: Moment, found: Found, key: str, id: str) -> Op[None]:
    """A retried job needs its key again; if another job has it by now, there would be two."""
    # A later holder may be deleted, and with it the key's scope: `active` is what is sure.
    ours = {"now": moment.now, "scope": "active", "until": None, "failed": "free", "lane": found.lane}
    if (yield Statement("take_keys", {**ours, "keys": json_of([(key, found.seq, id)])}))[0][0] is None:
        return
    rows = yield Statement("key_holders", {"keys": json_of([key])})
    if not rows or rows[0][1] == found.seq:
        return
    holder = Holder(*rows[0][1:])
    if holds(holder, moment.now):
        raise Conflict(f"job {id} cannot be retried: its key {key} is held by job {holder.id}; cancel or delete that one first")
    yield Statement("move_key", {"key": key, "seq": found.seq, "id": id, "lane": found.lane})
