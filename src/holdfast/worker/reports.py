"""Reports that wait to be committed: how runs ended, and what their contexts gathered on the way.

One transaction takes a part of them, bounded by number and by bytes, in order. If it cannot be written, the next takes half as
many, down to a single one; one that the database refuses alone, twice, is its own run's failure (`refuse`).
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable

from holdfast.domain.bounds import BATCH_BYTES_MAX, FILING_BYTES_MAX, SETTLE_BATCH_MAX
from holdfast.domain.message import Hidden, hidden_of
from holdfast.domain.outcome import Failed, Outcome, error_of, settle
from holdfast.store.settle import Report
from holdfast.worker.context_link import hidden_of_callback
from holdfast.worker.desk import Desk, Run
from holdfast.worker.timing import PROGRESS_SECONDS, REPORT_SECONDS, RETRY_SECONDS


class ReportQueue:
    def __init__(self, desk: Desk, forget: Callable[[Run], None]) -> None:
        """`forget` is called with a run that has ended and about which nothing may be written any more."""
        self._desk, self._forget = desk, forget
        self.waiting: list[Report] = []
        self.speaking: deque[Run] = deque()
        """Runs whose contexts have something to report; added to from any thread."""
        self.has_more = False
        """The last filing did not take all."""
        self._asked_at = 0.0
        self._progressed_at: dict[int, float] = {}
        self._bytes = 0
        self._most = SETTLE_BATCH_MAX
        self._failures = 0
        self._held_until = 0.0
        self._suspect: Report | None = None

    # What comes in

    @property
    def is_full(self) -> bool:
        return len(self.waiting) >= SETTLE_BATCH_MAX or self._bytes >= BATCH_BYTES_MAX

    def due(self, now: float) -> int:
        """How many may be written now: after a failure that was no fault of theirs, they wait a moment."""
        return len(self.waiting) if now >= self._held_until else 0

    def gather(self, now: float) -> int:
        """Outcomes and what contexts gathered, as reports, at most a batch at a time; how many runs ended."""
        outcomes = self._desk.outcomes
        ended = 0
        while outcomes and not self.is_full:
            run, outcome = outcomes.popleft()
            ended += 1
            self._progressed_at.pop(run.claimed.seq, None)
            if run.lost is None:
                self._add(self._ending(run, outcome))
            else:
                self._forget(run)
        if self.speaking and not self.is_full and now - self._asked_at >= REPORT_SECONDS:
            self._asked_at = now
            self._ask_contexts(now)
        return ended

    def _add(self, reports: list[Report]) -> None:
        for report in reports:
            report.size = report.measure()
            self._bytes += report.size
        self.waiting += reports

    def _ending(self, run: Run, outcome: Outcome) -> list[Report]:
        """Whatever is odd about one run is that run's failure, and no other's."""
        if run.refused is not None:
            return [_report_of(run, run.refused)]
        try:
            return self._reports(run, outcome)
        except Exception as error:
            return [_report_of(run, Failed(error_of(error), retryable=False))]

    def _reports(self, run: Run, outcome: Outcome) -> list[Report]:
        """Its end, with what its context has left; before it, what of that is too much for one transaction."""
        last, context, before = _report_of(run, outcome), run.context, []
        if context is not None:
            while context._waiting_bytes > FILING_BYTES_MAX:
                before.append(_spoken(run))
                before[-1].add(context._take(bytes_max=FILING_BYTES_MAX))
            last.add(context._take())
        return [*before, last]

    def _ask_contexts(self, now: float) -> None:
        ended = {report.seq for report in self.waiting if report.change is not None}
        for _ in range(len(self.speaking)):
            run = self.speaking.popleft()
            if run.ended or run.lost is not None or run.refused or run.claimed.seq in ended or run.context is None:
                continue  # its outcome takes along what is left
            if self.is_full:
                self.speaking.append(run)
                continue
            ripe = now - self._progressed_at.get(run.claimed.seq, 0.0) >= PROGRESS_SECONDS
            gathered = run.context._take(progress_too=ripe, bytes_max=FILING_BYTES_MAX)
            if ripe:
                self._progressed_at[run.claimed.seq] = now
            if not ripe or run.context._waiting_bytes:
                self.speaking.append(run)
            if not (gathered.events or gathered.progress or gathered.spent):
                continue
            report = _spoken(run)
            report.add(gathered)
            run.context._in_flight = [before for before in run.context._in_flight if not before.written] + [report]
            self._add([report])

    # What goes out

    def take(self) -> list[Report]:
        """For one transaction."""
        count = min(self._most, len(self.waiting))
        if self._bytes > FILING_BYTES_MAX:
            count, size = 0, self.waiting[0].size
            while count < min(self._most, len(self.waiting)) and (count == 0 or size <= FILING_BYTES_MAX):
                count += 1
                size += self.waiting[count].size if count < len(self.waiting) else 0
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        self._bytes -= sum(report.size for report in taken)
        self.has_more = bool(self.waiting)
        return taken

    def put_back(self, reports: list[Report]) -> None:
        for report in reports:
            report.written = False
            self._bytes += report.size
        self.waiting = reports + self.waiting

    def clear(self) -> None:
        self.waiting, self._bytes = [], 0

    def written(self) -> None:
        """What was taken is in the database, so more may be tried at a time."""
        self._most = min(SETTLE_BATCH_MAX, self._most * 2)
        self._failures, self._suspect = 0, None

    def postpone(self, reports: list[Report]) -> None:
        """They could not be written, which is no fault of theirs. One that fails alone, for it is large, is put last."""
        self._split(reports)
        if len(reports) == 1:
            own = [report for report in self.waiting if report.seq == reports[0].seq]
            self.waiting = [report for report in self.waiting if report.seq != reports[0].seq] + own
        self._failures += 1
        low, high = RETRY_SECONDS
        self._held_until = time.monotonic() + min(high, low * float(2 ** min(self._failures, 10)))

    def accuse(self, reports: list[Report]) -> bool:
        """The database refused them. Whether the first of them must be `refuse`d: it was tried alone, for the second time."""
        self._split(reports)
        if len(reports) > 1:
            return False
        again, self._suspect = self._suspect is reports[0], reports[0]
        return again

    def _split(self, reports: list[Report]) -> None:
        self.put_back(reports)
        self._most = max(1, len(reports) // 2)

    def refuse(self, run: Run | None, outcome: Failed) -> bool:
        """Nothing else is written about the run of the first report but this. False: that, too, was refused."""
        first, known = self.waiting[0], run is not None and run.refused is not None
        own = [report for report in self.waiting if (report.seq, report.token) == (first.seq, first.token)]
        self.waiting = [report for report in self.waiting if report not in own]
        self._bytes -= sum(report.size for report in own)
        self._suspect = None
        if run is None or known:
            return False
        run.refused = outcome
        if any(report.change is not None for report in own):
            self._add([_report_of(run, outcome)])
        return True


def _spoken(run: Run) -> Report:
    claimed = run.claimed
    return Report(claimed.seq, claimed.token, claimed.lane, claimed.attempt)


def _report_of(run: Run, outcome: Outcome) -> Report:
    claimed = run.claimed
    change = settle(claimed.attempt, claimed.attempts_max, outcome, run.task.retry, random.random())
    callback: Hidden | None = None
    if claimed.more is not None:
        try:
            callback = hidden_of_callback(run)
        except Exception:  # what the job was enqueued with is damaged
            callback = hidden_of(run.task.signature, claimed.arguments)
    ended_at = None if run.began_at is None or run.micros is None else run.began_at + run.micros
    report = Report(claimed.seq, claimed.token, claimed.lane, claimed.attempt, change, callback=callback)
    report.began_at, report.ended_at = run.began_at, ended_at
    return report
