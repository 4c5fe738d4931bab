"""Taking jobs: the most urgent first (lower priority number, then oldest), each to one holder.

The attempt is counted and the token grows here, in the transaction of the claim, so that a job that kills its worker is
counted too.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec

from holdfast.domain.bounds import CLAIMED_SLICE_MAX
from holdfast.domain.job import Claimed
from holdfast.errors import LeaseLost
from holdfast.store.op import Moment, Op, Statement

_decode_pairs = msgspec.json.Decoder(list[tuple[int, int]]).decode
_decode_claimed = msgspec.json.Decoder(list[Claimed]).decode


class Holder(msgspec.Struct, frozen=True):
    """Who claims: a registered worker, how long its leases last, and in which lanes they last otherwise."""

    worker: int
    name: str
    lease: int
    leases: dict[int, int] = {}


def register(moment: Moment, name: str, host: str, pid: int, lease_min: int, by_hand: bool) -> Op[int]:
    worker: int = (yield Statement("next_worker"))[0][0]
    facts = {"id": worker, "name": name, "host": host, "pid": pid, "by_hand": int(by_hand), "lease_min": lease_min}
    yield Statement("add_worker", {**facts, "now": moment.now, "tick": moment.tick, "boot": moment.boot})
    return worker


def lanes(queues: Sequence[str] | None, tasks: Sequence[str] | None) -> Op[list[int]]:
    chosen = {"queues": _list(queues), "tasks": _list(tasks)}
    return [lane for (lane,) in (yield Statement("lanes", chosen))]


def ready_lanes(queues: Sequence[str] | None, tasks: Sequence[str] | None) -> Op[list[int]]:
    """Those of the chosen lanes in which something is ready, however many there are in all."""
    chosen = {"queues": _list(queues), "tasks": _list(tasks)}
    return [lane for (lane,) in (yield Statement("ready_lanes", chosen))]


def claim(moment: Moment, holder: Holder, lanes: Sequence[int], limit: int) -> Op[list[Claimed]]:
    chosen = yield from _take(lanes, limit)
    if not chosen:
        return []
    seqs = msgspec.json.encode(chosen).decode()
    yield Statement("start_jobs", {"now": moment.now, "seqs": seqs})
    leases = msgspec.json.encode(holder.leases).decode() if holder.leases else None
    yield Statement("lease_jobs", {"worker": holder.worker, "lease": holder.lease, "leases": leases, "seqs": seqs})
    told = f'{{"worker":{msgspec.json.encode(holder.name).decode()},"attempt":'
    yield Statement("record_started", {"now": moment.now, "told": told, "seqs": seqs})
    claimed: list[Claimed] = []
    for start in range(0, len(chosen), CLAIMED_SLICE_MAX):
        # Arguments can be large, and a value of SQLite's has a bound: some at a time.
        part = chosen[start : start + CLAIMED_SLICE_MAX]
        rows = yield Statement("claimed", {"seqs": msgspec.json.encode(part).decode()})
        claimed += _decode_claimed(rows[0][0])
    return claimed


def _take(lanes: Sequence[int], limit: int) -> Op[list[int]]:
    """The first `limit` by (priority, seq) over all lanes; every lane gives a prefix of its own order."""
    offers: list[list[tuple[int, int, int]]] = []
    for lane in lanes:
        rows = yield Statement("ready_in_lane", {"lane": lane, "limit": limit})
        offers.append([(priority, seq, lane) for priority, seq in _decode_pairs(rows[0][0])])
    chosen = offers[0] if len(offers) == 1 else list(heapq.merge(*offers))[:limit]
    last = {lane: (priority, seq) for priority, seq, lane in chosen}
    for lane, (priority, seq) in last.items():
        yield Statement("take_ready", {"lane": lane, "priority": priority, "seq": seq})
    return [seq for _, seq, _ in chosen]


def renew(moment: Moment, worker: int, seq: int, token: int) -> Op[None]:
    """A lease that was claimed by hand: its holder is a worker of its own, so this is that worker's beat."""
    held = yield Statement("held", {"leases": f'{{"{seq}":{token}}}'})
    if held[0][0] == "[]":
        raise LeaseLost(f"token {token} is not the current one: the job was taken, cancelled or ended meanwhile")
    yield from beat(moment, worker)


def beat(moment: Moment, worker: int) -> Op[bool]:
    """Renews every lease of a worker in one row; False: the worker was given up for dead and its row is gone."""
    beaten = yield Statement("beat", {"now": moment.now, "tick": moment.tick, "boot": moment.boot, "worker": worker})
    return bool(beaten)


def notices(worker: int) -> Op[list[tuple[int, int, str]]]:
    """Jobs that were taken from this worker: (seq, token, what became of them)."""
    found = yield Statement("notices", {"worker": worker})
    if found:
        yield Statement("clear_notices", {"worker": worker})
    return [(seq, token, kind) for seq, token, kind in found]


def _list(names: Sequence[str] | None) -> str | None:
    return None if names is None else msgspec.json.encode(list(names)).decode()


def leave(worker: int) -> Op[None]:
    yield Statement("clear_notices", {"worker": worker})
    yield Statement("remove_worker", {"worker": worker})
