"""What binds a context to its run: the job as an object, the way to the clerk, and finishing inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.domain import codec
from holdfast.domain.job import NOTHING, Job
from holdfast.domain.message import Hidden, hidden_of
from holdfast.domain.outcome import Change
from holdfast.domain.states import State
from holdfast.errors import LeaseLost, SettingError
from holdfast.registry import Registry
from holdfast.store.adapters import AsyncBorrowed, Borrowed
from holdfast.store.op import Make, Moment, Op, Statement
from holdfast.store.rows import job_of_claimed
from holdfast.store.settle import Report, settle
from holdfast.store.store import Store
from holdfast.worker.context import Context, Holdings, Said
from holdfast.worker.desk import Run


class RunHoldings:
    def __init__(self, run: Run, registry: Registry, said: Callable[[Run], None], store: Store) -> None:
        self._run, self._registry, self._said, self._store = run, registry, said, store

    def job(self) -> Job:
        return job_of_claimed(self._run.claimed, self._run.task.name, self._run.queue, self._registry.names)

    def said(self, context: Context) -> None:
        self._said(self._run)

    def finish(self, context: Context, on: Any, result: Any) -> None:
        connection = self._store.borrow(on)
        if not isinstance(connection, Borrowed):
            raise SettingError("on= is an async connection; use await ctx.afinish(on=...)")
        connection.write(self._end(context, result), self._moment())
        context.finished = True

    async def afinish(self, context: Context, on: Any, result: Any) -> None:
        connection = self._store.borrow(on)
        if not isinstance(connection, AsyncBorrowed):
            raise SettingError("on= is a sync connection; use ctx.finish(on=...)")
        await connection.write(self._end(context, result), self._moment())
        context.finished = True

    def _end(self, context: Context, result: Any) -> Make[None]:
        claimed = self._run.claimed
        change = Change("finish", State.SUCCEEDED, self._run.task.signature.encode_result(result))

        def make(moment: Moment) -> Op[None]:
            # The job is locked first: what the clerk has taken is then either written, or ours to say.
            yield Statement("held", {"leases": f'{{"{claimed.seq}":{claimed.token}}}'})
            report = Report(claimed.seq, claimed.token, claimed.lane, claimed.attempt, change, callback=hidden(self._run))
            for before in context.in_flight:
                if not before.written:
                    before.recalled = True
                    _say(report, before)
            _say(report, context.take())
            if (yield from settle(moment, [report])):
                raise LeaseLost(f"job {claimed.id}: token {claimed.token} is not the current one; roll back")

        return make

    def _moment(self) -> Moment:
        clock = self._store.clock
        return Moment(clock.now(), clock.tick(), clock.boot())


def _say(report: Report, more: Report | Said) -> None:
    """Add to a report what another was about to say."""
    report.events = [*report.events, *more.events]
    report.progress = more.progress or report.progress
    report.meter = more.meter or report.meter
    for name, amount in (more.spent or {}).items():
        report.spent = {**(report.spent or {}), name: (report.spent or {}).get(name, 0.0) + amount}


def hidden(run: Run) -> Hidden | None:
    """What its callback must not be told; None: it has none."""
    rest = run.claimed.rest
    return None if rest is None or rest.callback is None else hidden_of(run.task.signature, run.claimed.arguments)


def new_context(run: Run, holdings: Holdings) -> Context:
    claimed = run.claimed
    rest = claimed.rest or NOTHING
    progress: Any = codec.decode(rest.progress) if rest.progress else {}
    meter: Any = codec.decode(rest.meter) if rest.meter else {}
    run.context = Context(holdings, claimed.token, progress, meter)
    if run.lost is not None:
        run.context.lost = run.lost
    return run.context
