"""Taking jobs: the most urgent first (lower priority number, then oldest), each to one holder.

The attempt is counted and the token grows here, in the transaction of the claim, so that a job that kills its worker is
counted too.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.domain.bounds import CLAIMED_SLICE_MAX, INTEGER_MAX
from holdfast.domain.job import Claimed, Rest
from holdfast.errors import LeaseLost
from holdfast.store.op import Moment, Op, Row, Statement

REWIND_TICKS: Final = 1_000_000
_START: Final = (-(2**31), 0)
_END: Final = (2**31 - 1, INTEGER_MAX)

_decode_offered = msgspec.json.Decoder(list[tuple[int, int, str | None]]).decode
_decode_claimed = msgspec.json.Decoder(list[Claimed]).decode
_decode_rest = msgspec.json.Decoder(Rest).decode

Offered = tuple[int, int, int, str | None]
"""A job that nobody else can take now: priority, seq, lane; and where its row is, if that is known."""


class Cursor:
    """A worker's place in its lanes: it claims on from there, and looks from the start once a second, or when that is not enough.

    PostgreSQL keeps deleted rows as long as any transaction might see them: a claim that always began at the start would walk
    over all of them. SQLite needs no such memory, and does not look at it.
    """

    def __init__(self) -> None:
        self.places: dict[int, tuple[int, int]] = {}
        """The (priority, seq) last claimed, by lane; none: the next look is from the start."""
        self.partial = False
        """The last claim got less than it asked for, but did not look everywhere: ask again."""
        self._looked_tick = 0

    @property
    def text(self) -> str | None:
        return msgspec.json.encode([(lane, *place) for lane, place in self.places.items()]).decode() if self.places else None

    def move(self, tick: int, places: dict[int, tuple[int, int]], enough: bool) -> None:
        """After a claim, which left off at these places."""
        self.partial = bool(self.places) and not enough
        if not self.places:
            self._looked_tick = tick
        self.places = self.places | places if enough and tick - self._looked_tick < REWIND_TICKS else {}


class Holder(msgspec.Struct, frozen=True):
    """Who claims: a registered worker, how long its leases last, and where it stands."""

    worker: int
    name: str
    lease: int
    leases: dict[int, int] | dict[str, int] = {}
    """Leases that last otherwise: by lane, or by task where the lanes are not known yet."""
    cursor: Cursor | None = None


def register(
    moment: Moment,
    name: str,
    host: str,
    pid: int,
    lease_min: int,
    by_hand: bool,
    *,
    slots: int = 1,
    queues: Sequence[str] | None = None,
) -> Op[int]:
    worker: int = (yield Statement("next_worker"))[0][0]
    facts = {"id": worker, "name": name, "host": host, "pid": pid, "by_hand": int(by_hand), "lease_min": lease_min}
    serves = {"slots": slots, "queues": _list(queues)}
    yield Statement("add_worker", {**facts, **serves, "now": moment.now, "tick": moment.tick, "boot": moment.boot})
    return worker


def lanes(queues: Sequence[str] | None, tasks: Sequence[str] | None) -> Op[list[int]]:
    chosen = {"queues": _list(queues), "tasks": _list(tasks)}
    return [lane for (lane,) in (yield Statement("lanes", chosen))]


def ready_lanes(queues: Sequence[str] | None, tasks: Sequence[str] | None, cursor: Cursor | None = None) -> Op[list[int]]:
    """Those of the chosen lanes in which something is ready, however many there are in all."""
    chosen = {"queues": _list(queues), "tasks": _list(tasks), "places": None if cursor is None else cursor.text}
    return [lane for (lane,) in (yield Statement("ready_lanes", chosen))]


class Idle(NamedTuple):
    """What there is to do for a worker that has nothing to do."""

    ready: bool
    to_tend: bool
    """Something is due, expired, too old, or left for this worker to read."""
    next_due: int | None


def idle(
    moment: Moment,
    worker: int,
    queues: Sequence[str] | None,
    tasks: Sequence[str] | None,
    cursor: Cursor,
    looking: bool,
    horizon: int,
) -> Op[Idle]:
    fields = {
        "looking": int(looking),
        "queues": _list(queues),
        "tasks": _list(tasks),
        "places": cursor.text,
        "now": moment.now,
        "tick": moment.tick,
        "boot": moment.boot,
        "worker": worker,
        "horizon": horizon,
    }
    ready, to_tend, next_due = (yield Statement("idle", fields))[0]
    return Idle(bool(ready), bool(to_tend), next_due)


def pick_up(
    moment: Moment, holder: Holder, beat_tick: int, queues: Sequence[str] | None, tasks: Sequence[str], limit: int
) -> Op[tuple[list[Claimed], Idle]]:
    """What an idle worker finds and takes in one statement, where every statement has far to go; and what is left to do.

    beat_tick  Its last beat: who knows of another takes nothing.
    """
    fields = {
        "queues": _list(queues),
        "tasks": _list(tasks),
        "limit": limit,
        "now": moment.now,
        "tick": moment.tick,
        "boot": moment.boot,
        "beat_tick": beat_tick,
        **_said(holder),
    }
    rows, lanes, offered, notice, next_due = (yield Statement("pick_up", fields))[0]
    claimed = sorted(_decode_claimed(rows), key=attrgetter("priority", "seq"))
    if claimed and holder.cursor is not None:
        last = claimed[-1]
        holder.cursor.move(moment.tick, {last.lane: (last.priority, last.seq)}, enough=len(claimed) == limit)
    to_tend = notice or (next_due is not None and next_due <= moment.now)
    return claimed, Idle(lanes > 1 or offered > len(claimed), to_tend, next_due)


def claim(moment: Moment, holder: Holder, lanes: Sequence[int], limit: int) -> Op[list[Claimed]]:
    return (yield from take(moment, holder, (yield from offered(moment, holder.cursor or Cursor(), lanes, limit))))


def take(moment: Moment, holder: Holder, offered: list[Offered]) -> Op[list[Claimed]]:
    if not offered:
        return []
    said = {"now": moment.now, **_said(holder)}
    rows = yield Statement("claim_jobs", {"places": _json([place for _, _, _, place in offered]), **said})
    claimed = [_as_claimed(row) for row in rows] if rows else (yield from _claim_step_by_step(offered, said))
    return _in_order(claimed, [seq for _, seq, _, _ in offered])


def _claim_step_by_step(offered: list[Offered], said: dict[str, Any]) -> Op[list[Claimed]]:
    """Where `claim_jobs` is nothing: there a statement costs next to nothing."""
    last = {lane: (priority, seq) for priority, seq, lane, _ in offered}
    for lane, (priority, seq) in last.items():
        yield Statement("take_ready", {"lane": lane, "priority": priority, "seq": seq})
    seqs = [seq for _, seq, _, _ in offered]
    for verb in ("start_jobs", "lease_jobs", "record_started"):
        yield Statement(verb, {"seqs": _json(seqs), **said})
    claimed: list[Claimed] = []
    for start in range(0, len(seqs), CLAIMED_SLICE_MAX):
        # Arguments can be large, and a value of SQLite's has a bound: some at a time.
        rows = yield Statement("claimed", {"seqs": _json(seqs[start : start + CLAIMED_SLICE_MAX])})
        claimed += _decode_claimed(rows[0][0])
    return claimed


def _as_claimed(row: Row) -> Claimed:
    return Claimed(*(row if row[-1] is None else (*row[:-1], _decode_rest(row[-1]))))


def _said(holder: Holder) -> dict[str, Any]:
    return {
        "worker": holder.worker,
        "lease": holder.lease,
        "leases": msgspec.json.encode(holder.leases).decode() if holder.leases else None,
        "told": f'{{"worker":{msgspec.json.encode(holder.name).decode()},"attempt":',
    }


def _in_order(claimed: list[Claimed], seqs: list[int]) -> list[Claimed]:
    if [each.seq for each in claimed] == seqs:
        return claimed
    by_seq = {each.seq: each for each in claimed}
    return [by_seq[seq] for seq in seqs]


def offered(moment: Moment, cursor: Cursor, lanes: Sequence[int], limit: int) -> Op[list[Offered]]:
    """The first `limit` by (priority, seq) over all lanes; every lane gives a prefix of its own order."""
    chosen: list[Offered] = []
    places: dict[int, tuple[int, int]] = {}
    for lane in lanes:
        after = cursor.places.get(lane, _START)
        # What comes after the last of those that are enough is not asked for: it would be locked for nothing.
        last = chosen[-1][:2] if len(chosen) == limit else _END
        span = {"after_priority": after[0], "after_seq": after[1], "last_priority": last[0], "last_seq": last[1]}
        rows = yield Statement("ready_in_lane", {"lane": lane, "limit": limit, **span})
        found = [(priority, seq, lane, place) for priority, seq, place in _decode_offered(rows[0][0])]
        places[lane] = (found[0][0], found[0][1] - 1) if found else after
        chosen = list(heapq.merge(chosen, found))[:limit] if chosen else found
    places |= {lane: (priority, seq) for priority, seq, lane, _ in chosen}
    cursor.move(moment.tick, places, enough=len(chosen) == limit)
    return chosen


def renew(moment: Moment, worker: int, seq: int, token: int) -> Op[None]:
    """A lease that was claimed by hand: its holder is a worker of its own, so this is that worker's beat."""
    held = yield Statement("held", {"leases": f'{{"{seq}":{token}}}'})
    if held[0][0] == "[]":
        raise LeaseLost(f"token {token} is not the current one: the job was taken, cancelled or ended meanwhile")
    yield from beat(moment, worker)


