"""Writing down what holders report about their jobs, in batches: progress, events, meters, and how a run ended.

The fence: a report whose worker and token are not those of the current claim is left out, whole, and named in the answer. The
worker counts because tokens and numbers of jobs are given out again after a restore.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from holdfast.domain.message import Hidden
from holdfast.domain.outcome import Change
from holdfast.store.flow import stop_queue
from holdfast.store.moves import Emitted, Move, event_of, record, write
from holdfast.store.op import Moment, Op, Statement, json_of

_decode_seqs = msgspec.json.Decoder(list[int]).decode


class Gathered(msgspec.Struct):
    """What a context has gathered since it was last asked."""

    events: list[Emitted]
    progress: str | None
    meter: str | None
    spent: dict[str, float] | None
    """What was added to the meter since."""


class Report(msgspec.Struct):
    """All that is reported about one job in one batch; `change` ends its run."""

    seq: int
    token: int
    lane: int
    attempt: int
    change: Change | None = None
    events: Sequence[Emitted] = ()
    progress: str | None = None
    meter: str | None = None
    spent: dict[str, float] | None = None
    """What was added to the meter since the last report."""
    callback: Hidden | None = None
    """Set where the job has a callback: what the message must not show."""
    written: bool = False
    """Set by `settle` once the job is locked in the transaction that writes it: see `worker/context_link`."""
    recalled: bool = False
    """Set when `ctx.finish` writes it instead: it must not be written any more."""
    size: int = 0
    """About how many bytes it brings, where that was measured."""
    began_at: int | None = None
    """When the run's code began, in wall microseconds, where that was measured; else the claim counts."""
    ended_at: int | None = None
    """When it ended; else the commit counts."""

    def add(self, more: Gathered | Report) -> None:
        """Also report what a context gathered, or what another report was to write."""
        self.events = [*self.events, *more.events] if self.events else more.events
        self.progress = more.progress or self.progress
        self.meter = more.meter or self.meter
        for name, amount in (more.spent or {}).items():
            self.spent = {**(self.spent or {}), name: (self.spent or {}).get(name, 0.0) + amount}

    def measure(self) -> int:
        size = 0 if self.progress is None else len(self.progress)
        if self.meter is not None:
            size += len(self.meter)
        for _, _, data in self.events:
            size += 0 if data is None else len(data)
        if self.change is not None:
            size += self.change.measure()
        return size

    def end(self, now: int) -> int:
        """Not before it began, whatever the wall clock did meanwhile, and else not after the commit."""
        ended = self.ended_at
        if ended is None or self.began_at is None or ended <= now:
            return ended or now
        return max(self.began_at, now)

    @property
    def run_seconds(self) -> float | None:
        return None if self.began_at is None or self.ended_at is None else (self.ended_at - self.began_at) / 1e6

    @property
    def is_plain(self) -> bool:
        """A success with nothing else to report: most reports are, and one statement writes many of them."""
        change = self.change
        return (
            change is not None
            and change.verb == "finish"
            and not self.events
            and self.progress is None
            and self.meter is None
            and self.spent is None
            and self.callback is None
        )


class Settled(NamedTuple):
    lost: set[int]
    """Jobs whose token is no longer the current one: nothing of their reports was written."""
    busy: set[int]
    """Jobs that another transaction has locked: their reports must be sent again."""


NOTHING_LEFT = Settled(set(), set())


def settle(moment: Moment, reports: Sequence[Report], worker: int | None, *, waits: bool = True) -> Op[Settled]:
    """Write the reports of a worker, or about any, if there is none.

    waits  Block on rows that another transaction has locked. If not, reports about such jobs are left out, as `busy`.
    """
    plain = _plain(reports)
    done = (yield from _finish(moment, plain, worker)) if plain else set()
    left: list[Report] = []
    for report in reports:
        if report.seq in done:
            report.written = True
        else:
            left.append(report)
    return (yield from _settle(moment, left, worker, waits)) if left else NOTHING_LEFT


def _plain(reports: Sequence[Report]) -> list[Report]:
    """The plain ones, of jobs that have no other report in the batch."""
    plain = [report for report in reports if report.is_plain]
    if len(plain) < len(reports) or len({report.seq for report in plain}) < len(plain):
        times = Counter(report.seq for report in reports)
        return [report for report in plain if times[report.seq] == 1]
    return plain


def _finish(moment: Moment, reports: list[Report], worker: int | None) -> Op[set[int]]:
    """The same as `_settle` does, at once, for those whose claim is current and locked nowhere else."""
    leases = {report.seq: report.token for report in reports}
    results = {each.seq: (each.began_at, each.end(moment.now), each.change.result) for each in reports if each.change}
    fields = {"now": moment.now, "worker": worker, "leases": json_of(leases), "results": json_of(results)}
    rows = yield Statement("finish_jobs", fields)
    return set(_decode_seqs(rows[0][0]))


def _settle(moment: Moment, reports: Sequence[Report], worker: int | None, waits: bool) -> Op[Settled]:
    tokens = {report.seq: report.token for report in reports}
    rows = yield Statement("lock_claims" if waits else "lock_free_claims", {"leases": json_of(tokens), "worker": worker})
    held, busy = set(_decode_seqs(rows[0][0])), set(_decode_seqs(rows[0][1]))
    for report in reports:
        report.written = report.seq not in busy
    # A job may have two reports, also of an old claim and of a new one of the same worker: the last token counts.
    ours = [report for report in reports if report.seq in held and report.token == tokens[report.seq]]
    yield from record((report.seq, _events(report, moment.now)) for report in ours)
    yield from _measure(moment, ours)
    ended = [
        Move(each.seq, each.attempt, each.change, each.callback, each.began_at, each.end(moment.now))
        for each in ours
        if each.change is not None
    ]
    for each in ours:
        if each.change is not None and each.change.whole_queue:
            yield from stop_queue(moment, each.lane, each.seq)
    if ended:
        yield Statement("end_claims", {"seqs": json_of([each.seq for each in ended])})
        yield from write(moment, ended)
    return Settled({report.seq for report in reports} - held - busy, busy)


def _events(report: Report, now: int) -> list[Emitted]:
    """The task's own first, then the move's."""
    return [*report.events] if report.change is None else [*report.events, event_of(report.change, now, report.run_seconds)]


def _measure(moment: Moment, reports: Iterable[Report]) -> Op[None]:
    """Progress and meters: of each job the last, and what all of them spent on this day."""
    last: dict[int, tuple[str | None, str | None]] = {}
    spent: dict[tuple[int, str], float] = {}
    for report in reports:
        if report.progress or report.meter:
            progress, meter = last.get(report.seq, (None, None))
            last[report.seq] = (report.progress or progress, report.meter or meter)
        for name, amount in (report.spent or {}).items():
            spent[report.lane, name] = spent.get((report.lane, name), 0.0) + amount
    if last:
        yield Statement("set_progress", {"reported": json_of([(seq, *each) for seq, each in last.items()])})
    if spent:
        day = datetime.fromtimestamp(moment.now / 1e6, UTC).date().isoformat()
        yield Statement("add_meters", {"spent": json_of([(day, *key, amount) for key, amount in spent.items()])})
