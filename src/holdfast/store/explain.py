"""What is known about a job that waits: its queue, what runs there, what comes before it, and which workers take it."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.domain.explain import AHEAD_MAX, HOLDERS_MAX, Explanation, Facts, Holder, Pauser
from holdfast.domain.explain import explain as decide
from holdfast.domain.flow import Flow
from holdfast.domain.job import Decoders, Job
from holdfast.domain.states import State
from holdfast.store import browse, flow
from holdfast.store.health import standing
from holdfast.store.op import Moment, Op, Statement

_decode: Final = msgspec.json.Decoder(dict[str, object]).decode


def explain(moment: Moment, id: str, decoders: Decoders) -> Op[Explanation]:
    seq, job = yield from browse.numbered(id, decoders)
    if job.state is not State.READY:
        return decide(job, Facts(moment.now, None, 0, [], 0, 0, None))
    return decide(job, (yield from _facts(moment, seq, job)))


def _facts(moment: Moment, seq: int, job: Job) -> Op[Facts]:
    queue = job.queue
    found = yield from standing(moment)
    serving = [worker for worker in found.workers if worker.serves(queue)]
    place = {"queue": queue, "priority": job.priority, "seq": seq, "limit": AHEAD_MAX + 1}
    ((ahead,),) = yield Statement("jobs_ahead", place)
    holders = yield Statement("jobs_running", {"queue": queue, "limit": HOLDERS_MAX})
    return Facts(
        now=moment.now,
        flow=(yield from _flow(moment, queue)),
        ahead=ahead,
        holders=[Holder(id, worker, max(0.0, (moment.now - since) / 1e6)) for id, worker, since in holders],
        serving=len(serving),
        free=sum(max(0, worker.slots - worker.running) for worker in serving),
        pauser=(yield from _pauser(queue)),
    )


def _flow(moment: Moment, queue: str) -> Op[Flow | None]:
    """As the next claim would see it, without a lock."""
    rows = [row for row in (yield Statement("queue_settings")) if row[0] == queue]
    return (yield from flow.peek(moment, rows))[queue] if rows else None


def _pauser(queue: str) -> Op[Pauser | None]:
    rows = yield Statement("queue_changes", {"queue": queue, "limit": 100})
    for at, actor, action, detail in rows:
        if action == "paused":
            return Pauser(actor, at, str(_decode(detail).get("reason", "")))
    return None
