"""Reports that wait to be committed: how runs ended, and what their contexts gathered on the way."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

from holdfast.domain.bounds import BATCH_BYTES_MAX, SETTLE_BATCH_MAX
from holdfast.domain.outcome import Failed, Outcome, error_of, settle
from holdfast.store.settle import Report
from holdfast.worker.context_link import hidden_of_callback
from holdfast.worker.desk import Desk, Run
from holdfast.worker.timing import PROGRESS_SECONDS, REPORT_SECONDS


class ReportQueue:
    def __init__(self, desk: Desk, forget: Callable[[Run], None]) -> None:
        """`forget` is called with a run that has ended and about which nothing may be written any more."""
        self._desk, self._forget = desk, forget
        self.waiting: list[Report] = []
        self.speaking: deque[Run] = deque()
        """Runs whose contexts have something to report; added to from any thread."""
        self._asked_at = 0.0
        self._progressed_at: dict[int, float] = {}

    def gather(self, now: float) -> int:
        """Outcomes and what contexts gathered, as reports, at most a batch at a time; how many runs ended."""
        outcomes, waiting = self._desk.outcomes, self.waiting
        ended = size = 0
        while outcomes and len(waiting) < SETTLE_BATCH_MAX and size < BATCH_BYTES_MAX:
            run, outcome = outcomes.popleft()
            ended += 1
            if run.lost is None:
                report = self._report_safely(run, outcome)
                size += len(report.change.result or "") if report.change else 0
                waiting.append(report)
            else:
                self._progressed_at.pop(run.claimed.seq, None)
                self._forget(run)
        if self.speaking and now - self._asked_at >= REPORT_SECONDS:
            self._asked_at = now
            self._ask_contexts(now)
        return ended

    def take(self) -> list[Report]:
        reports, self.waiting = self.waiting, []
        return reports

    def put_back(self, reports: list[Report]) -> None:
        self.waiting = reports + self.waiting

    def _report_safely(self, run: Run, outcome: Outcome) -> Report:
        """Whatever is odd about one run is that run's failure, and no other's."""
        try:
            return self._report(run, outcome)
        except Exception as error:
            return _report_of(run, Failed(error_of(error), retryable=False))

    def _report(self, run: Run, outcome: Outcome) -> Report:
        report = _report_of(run, outcome)
        if run.context is not None:
            self._progressed_at.pop(run.claimed.seq, None)
            report.add(run.context.take())
        return report

    def _ask_contexts(self, now: float) -> None:
        ended = {report.seq for report in self.waiting}
        for _ in range(len(self.speaking)):
            run = self.speaking.popleft()
            if run.ended or run.lost is not None or run.claimed.seq in ended or run.context is None:
                continue  # its outcome takes along what is left
            ripe = now - self._progressed_at.get(run.claimed.seq, 0.0) >= PROGRESS_SECONDS
            gathered = run.context.take(progress_too=ripe)
            if ripe:
                self._progressed_at[run.claimed.seq] = now
            else:
                self.speaking.append(run)
            if not (gathered.events or gathered.progress or gathered.spent):
                continue
            claimed = run.claimed
            report = Report(claimed.seq, claimed.token, claimed.lane, claimed.attempt)
            report.add(gathered)
            run.context.in_flight = [before for before in run.context.in_flight if not before.written] + [report]
            self.waiting.append(report)


def _report_of(run: Run, outcome: Outcome) -> Report:
    claimed = run.claimed
    change = settle(claimed.attempt, claimed.attempts_max, outcome, run.task.retry, random.random())
    callback = None if claimed.more is None else hidden_of_callback(run)
    return Report(claimed.seq, claimed.token, claimed.lane, claimed.attempt, change, callback=callback)
