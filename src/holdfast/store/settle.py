"""Writing down what holders say about their jobs, in batches: progress, events, meters, and how a run ended.

Whatever carries a token that is not the current one is left out, whole, and named in the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.domain.bounds import ERRORS_PER_JOB_MAX
from holdfast.domain.message import Hidden
from holdfast.domain.outcome import Change
from holdfast.domain.states import EVENTS, FINAL, State
from holdfast.store.callbacks import announce
from holdfast.store.op import Moment, Op, Statement

_encode = msgspec.json.Encoder().encode
_decode_seqs = msgspec.json.Decoder(list[int]).decode

Emitted = tuple[str, int, str | None]
"""An event of the task's own: kind, wall microseconds, data as JSON."""


class Report(msgspec.Struct):
    """All that is to be said about one job in one batch; `change` ends its run."""

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
    """Set where the job has a callback: what must not be told there."""
    written: bool = False
    """Set when it is part of a transaction, and the job is locked there."""
    recalled: bool = False
    """Set when somebody else says it instead: it must not be written any more."""

    @property
    def plain(self) -> bool:
        """A success with nothing else to say: most of all reports, and worth a short way."""
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


def settle(moment: Moment, reports: Sequence[Report], *, waits: bool = True) -> Op[set[int]]:
    """Write what may be written; the seqs of reports whose token is no longer current come back.

    waits  for others who are about to change one of these jobs. If not, its reports are not `written` afterwards.
    """
    simple = _simple(reports)
    done = (yield from _succeed(moment, simple)) if simple else set()
    left: list[Report] = []
    for report in reports:
        if report.seq in done:
            report.written = True
        else:
            left.append(report)
    return (yield from _settle(moment, left, waits)) if left else set()


def _simple(reports: Sequence[Report]) -> list[Report]:
    """Plain ones, of jobs of which nothing else is said."""
    plain = [report for report in reports if report.plain]
    if len(plain) < len(reports) or len({report.seq for report in plain}) < len(plain):
        times = Counter(report.seq for report in reports)
        return [report for report in plain if times[report.seq] == 1]
    return plain


def _succeed(moment: Moment, reports: list[Report]) -> Op[set[int]]:
    """The seqs of those that could be ended at once: their token is the current one, and nobody else is about to change them."""
    leases = {report.seq: report.token for report in reports}
    results = {report.seq: report.change.result for report in reports if report.change}
    fields = {"now": moment.now, "leases": _json(leases), "results": _json(results)}
    ((text, whole),) = yield Statement("finish_jobs", fields)
    seqs = _decode_seqs(text)
    if seqs and not whole:
        if len(seqs) < len(results):
            fields["results"] = _json({seq: results[seq] for seq in seqs})
        for verb in ("end_leases", "succeed_jobs", "record_succeeded", "add_finished"):
            yield Statement(verb, {"seqs": text, **fields})
    return set(seqs)


def _settle(moment: Moment, reports: Sequence[Report], waits: bool) -> Op[set[int]]:
    tokens = {report.seq: report.token for report in reports}
    held = set(_decode_seqs((yield Statement("held" if waits else "held_free", {"leases": _json(tokens)}))[0][0]))
    busy: set[int] = set()
    if not waits and len(held) < len(tokens):
        missing = {seq: token for seq, token in tokens.items() if seq not in held}
        busy = set(_decode_seqs((yield Statement("held_elsewhere", {"leases": _json(missing)}))[0][0]))
    for report in reports:  # not before the jobs are locked: see `RunHoldings`
        report.written = report.seq not in busy
    # A job may be spoken of twice, also by an old claim and then by a new one of the same worker: the last token counts.
    mine = [report for report in reports if report.seq in held and report.token == tokens[report.seq]]
    ended = [report for report in mine if report.change is not None]
    if mine:
        yield from _tell(moment, mine)
    if ended:
        yield from _move(moment, ended)
    told = {each.seq: each.callback for each in ended if each.callback is not None and _is_final(each)}
    if told:
        yield from announce(moment, told)
    return {report.seq for report in reports} - held - busy


def _is_final(report: Report) -> bool:
    return report.change is not None and report.change.state in FINAL


def _tell(moment: Moment, reports: list[Report]) -> Op[None]:
    """Events first (a task's own, then the move's), then the count that numbers the next ones."""
    events: list[tuple[int, int, str, int, str | None]] = []
    counts: dict[int, int] = {}
    for report in reports:
        start = counts.get(report.seq, 0) + 1
        own = [*report.events, *_moved(report, moment.now)]
        events += [(report.seq, offset, *event) for offset, event in enumerate(own, start)]
        if own:
            counts[report.seq] = start + len(own) - 1
    if events:
        yield Statement("record_events", {"events": _json(events)})
        yield Statement("count_events", {"counts": _json(list(counts.items()))})
    told: dict[int, tuple[str | None, str | None]] = {}
    for report in reports:
        if report.progress or report.meter:
            progress, meter = told.get(report.seq, (None, None))
            told[report.seq] = (report.progress or progress, report.meter or meter)
    if told:
        yield Statement("set_progress", {"told": _json([(seq, *said) for seq, said in told.items()])})
    spent = _spent(moment, reports)
    if spent:
        yield Statement("add_meters", {"spent": _json(spent)})


def _moved(report: Report, now: int) -> list[Emitted]:
    change = report.change
    if change is None:
        return []
    return [(EVENTS[change.verb], now, None if change.data is None else _json(change.data))]


def _spent(moment: Moment, reports: list[Report]) -> list[tuple[str, int, str, float]]:
    day = datetime.fromtimestamp(moment.now / 1e6, UTC).date().isoformat()
    total: dict[tuple[int, str], float] = {}
    for report in reports:
        for name, amount in (report.spent or {}).items():
            total[report.lane, name] = total.get((report.lane, name), 0.0) + amount
    return [(day, lane, name, amount) for (lane, name), amount in total.items()]


def _move(moment: Moment, reports: list[Report]) -> Op[None]:
    changes, errors = [], []
    into: dict[State, list[int]] = {}
    for report in reports:
        change = report.change
        assert change is not None
        due = None if change.delay_seconds is None else moment.now + int(change.delay_seconds * 1e6)
        ended = moment.now if change.state in FINAL else None
        changes.append((report.seq, change.state, change.result, change.reason, due, ended, 1 - change.attempt_cost))
        into.setdefault(change.state, []).append(report.seq)
        if change.error is not None:
            error = change.error
            errors.append((report.seq, report.attempt, moment.now, error.kind, error.message, error.traceback))
    yield Statement("end_leases", {"seqs": _json([report.seq for report in reports])})
    yield Statement("move_jobs", {"changes": _json(changes)})
    yield from _place(moment, into)
    if errors:
        yield Statement("add_errors", {"errors": _json(errors)})
        yield Statement("trim_errors", {"seqs": _json([error[0] for error in errors]), "keep": ERRORS_PER_JOB_MAX})


def _place(moment: Moment, into: dict[State, list[int]]) -> Op[None]:
    """Into the narrow table of the state that each job moved to."""
    final = [seq for state, seqs in into.items() if state in FINAL for seq in seqs]
    if final:
        yield Statement("add_finished", {"now": moment.now, "seqs": _json(final)})
    if State.READY in into:
        yield Statement("ready_jobs", {"seqs": _json(into[State.READY])})
    if State.SCHEDULED in into:
        yield Statement("schedule_jobs", {"seqs": _json(into[State.SCHEDULED])})


def _json(value: Any) -> str:
    return _encode(value).decode()
