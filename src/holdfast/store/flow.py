"""Limits of queues, in the claim's transaction: what may start is decided under the queue's row lock, by `domain/flow`.

A run that ends only leaves a mark (a trigger does), and locks no queue: the next claim looks at all marks before it decides. So
whatever a claim sees has been committed, and nothing starts in between. A queue without limits has no row and costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.domain.flow import End, Flow, Memory, Pause
from holdfast.domain.limits import limits_of
from holdfast.store.op import Moment, Op, Row, Statement, json_of

SETTLING_MICROS: Final = 60 * 1_000_000
"""For so long after a change, claims look for runs that began in transactions which had not seen it yet."""

_decode_memory = msgspec.json.Decoder(Memory).decode


class _Stops(msgspec.Struct):
    stops_seconds: float = 0.0


_decode_stops = msgspec.json.Decoder(_Stops).decode


class Flows:
    """The limited queues that one claim may take from, by name; `busy`: others have locked some more."""

    def __init__(self, flows: Mapping[str, Flow], marks: list[int], busy: bool) -> None:
        self._flows, self._marks, self.busy = flows, marks, busy

    def of(self, queue: str) -> Flow | None:
        return self._flows.get(queue)

    def keep(self, moment: Moment) -> Op[None]:
        """What they remember now, and that the marks have been looked at."""
        rows = [(name, json_of(flow.memory), flow.closed_until) for name, flow in self._flows.items()]
        if rows:
            yield Statement("keep_queues", {"queues": json_of(rows), "now": moment.now})
        if self._marks:
            yield Statement("drop_marks", {"ids": json_of(self._marks)})


NO_FLOWS: Final = Flows({}, [], busy=False)


def lock(moment: Moment, queues: Iterable[str]) -> Op[Flows]:
    """These queues, as they are now, locked for the rest of the transaction."""
    names = sorted(set(queues))
    rows = yield Statement("lock_queues", {"queues": json_of(names)})
    if not rows:
        return Flows({}, [], busy=bool(names))
    for name, *_, changed_at in rows:
        if moment.now - changed_at < SETTLING_MICROS:
            yield Statement("flag_running", {"queue": name})
    found = yield _runs(rows)
    flows = _flows(moment, rows, found, _running(found))
    return Flows(flows, [row[0] for row in found if row[0] is not None], busy=len(rows) < len(names))


def look(moment: Moment, rows: Sequence[Row], running: Mapping[str, int]) -> Op[dict[str, Flow]]:
    """Queues by rows of `queue_settings`, as a claim would find them now; nothing is locked or kept."""
    return _flows(moment, rows, (yield _runs(rows)), running)


def peek(moment: Moment, rows: Sequence[Row]) -> Op[dict[str, Flow]]:
    """As `look`; what runs is counted as the claim counts it."""
    found = yield _runs(rows)
    return _flows(moment, rows, found, _running(found))


def _running(found: Sequence[Row]) -> dict[str, int]:
    return {queue: count for id, queue, count, *_ in found if id is None}


def _runs(rows: Sequence[Row]) -> Statement:
    return Statement("queue_runs", {"queues": json_of([row[0] for row in rows])})


def _flows(moment: Moment, rows: Sequence[Row], found: Sequence[Row], running: Mapping[str, int]) -> dict[str, Flow]:
    flows = {row[0]: flow_of(moment.now, row, running.get(row[0], 0)) for row in rows}
    for name, flow in flows.items():
        flow.end(_end(row, moment.now) for row in found if row[0] is not None and row[1] == name)
    return flows


def stop_queue(moment: Moment, lane: int, seq: int) -> Op[None]:
    """A run that ends in this transaction stops its queue, limited or not. The next claim reads for how long from its event."""
    yield Statement("add_queue_of", {"now": moment.now, "lane": lane})
    yield Statement("stop_lanes", {"lane": lane})
    yield Statement("stop_run", {"seq": seq})


def flow_of(now: int, row: Row, running: int) -> Flow:
    """A row of `lock_queues` or of `queue_settings`."""
    _, declared, live, memory, paused_until, _ = row
    pause = Pause(paused_until) if paused_until > now else None
    return Flow(limits_of(declared, live), Memory() if memory is None else _decode_memory(memory), now, running, pause)


def _end(row: Row, now: int) -> End:
    _, _, seq, kind, at, data = row
    if kind is None:  # the job is gone: all that is known is that a run of it has ended
        return End(seq, "", now)
    return End(seq, kind, at, 0 if data is None else int(_decode_stops(data).stops_seconds * 1e6))
