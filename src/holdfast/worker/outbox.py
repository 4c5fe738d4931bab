"""What runs have to say, as reports that wait to be filed: how they ended, and what their contexts said on the way."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Final

from holdfast.domain.bounds import BATCH_BYTES_MAX, SETTLE_BATCH_MAX
from holdfast.domain.outcome import Change, Failed, Outcome, Succeeded, error_of, settle
from holdfast.domain.states import State
from holdfast.store.settle import Report
from holdfast.worker.desk import Desk, Run
from holdfast.worker.holdings import hidden

SAID_SECONDS: Final = 0.05
PROGRESS_SECONDS: Final = 1.0


class Outbox:
    def __init__(self, desk: Desk, forget: Callable[[Run], None]) -> None:
        """`forget` is told of a run that has ended and about which nothing may be written any more."""
        self._desk, self._forget = desk, forget
        self.unsent: list[Report] = []
        self.said: deque[Run] = deque()
        """Runs whose contexts have something to say; added to from any thread."""
        self._said_at = 0.0
        self._progressed_at: dict[int, float] = {}

    def gather(self, now: float) -> int:
        """Outcomes and what contexts said, as reports, at most a batch at a time; how many runs ended."""
        outcomes, unsent = self._desk.outcomes, self.unsent
        ended = size = 0
        while outcomes and len(unsent) < SETTLE_BATCH_MAX and size < BATCH_BYTES_MAX:
            run, outcome = outcomes.popleft()
            ended += 1
            if run.lost is None:
                report = self._report_safely(run, outcome)
                size += len(report.change.result or "") if report.change else 0
                unsent.append(report)
            else:
                self._progressed_at.pop(run.claimed.seq, None)
                self._forget(run)
        if self.said and now - self._said_at >= SAID_SECONDS:
            self._said_at = now
            self._gather_said(now)
        return ended

    def take(self) -> list[Report]:
        reports, self.unsent = self.unsent, []
        return reports

    def put_back(self, reports: list[Report]) -> None:
        self.unsent = reports + self.unsent

    def _report_safely(self, run: Run, outcome: Outcome) -> Report:
        """Whatever is odd about one run is that run's failure, and nobody else's."""
        try:
            return self._report(run, outcome)
        except Exception as error:
            claimed = run.claimed
            failed = settle(claimed.attempt, claimed.attempts_max, Failed(error_of(error), retryable=False), run.task.retry, 0.5)
            return Report(claimed.seq, claimed.token, claimed.lane, claimed.attempt, failed, callback=hidden(run))

    def _report(self, run: Run, outcome: Outcome) -> Report:
        claimed = run.claimed
        if type(outcome) is Succeeded:
            change = Change("finish", State.SUCCEEDED, outcome.result)
        else:
            change = settle(claimed.attempt, claimed.attempts_max, outcome, run.task.retry, random.random())
        report = Report(claimed.seq, claimed.token, claimed.lane, claimed.attempt, change)
        if claimed.rest is not None:
            report.callback = hidden(run)
        if run.context is not None:
            self._progressed_at.pop(claimed.seq, None)
            said = run.context.take()
            report.events, report.progress, report.meter, report.spent = said.events, said.progress, said.meter, said.spent
        return report

    def _gather_said(self, now: float) -> None:
        ended = {report.seq for report in self.unsent}
        for _ in range(len(self.said)):
            run = self.said.popleft()
            if run.ended or run.lost is not None or run.claimed.seq in ended or run.context is None:
                continue  # its outcome takes along what was left to say
            ripe = now - self._progressed_at.get(run.claimed.seq, 0.0) >= PROGRESS_SECONDS
            said = run.context.take(progress_too=ripe)
            if ripe:
                self._progressed_at[run.claimed.seq] = now
            else:
                self.said.append(run)
            if not (said.events or said.progress or said.spent):
                continue
            claimed = run.claimed
            report = Report(
                seq=claimed.seq, token=claimed.token, lane=claimed.lane, attempt=claimed.attempt, events=said.events,
                progress=said.progress, meter=said.meter, spent=said.spent,
            )  # fmt: skip
            run.context.in_flight = [before for before in run.context.in_flight if not before.written] + [report]
            self.unsent.append(report)
