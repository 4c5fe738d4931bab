"""The end, judged: what the database says against what the tasks wrote into the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from holdfast.demo.ledger import Entry
from holdfast.domain.job import Job
from holdfast.domain.outcome import WORKER_LOST
from holdfast.domain.states import State


class Cast(NamedTuple):
    """The ids of the jobs that the story is about."""

    flaky: str
    dead: str
    keyed: str
    keyed_again: str
    interrupted: list[str]


class Verdict(NamedTuple):
    holds: bool
    text: str


BY_HAND: Final = frozenset({State.CANCELLED, State.SKIPPED})
"""What only a person does here, by a button of the page: such jobs are not part of the story any more."""


def verdicts(jobs: dict[str, Job], entries: list[Entry], cast: Cast) -> Iterator[Verdict]:
    stopped = {job.id for job in jobs.values() if job.state in BY_HAND}
    runs = Counter(entry.job for entry in entries if entry.job not in stopped)
    yield _accounted(jobs, runs, len(stopped))
    yield _taken_over(jobs, set(cast.interrupted) - stopped, stopped)
    if (flaky := jobs[cast.flaky]).id not in stopped:
        yield Verdict(flaky.state is State.SUCCEEDED and flaky.attempt == 3, "one job failed twice and succeeded by retry")
    if (dead := jobs[cast.dead]).id not in stopped:
        yield Verdict(dead.state is State.FAILED, f"one job failed for good, with its reason: {dead.error}")
    if cast.keyed not in stopped:
        once = cast.keyed == cast.keyed_again and runs[cast.keyed] == 1
        yield Verdict(once, "one job was enqueued twice under one key and ran once")


def _accounted(jobs: dict[str, Job], runs: Counter[str], stopped: int) -> Verdict:
    succeeded = [job for job in jobs.values() if job.state is State.SUCCEEDED]
    once = all(runs[job.id] == 1 for job in succeeded) and sum(runs.values()) == len(succeeded)
    parts = [
        f"{len(succeeded)} finished once each (by a ledger outside the database)",
        f"{len(jobs) - len(succeeded) - stopped} failed for good",
        *([f"{stopped} stopped by hand"] if stopped else []),
    ]
    return Verdict(once and all(job.final for job in jobs.values()), f"{len(jobs)} jobs accepted: {', '.join(parts)}")


def _taken_over(jobs: dict[str, Job], interrupted: set[str], stopped: set[str]) -> Verdict:
    lost = [job for job in jobs.values() if any(error.kind == WORKER_LOST for error in job.errors)]
    taken = [job for job in lost if job.id not in stopped]
    finished = all(job.state is State.SUCCEEDED and job.attempt == 2 for job in taken)
    words = f"{len(taken)} jobs of the killed worker were finished by the other, each in attempt 2"
    return Verdict({job.id for job in taken} >= interrupted and finished, words)
