"""Callbacks, seen from the job that they tell of: how delivery went, and once more."""

from __future__ import annotations

from holdfast.client.part import ClientPart, id_of
from holdfast.domain.bounds import PAGE_MAX
from holdfast.domain.callback import CALLBACK_QUEUE
from holdfast.domain.delivery import Delivery, delivery_of
from holdfast.domain.event import Event
from holdfast.domain.job import Job
from holdfast.domain.states import FINAL, State
from holdfast.errors import IllegalMove
from holdfast.store import browse, control, moves
from holdfast.store.callbacks import announce_again
from holdfast.store.op import Moment, Op, Operation


class Callbacks(ClientPart):
    def deliveries(self, id: str | Job) -> list[Delivery]:
        """Every message about this job's end, the newest first, with every try of it."""
        return self._database.read(self._deliveries(id))

    async def adeliveries(self, id: str | Job) -> list[Delivery]:
        """The async twin of `deliveries`."""
        return await self._database.aread(self._deliveries(id))

    def _deliveries(self, job: str | Job) -> Operation[list[Delivery]]:
        wanted = id_of(job)

        def make(_: Moment) -> Op[list[Delivery]]:
            found = yield from self._delivering(wanted, PAGE_MAX)
            if not found:  # else it does not matter that the job itself may be gone
                yield from browse.demand(wanted, self._registry.decoders)
            logs = {}
            for job in found:
                logs[job.id] = yield from _log(job.id)
            return [delivery_of(job, logs[job.id]) for job in found]

        return make

    def redeliver(self, id: str | Job) -> Job:
        """Tell of this job's end again, now, under the same message id; the job that does it comes back.

        One that waits for its next try is replaced. One that is trying at this moment is what comes back.
        """
        return self._database.write(self._redeliver(id))

    async def aredeliver(self, id: str | Job) -> Job:
        """The async twin of `redeliver`."""
        return await self._database.awrite(self._redeliver(id))

    def _redeliver(self, job: str | Job) -> Operation[Job]:
        wanted = id_of(job)

        def make(moment: Moment) -> Op[Job]:
            seen = yield from moves.lock(wanted)
            if seen.callback is None:
                raise IllegalMove(f"job {wanted} has no callback; give one when it is enqueued: task.using(callback=...)")
            if seen.state not in FINAL:
                raise IllegalMove(f"job {wanted} is {seen.state}: its callback is told when it has ended")
            for last in (yield from self._delivering(wanted, 1)):
                if last.state is State.RUNNING:
                    return last
                yield from control.cancel_if_open(moment, last.id, "replaced: it was to be delivered again, at once")
            ended = yield from browse.demand(wanted, self._registry.decoders)
            again = yield from announce_again(moment, seen.seq, self._registry.hidden(ended))
            return (yield from browse.demand(again, self._registry.decoders))

        return make

    def _delivering(self, id: str, limit: int) -> Op[list[Job]]:
        return browse.jobs(browse.Filter(queue=CALLBACK_QUEUE, parent=id, limit=limit), self._registry.decoders)


def _log(id: str) -> Op[list[Event]]:
    events: list[Event] = []
    while page := (yield from browse.events(id, len(events))):
        events += page
    return events
