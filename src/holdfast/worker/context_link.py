"""What links a context to its run: the job as an object, the way to the clerk, and finishing inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.domain import codec
from holdfast.domain.job import Job
from holdfast.domain.message import Hidden, hidden_of
from holdfast.domain.outcome import Succeeded, settle
from holdfast.errors import LeaseLost, SettingError
from holdfast.registry import Registry
from holdfast.store.caller import AsyncCallerTransaction, CallerTransaction
from holdfast.store.op import Moment, Op, Operation, Statement
from holdfast.store.rows import job_of_claimed
from holdfast.store.settle import Report
from holdfast.store.settle import settle as write_reports
from holdfast.store.store import Store
from holdfast.worker.context import Context, WorkerLink
from holdfast.worker.desk import Run


class RunLink:
    def __init__(self, run: Run, registry: Registry, speaks: Callable[[Run], None], store: Store, worker: int) -> None:
        self._run, self._registry, self._speaks, self._store = run, registry, speaks, store
        self._worker = worker

    def job(self) -> Job:
        return job_of_claimed(self._run.claimed, self._run.task.name, self._run.queue, self._registry.decoders)

    def has_news(self, context: Context) -> None:
        self._speaks(self._run)

    def finish(self, context: Context, on: Any, result: Any) -> None:
        connection = self._store.caller(on)
        if not isinstance(connection, CallerTransaction):
            raise SettingError("on= is an async connection; use await ctx.afinish(on=...)")
        connection.write(self._end(context, result), self._moment())
        context.finished = True

    async def afinish(self, context: Context, on: Any, result: Any) -> None:
        connection = self._store.caller(on)
        if not isinstance(connection, AsyncCallerTransaction):
            raise SettingError("on= is a sync connection; use ctx.finish(on=...)")
        await connection.write(self._end(context, result), self._moment())
        context.finished = True

    def _end(self, context: Context, result: Any) -> Operation[None]:
        """The job succeeds in the caller's transaction, and what the clerk was about to write of it is written there.

        The claim is locked first. A report that the clerk has taken is then either `written`, in a transaction that has ended, or
        the clerk has not locked the claim yet, and will leave the report out: so it is recalled and written here.
        """
        claimed = self._run.claimed
        success = Succeeded(self._run.task.signature.encode_result(result))
        change = settle(claimed.attempt, claimed.attempts_max, success, self._run.task.retry, 0.5)

        def run(moment: Moment) -> Op[None]:
            yield Statement("lock_claims", {"leases": f'{{"{claimed.seq}":{claimed.token}}}', "worker": self._worker})
            callback = hidden_of_callback(self._run)
            report = Report(claimed.seq, claimed.token, claimed.lane, claimed.attempt, change, callback=callback)
            report.began_at = self._run.began_at
            for before in context._in_flight:
                if not before.written:
                    before.recalled = True
                    report.add(before)
            report.add(context._take())
            if (yield from write_reports(moment, [report], self._worker)).lost:
                raise LeaseLost(f"job {claimed.id}: token {claimed.token} is not the current one; roll back")

        return run

    def _moment(self) -> Moment:
        clock = self._store.clock
        return Moment(clock.now(), clock.tick(), clock.boot())


def hidden_of_callback(run: Run) -> Hidden | None:
    """What the message to its callback must not show; None: it has no callback."""
    if run.claimed.extras.callback is None:
        return None
    return hidden_of(run.task.signature, run.claimed.arguments)


def new_context(run: Run, link: WorkerLink) -> Context:
    extras = run.claimed.extras
    progress: Any = codec.decode(extras.progress) if extras.progress else {}
    meter: Any = codec.decode(extras.meter) if extras.meter else {}
    run.context = Context(link, run.claimed.token, progress, meter)
    if run.lost is not None:
        run.context.lost = run.lost
    return run.context
