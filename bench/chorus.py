"""The program that is watched: jobs that say something twice a second, and jobs that wait and say nothing.

`python -m bench.chorus FILE JOBS` is its worker, which writes down when each event was committed. A server that loads this
module tells on SIGUSR1 what it holds, in a file.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, monotonic_ns
from types import FrameType
from typing import Final

from holdfast import Context, Holdfast, Retry
from holdfast.store.moves import Emitted

GAUGE: Final = "HOLDFAST_BENCH_GAUGE"  # where a server is to tell what it holds
GAP_SECONDS: Final = 0.5
NOTE: Final = "note"

app = Holdfast()


@app.task(name="sing", retry=Retry(attempts=1))
async def sing(ctx: Context, seconds: float, gap: float) -> None:
    """At a pace of its own: not all at once."""
    following = monotonic() + random.uniform(0.0, gap)
    end = monotonic() + seconds
    commits.contexts.add(ctx)
    while following < end:
        await asyncio.sleep(following - monotonic())
        ctx.emit(NOTE, {"at": monotonic_ns()})
        following += gap
    await asyncio.sleep(gap)  # the last is committed before the end, as all others are
    commits.contexts.discard(ctx)


@app.task(name="rest")
async def rest() -> None:
    """It is never its time."""


class Commits:
    """When what was said was committed: told by the worker's store, read from what its contexts have handed over."""

    def __init__(self) -> None:
        self.contexts: set[Context] = set()
        self.known: dict[int, int] = {}

    def probe(self, what: str) -> None:
        if what == "committed":
            now = monotonic_ns()
            for context in list(self.contexts):
                for report in context._in_flight:
                    if report.written:
                        self._note(report.events, now)

    def _note(self, events: Sequence[Emitted], now: int) -> None:
        for kind, _, text in events:
            if kind == NOTE and text is not None:
                self.known.setdefault(json.loads(text)["at"], now)


commits = Commits()


class Pauses:
    """How long the collector of garbage has stopped everything at most, of its own accord."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.silent = False
        self._began = 0.0

    def note(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = monotonic()
        elif not self.silent:
            self.longest = max(self.longest, monotonic() - self._began)


pauses = Pauses()


def tell(_number: int, _frame: FrameType | None) -> None:
    """Rubbish is not held."""
    pauses.silent = True
    gc.collect()
    held = {"tasks": len(asyncio.all_tasks(asyncio.get_running_loop())), "threads": threading.active_count()}
    path = Path(os.environ[GAUGE])
    path.with_suffix(".new").write_text(json.dumps({**held, "pause_ms": pauses.longest * 1e3}))
    path.with_suffix(".new").rename(path)
    pauses.silent, pauses.longest = False, 0.0


def main(file: str, jobs: str) -> None:
    app.store.probe = commits.probe
    app.worker(concurrency=int(jobs)).run_until_empty()
    Path(file).write_text(json.dumps(list(commits.known.items())))


if GAUGE in os.environ:
    signal.signal(signal.SIGUSR1, tell)
    gc.callbacks.append(pauses.note)

if __name__ == "__main__":
    main(*sys.argv[1:])
