"""The log of how runs ended, once that is committed: one record each, with the job's fields.

It has a thread of its own. A handler may be slow (mail, a network, a pipe that nobody reads); the clerk, which renews the leases,
must not wait for it. What an error says was written by others: it cannot begin a line, nor send anything to a terminal.
"""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from holdfast.domain.outcome import Change, JobError
from holdfast.domain.sanitize import clean, one_line
from holdfast.domain.states import State
from holdfast.worker.current import fields_of
from holdfast.worker.desk import Run

log = logging.getLogger("holdfast.worker")

WAITING_MAX: Final = 100_000
CLOSING_SECONDS: Final = 2.0
_ENDED: Final = {"finish": "succeeded", "skip": "was skipped", "cancel": "was cancelled", "release": "was handed back"}
_FINISHED: Final = Change("finish", State.SUCCEEDED)


class Ended(NamedTuple):
    """A run, and the change that was committed about it; None: its job was cancelled or taken by others, for that reason."""

    run: Run
    change: Change | None
    lost: bool = False
    """The change was refused: the job was another's by then, or `ctx.finish` had ended it."""
    reason: str = ""


class JobFailed(Exception):
    """A job failed for good: how its error reaches what reports exceptions. Its own exception is text by now."""


class JobLog:
    def __init__(self) -> None:
        self._ended: SimpleQueue[list[Ended] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._waiting = self._left_out = 0

    def wanted(self) -> bool:
        """Whether runs without an error are logged too: asked once for a batch."""
        return log.isEnabledFor(logging.INFO)

    def write(self, ended: list[Ended]) -> None:
        """From the clerk; does not wait."""
        if self._waiting > WAITING_MAX:
            self._left_out += len(ended)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="holdfast-log", daemon=True)
            self._thread.start()
        self._waiting += len(ended)
        self._ended.put(ended)

    def close(self) -> None:
        """All that is waiting is logged first; a handler that hangs is left behind."""
        if self._thread is not None:
            self._ended.put(None)
            self._thread.join(CLOSING_SECONDS)

    def _work(self) -> None:
        while (batch := self._ended.get()) is not None:
            for each in batch:
                self._waiting -= 1
                _log(each)
            left_out, self._left_out = self._left_out, 0
            if left_out:
                log.warning("%d ends of jobs were not logged: the log's handlers are too slow", left_out)


def _log(ended: Ended) -> None:
    change = ended.change
    if ended.lost:
        context = ended.run.context
        if context is not None and context.finished:
            _log_end(ended.run, _FINISHED)
    elif change is None:
        fields = fields_of(ended.run)
        log.info("job %s (%s) is stopped: %s", fields["job"], fields["task"], ended.reason, extra=fields)
    elif change.error is None:
        _log_end(ended.run, change)
    else:
        _log_failure(ended.run, change, change.error)


def _log_end(run: Run, change: Change) -> None:
    how = _ENDED.get(change.verb) or f"runs again in {change.delay_seconds or 0:.1f} s"
    reason = (change.data or {}).get("reason")
    log.info(
        "job %s (%s) %s%s%s", run.claimed.id, run.name, how, _took(run), f": {one_line(str(reason))}" if reason else "",
        extra=fields_of(run),
    )  # fmt: skip


def _log_failure(run: Run, change: Change, error: JobError) -> None:
    """With a traceback where it is final: text, without the secrets that it quoted. An exception would have all of them."""
    final = change.delay_seconds is None
    then = "it has failed for good" if final else f"again in {change.delay_seconds:.1f} s"
    claimed, level = run.claimed, logging.ERROR if final else logging.WARNING
    line = one_line(error.line)
    values = (claimed.id, run.name, claimed.attempt, claimed.attempts_max, line, then)
    fields: dict[str, Any] = {**fields_of(run), "error": clean(error.kind)}
    if not log.isEnabledFor(level):
        return
    record = log.makeRecord(
        log.name, level, __file__, 0, "job %s (%s), attempt %d of %d: %s; %s", values, None, "_log_failure", fields
    )
    if final:
        failure = JobFailed(line)
        record.exc_info = (JobFailed, failure, None)
        record.exc_text = indented(error.traceback) or f"    {line}"
    log.handle(record)


def indented(text: str) -> str:
    """Lines that cannot be taken for records of their own."""
    return "\n".join(f"    {line}" for line in clean(text, lines=True).splitlines())


def _took(run: Run) -> str:
    seconds = (run.micros or 0) / 1e6
    return "" if run.micros is None else f" in {seconds:.{2 if seconds >= 0.1 else 4}f} s"