def beat(moment: Moment, worker: int, last: int | None = None) -> Op[bool]:
    """Renews every lease of a worker in one row; False: the worker was given up for dead and its row is gone.

    last  Its last beat, where this one is a transaction by itself: one that its client gave up and that comes true after the next
          would turn the clock back. False may mean just that.
    """
    facts = {"now": moment.now, "tick": moment.tick, "boot": moment.boot, "worker": worker, "last": last}
    return bool((yield Statement("beat", facts)))


def notices(worker: int) -> Op[list[tuple[int, int, str]]]:
    """Jobs that were taken from this worker: (seq, token, what became of them)."""
    found = yield Statement("notices", {"worker": worker})
    return [(seq, token, kind) for seq, token, kind in found]


def _list(names: Sequence[str] | None) -> str | None:
    return None if names is None else _json(list(names))


def _json(values: list[Any]) -> str:
    return msgspec.json.encode(values).decode()


def leave(worker: int) -> Op[None]:
    yield Statement("clear_notices", {"worker": worker})
    yield Statement("remove_worker", {"worker": worker})


def held_by(worker: int) -> Op[list[tuple[int, int, int, int, int]]]:
    """All that a worker holds: seq, token, lane, attempt, attempts_max."""
    rows = yield Statement("claims_of", {"worker": worker})
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]
