"""Every run happens twice: the first is thrown away as if its worker had died just before it could say how it went.

A task that survives this does no harm when a crash makes it run again, which no queue can rule out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.app import Holdfast
from holdfast.domain.outcome import Outcome, Released, Snoozed
from holdfast.worker.desk import Desk, Run
from holdfast.worker.worker import Worker


@contextmanager
def always_replay(app: Holdfast) -> Iterator[None]:
    """Within it, workers of this app run each attempt of each job to its end, forget the outcome, and run it again.

    The first run is handed back and costs no attempt; the log shows it as `released`. What it said on the way (progress,
    events, meters) is kept, as after a real crash.
    """
    seen: set[tuple[str, int]] = set()

    def worker(*args: Any, **options: Any) -> Worker:
        made = type(app).worker(app, *args, **options)
        _replaying(made, seen)
        return made

    vars(app)["worker"] = worker
    try:
        yield
    finally:
        del vars(app)["worker"]


def _replaying(worker: Worker, seen: set[tuple[str, int]]) -> None:
    """The desk is the one place where every run ends, whichever pool it ran in."""
    opened = worker._open

    def open_(loop: asyncio.AbstractEventLoop) -> None:
        opened(loop)
        _forget_first_runs(worker.desk, seen)

    worker._open = open_  # type: ignore[method-assign]


def _forget_first_runs(desk: Desk, seen: set[tuple[str, int]]) -> None:
    end = desk.end

    def forgetful(run: Run, outcome: Outcome, *, take_next: bool = True) -> Run | None:
        attempt = (run.claimed.id, run.claimed.attempt)
        if attempt in seen or isinstance(outcome, Released | Snoozed):
            return end(run, outcome, take_next=take_next)
        seen.add(attempt)
        return end(run, Released("always_replay: its first run is forgotten"), take_next=take_next)

    desk.end = forgetful  # type: ignore[method-assign]
