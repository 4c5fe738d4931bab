"""How a queue is set: declared in code, changed live by a person, paused and resumed. Every change is in a log that is kept.

A live change holds until the declaration in code changes, or it is reset. A pause is a fact of its own: it ends when it is
resumed or its time is over, whatever else changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.domain.job import moment_of
from holdfast.domain.limits import NEVER, Limits, limits_of, options_of
from holdfast.errors import Changed
from holdfast.store.op import Moment, Op, Statement, json_of

CHANGES_MAX: Final = 100
CODE: Final = "code"
"""The actor of what was declared."""
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class Settings(NamedTuple):
    """A queue's row: the columns of `lock_queue`."""

    declared: str | None = None
    live: str | None = None
    memory: str | None = None
    paused_until: int = 0
    changed_at: int = 0

    @property
    def limits(self) -> Limits:
        return limits_of(self.declared, self.live)


class QueueChange(msgspec.Struct, frozen=True):
    """One entry of a queue's log."""

    at: datetime
    actor: str
    action: str
    """declared, changed, reset, paused or resumed."""
    detail: dict[str, Any]


def declare(moment: Moment, queue: str, fields: Mapping[str, Any], actor: str) -> Op[None]:
    """What the code says. If that is new, it replaces what was changed live."""
    declared = json_of(fields)
    known = yield Statement("queue_limits", {"queue": queue})
    if known and known[0][0] == declared:
        return  # without a lock, which a claim in a caller's transaction may hold for long
    before = yield from _lock(moment, queue)
    if before.declared != declared:
        yield from _write(moment, queue, before._replace(declared=declared, live=None))
        yield from _log(moment, queue, actor, "declared", fields)


def declare_all(moment: Moment, declared: Mapping[str, Mapping[str, Any]]) -> Op[None]:
    for queue in sorted(declared):
        yield from declare(moment, queue, declared[queue], CODE)


def change(moment: Moment, queue: str, fields: Mapping[str, Any], actor: str, change_count: int | None = None) -> Op[None]:
    """What a person says, over what the code says; with `change_count`, only if the log has so many entries."""
    before = yield from _lock(moment, queue)
    if change_count is not None:
        yield from _check_count(queue, change_count)
    live = json_of({**(_decode(before.live) if before.live else {}), **fields})
    yield from _write(moment, queue, before._replace(live=live))
    yield from _log(moment, queue, actor, "changed", fields)


def reset(moment: Moment, queue: str, actor: str) -> Op[None]:
    """Back to what the code says."""
    before = yield from _lock(moment, queue)
    if before.live is not None:
        yield from _write(moment, queue, before._replace(live=None))
        yield from _log(moment, queue, actor, "reset", {})


def pause(moment: Moment, queue: str, micros: int | None, actor: str, reason: str) -> Op[None]:
    """Nothing of the queue starts, for so long or until it is resumed. What runs goes on."""
    before = yield from _lock(moment, queue)
    until = NEVER if micros is None else moment.now + micros
    yield from _write(moment, queue, before._replace(paused_until=until))
    detail = {"seconds": None if micros is None else micros / 1e6, **({"reason": reason} if reason else {})}
    yield from _log(moment, queue, actor, "paused", detail)


def resume(moment: Moment, queue: str, actor: str) -> Op[bool]:
    """False: it was not paused."""
    before = yield from _lock(moment, queue)
    declared = before.limits.paused
    if before.paused_until <= moment.now and not declared:
        return False
    live = json_of({**(_decode(before.live) if before.live else {}), "paused": False}) if declared else before.live
    yield from _write(moment, queue, before._replace(paused_until=0, live=live))
    yield from _log(moment, queue, actor, "resumed", {})
    return True


def changes(queue: str, limit: int = CHANGES_MAX) -> Op[list[QueueChange]]:
    """The newest first."""
    rows = yield Statement("queue_changes", {"queue": queue, "limit": limit})
    return [QueueChange(moment_of(at), actor, action, options_of(detail) or {}) for at, actor, action, detail in rows]


def _lock(moment: Moment, queue: str) -> Op[Settings]:
    yield Statement("add_queue", {"queue": queue, "now": moment.now})
    return Settings(*(yield Statement("lock_queue", {"queue": queue}))[0])


def _check_count(queue: str, expected: int) -> Op[None]:
    revisions = dict((yield Statement("queue_revisions")))
    if revisions[queue] != expected:
        raise Changed(f"queue {queue} has {revisions[queue]} changes, not {expected}: it was changed meanwhile; look at it again")


def _write(moment: Moment, queue: str, after: Settings) -> Op[None]:
    limits = after.limits
    # A queue that a task has stopped, or that is paused, has to be looked at even if it has no limits.
    limited = limits.governs_claims or after.paused_until > moment.now or after.memory is not None
    flags = {"queue": queue, "limited": int(limited), "bounded": int(limits.is_bounded)}
    fields = {"declared": after.declared, "live": after.live, "paused_until": after.paused_until, "now": moment.now}
    yield Statement("change_queue", {**flags, **fields})
    yield Statement("flag_lanes", flags)
    if limited:
        yield Statement("flag_running", {"queue": queue})


def _log(moment: Moment, queue: str, actor: str, action: str, detail: Mapping[str, Any]) -> Op[None]:
    fields = {"queue": queue, "now": moment.now, "actor": actor, "action": action, "detail": json_of(detail)}
    yield Statement("add_queue_change", fields)
