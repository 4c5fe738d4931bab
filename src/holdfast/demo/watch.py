"""Following the store: a picture of all jobs whenever something was committed, and what is new in it as sentences."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from holdfast.app import Holdfast
from holdfast.demo.stage import Stage
from holdfast.domain.job import Job
from holdfast.domain.outcome import WORKER_LOST
from holdfast.domain.states import State

LOOK_SECONDS: Final = 0.5
PATIENCE_SECONDS: Final = 120.0
JOBS_MAX: Final = 500


class Picture(NamedTuple):
    """All jobs at one moment, and how the workers are."""

    jobs: dict[str, Job]
    workers: dict[str, str]

    def count(self, *states: State) -> int:
        return sum(1 for job in self.jobs.values() if job.state in states)

    def running(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state is State.RUNNING]


class Display(Protocol):
    def say(self, text: str, style: str = "") -> None: ...
    def show(self, picture: Picture) -> None: ...


class GaveUp(Exception):
    """What the demo waited for did not come."""


class Watch:
    """Waits for commits, not for time to pass."""

    def __init__(self, app: Holdfast, stage: Stage, display: Display) -> None:
        self._app, self._stage, self._display = app, stage, display
        self._watcher = app.store.watcher(follows=True)
        self._before: dict[str, Job] = {}
        self._deadline = time.monotonic() + PATIENCE_SECONDS

    def until(self, what: str, reached: Callable[[Picture], bool]) -> Picture:
        """Show every change until the picture is as wanted."""
        while True:
            picture = self._look()
            if reached(picture):
                return picture
            if (dead := self._stage.died()) is not None:
                raise GaveUp(f"{dead} ended by itself; see {self._stage.directory / f'{dead}.log'}")
            if time.monotonic() > self._deadline:
                raise GaveUp(f"{what}: not within {PATIENCE_SECONDS:.0f} seconds; see the logs in {self._stage.directory}")
            self._watcher.wait(LOOK_SECONDS)

    def close(self) -> None:
        self._watcher.close()

    def _look(self) -> Picture:
        jobs = {job.id: job for job in self._app.jobs(newest=False, limit=JOBS_MAX)}
        workers = {name: "killed" if name in self._stage.killed else "at work" for name in self._stage.workers}
        picture = Picture(jobs, workers)
        for text, style in news(self._before, jobs):
            self._display.say(text, style)
        self._count_small(jobs)
        self._display.show(picture)
        self._before = jobs
        return picture

    def _count_small(self, jobs: dict[str, Job]) -> None:
        small = [job for job in jobs.values() if is_small(job)]
        if small and all(job.final for job in small) and not all(self._before[job.id].final for job in small):
            self._display.say(f"all {len(small)} small jobs: done", "green")


def news(before: dict[str, Job], now: dict[str, Job]) -> Iterator[tuple[str, str]]:
    """What is worth a line; small jobs are only counted."""
    for id, job in now.items():
        old = before.get(id)
        if old is None or (old.state, old.attempt) == (job.state, job.attempt):
            continue
        if len(job.errors) > len(old.errors) and job.state is not State.FAILED:
            yield f"{name_of(job)}: {_failure(job)}", "yellow"
        if job.state is State.SUCCEEDED and not is_small(job):
            yield f"{name_of(job)}: {_result(job)}", "green"
        elif job.state is State.FAILED:
            yield f"{name_of(job)}: given up after {job.attempt} attempts ({job.error})", "red"


def _failure(job: Job) -> str:
    if job.errors[-1].kind == WORKER_LOST:
        return "its worker stopped renewing the lease, so it is ready for another"
    return f"attempt {job.errors[-1].attempt} failed ({job.error}); it will be tried again"


def name_of(job: Job) -> str:
    """`read_document document-03`."""
    value = str(next(iter(job.arguments.values()), ""))
    return f"{job.task.rpartition('.')[2]} {Path(value).name}"


def is_small(job: Job) -> bool:
    return job.task.endswith(".fingerprint")


def is_document(job: Job) -> bool:
    return job.task.endswith(".read_document")


def _result(job: Job) -> str:
    again = "" if job.attempt == 1 else f", in attempt {job.attempt}"
    if isinstance(job.result, dict) and "words" in job.result:
        return f"{job.result['words']:,} words on {job.result['pages']} pages{again}"
    return f"done{again}"
