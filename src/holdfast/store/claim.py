"""Taking jobs: the most urgent first (lower priority number, then oldest), each to one holder.

A claim is given lanes that have something ready. Every lane offers a prefix of its own order; the prefixes are merged by urgency,
and what is chosen is again a prefix of each lane. A queue with limits decides job by job (`store/flow`). The attempt is counted
and the token grows in the transaction of the claim, so that a job that kills its worker is counted too. The lock order that a
claim is part of is listed in ARCHITECTURE.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from holdfast.domain.bounds import INTEGER_MAX
from holdfast.domain.job import Claimed
from holdfast.errors import HoldfastError
from holdfast.store import flow
from holdfast.store.flow import NO_FLOWS, Flows
from holdfast.store.op import Moment, Op, Statement, json_of

REWIND_TICKS: Final = 1_000_000
"""How long a cursor is followed before a claim begins at the start of its lanes again: what came since, and is more urgent, waits
for that."""

Place = tuple[int, int]
"""A priority and a seq: where a job is in the order of its lane."""
_START: Final[Place] = (-(2**31), 0)
_END: Final[Place] = (2**31 - 1, INTEGER_MAX)

Offer = tuple[int, int, int, str | None]
"""A job that this transaction may take: priority, seq, lane; and where its row is, if the database needs that."""

_decode_offers = msgspec.json.Decoder(list[tuple[int, int, str | None]]).decode


class WorkerGone(HoldfastError):
    """The worker was given up for dead by others, or the database was restored: it can hold nothing."""


class Lane(NamedTuple):
    number: int
    queue: str
    task: str
    limited: int = 0
    """1: its queue has limits, which decide what may start."""


class Cursor(msgspec.Struct, frozen=True):
    """How far a worker has claimed in its lanes: its next claim begins there.

    PostgreSQL keeps deleted rows as long as any transaction might see them: a claim that always began at the start would visit
    all of them. SQLite keeps none, and its workers have no cursor.
    """

    places: dict[int, Place] = {}
    """By lane, behind which place the next claim looks; none: it looks from the start."""
    rewound_tick: int = 0
    """When a claim last looked from the start."""

    @property
    def text(self) -> str | None:
        return json_of([(lane, *place) for lane, place in self.places.items()]) if self.places else None

    def moved(self, tick: int, places: dict[int, Place], enough: bool) -> Cursor:
        """After a claim that ended at these places. One that did not find enough, or is an old one, begins at the start again."""
        rewound_tick = self.rewound_tick if self.places else tick
        kept = enough and tick - rewound_tick < REWIND_TICKS
        return Cursor(self.places | places if kept else {}, rewound_tick)


class Holder(msgspec.Struct, frozen=True):
    """The claiming worker, which is registered, and how long its leases last, in microseconds."""

    worker: int
    name: str
    lease: int
    leases: dict[str, int] = {}
    """Of tasks whose leases last otherwise."""
    since: int = 0
    """Its last beat: if the row has an earlier one, the database was restored, and numbers of jobs may be those of others."""


class Claim(NamedTuple):
    """What a claim took, in order of urgency."""

    jobs: list[Claimed]
    lanes: dict[int, Lane]
    """The lanes of these jobs, by number."""
    cursor: Cursor
    """Where the next claim begins, if this one is committed."""
    partial: bool
    """It took less than the limit, but did not look everywhere: there may be more."""
    busy: bool = False
    """Another transaction has locked a queue with limits: nothing of it could be taken."""


NOTHING: Final = Claim([], {}, Cursor(), partial=False)


def ready_lanes(
    moment: Moment, queues: Sequence[str] | None, tasks: Sequence[str] | None, cursor: Cursor | None = None
) -> Op[list[Lane]]:
    """Those of the chosen lanes in which something is ready, however many lanes there are; none of a closed queue."""
    chosen = {"queues": names_of(queues), "tasks": names_of(tasks), "cursor": None if cursor is None else cursor.text}
    return [Lane(*row) for row in (yield Statement("ready_lanes", {**chosen, "now": moment.now}))]


def claim(
    moment: Moment, holder: Holder, lanes: Sequence[Lane], limit: int, cursor: Cursor | None = None, slots: int | None = None
) -> Op[Claim]:
    """At most `limit` jobs of these lanes.

    slots  At most so many of them from queues with limits: a job that waits for a slot of its worker would hold a place that
           others could use.
    """
    before = cursor or Cursor()
    limited = [lane for lane in lanes if lane.limited]
    flows = (yield from flow.lock(moment, (lane.queue for lane in limited))) if limited else NO_FLOWS
    offers, places = yield from _offers(lanes, limit, before, flows, limit if slots is None else min(slots, limit))
    if limited:
        yield from flows.keep(moment)
    after = before.moved(moment.tick, places, enough=len(offers) == limit)
    partial = bool(before.places) and len(offers) < limit
    if not offers:
        return Claim([], {}, after, partial, flows.busy)
    jobs = yield from _take(moment, holder, lanes, offers)
    return Claim(jobs, {lane.number: lane for lane in lanes}, after, partial, flows.busy)


def _take(moment: Moment, holder: Holder, lanes: Sequence[Lane], offers: list[Offer]) -> Op[list[Claimed]]:
    """The jobs that were offered, in that order; the attempt of each is counted."""
    leases = {lane.number: holder.leases[lane.task] for lane in lanes if lane.task in holder.leases}
    limited = [lane.number for lane in lanes if lane.limited]
    fields = {
        "offers": json_of(offers),
        "now": moment.now,
        "worker": holder.worker,
        "since": holder.since,
        "lease": holder.lease,
        "leases": json_of(leases) if leases else None,
        "limited": json_of(limited) if limited else None,
        "event_prefix": f'{{"worker":{json_of(holder.name)},"attempt":',
    }
    rows = yield Statement("claim_jobs", fields)
    if not rows:
        raise WorkerGone(f"worker {holder.name} was given up for dead by the others")
    taken = {row[0]: Claimed._make(row) for row in rows}
    return [taken[seq] for _, seq, _, _ in offers]


def _offers(
    lanes: Sequence[Lane], limit: int, cursor: Cursor, flows: Flows, slots: int
) -> Op[tuple[list[Offer], dict[int, Place]]]:
    """The first `limit` by (priority, seq) over all lanes, and the place in each lane behind which nothing was chosen."""
    sure: list[Offer] = []
    asked: list[list[Offer]] = []
    queues = {lane.number: lane.queue for lane in lanes if lane.limited}
    places: dict[int, Place] = {}
    for lane in sorted(lanes, key=lambda lane: lane.limited):
        after = cursor.places.get(lane.number, _START)
        # A job behind the last of those that are enough could not be chosen: it is not asked for, nor locked.
        last = sure[-1][:2] if len(sure) == limit else _END
        most = slots if lane.limited else limit
        found = (yield from _prefix(lane, most, after, last)) if most else []
        places[lane.number] = (found[0][0], found[0][1] - 1) if found else after
        if lane.limited:
            asked.append(found)
        else:
            sure = list(heapq.merge(sure, found))[:limit] if sure else found
    chosen = _allowed(heapq.merge(sure, *asked), limit, queues, flows, slots) if asked else sure
    places |= {lane: (priority, seq) for priority, seq, lane, _ in chosen}
    return chosen, places


def _allowed(offers: Iterable[Offer], limit: int, queues: Mapping[int, str], flows: Flows, slots: int) -> list[Offer]:
    """Those that their queues let start, most urgent first. A queue that refuses one job refuses all that come behind it."""
    chosen: list[Offer] = []
    closed: set[str] = set()
    for offer in offers:
        queue = queues.get(offer[2])
        if queue is not None:
            flow = flows.of(queue)
            if slots == 0 or queue in closed or flow is None or not flow.take(offer[1]):
                closed.add(queue)
                continue
            slots -= 1
        chosen.append(offer)
        if len(chosen) == limit:
            break
    return chosen


def _prefix(lane: Lane, limit: int, after: Place, last: Place) -> Op[list[Offer]]:
    span = {"after_priority": after[0], "after_seq": after[1], "last_priority": last[0], "last_seq": last[1]}
    rows = yield Statement("ready_in_lane", {"lane": lane.number, "limit": limit, **span})
    return [(priority, seq, lane.number, place) for priority, seq, place in _decode_offers(rows[0][0])]


def lanes(queues: Sequence[str] | None, tasks: Sequence[str] | None) -> Op[list[int]]:
    chosen = {"queues": names_of(queues), "tasks": names_of(tasks)}
    return [lane for (lane,) in (yield Statement("lanes", chosen))]


def names_of(names: Sequence[str] | None) -> str | None:
    return None if names is None else json_of(list(names))
