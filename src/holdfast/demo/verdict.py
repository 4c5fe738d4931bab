"""The end, judged: what the database says against what the tasks wrote into the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from holdfast.demo.ledger import Entry
from holdfast.domain.job import Job
from holdfast.domain.states import State
from holdfast.store.tend import WORKER_LOST


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


def verdicts(jobs: dict[str, Job], entries: list[Entry], cast: Cast) -> Iterator[Verdict]:
    runs = Counter(entry.job for entry in entries)
    succeeded = [job for job in jobs.values() if job.state is State.SUCCEEDED]
    once = all(runs[job.id] == 1 for job in succeeded) and sum(runs.values()) == len(succeeded)
    counts = (
        f"{len(succeeded)} finished once each (by a ledger outside the database), {len(jobs) - len(succeeded)} failed for good"
    )
    yield Verdict(once and all(job.final for job in jobs.values()), f"{len(jobs)} jobs accepted: {counts}")
    taken = [job for job in jobs.values() if any(error.kind == WORKER_LOST for error in job.errors)]
    yield Verdict(
        {job.id for job in taken} >= set(cast.interrupted)
        and all(job.state is State.SUCCEEDED and job.attempt == 2 for job in taken),
        f"{len(taken)} jobs of the killed worker were finished by the other, each in attempt 2",
    )
    flaky = jobs[cast.flaky]
    yield Verdict(flaky.state is State.SUCCEEDED and flaky.attempt == 3, "one job failed twice and succeeded by retry")
    dead = jobs[cast.dead]
    yield Verdict(dead.state is State.FAILED, f"one job failed for good, with its reason: {dead.error}")
    yield Verdict(
        cast.keyed == cast.keyed_again and runs[cast.keyed] == 1, "one job was enqueued twice under one key and ran once"
    )
