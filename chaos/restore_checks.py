"""What must be true after restores under load, from the ledgers outside the database and the database at the end.

A restore takes back what was committed after its copy was made. A request is *safe* if it began after one restore and was
acknowledged before the copy of the next one was begun: no restore may take it back.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import msgspec

from holdfast.torture.checker import PromiseResult
from holdfast.torture.direct import Direct, problems
from holdfast.torture.ledgers import Line, read


class Restore(msgspec.Struct, frozen=True):
    """Times in nanoseconds of CLOCK_MONOTONIC."""

    copied: int
    began: int
    over: int


class Story(msgspec.Struct):
    """The ledgers of a run."""

    restores: list[Restore]
    invoked: dict[str, Line] = {}
    acknowledged: dict[str, tuple[str, int]] = {}
    """By request: the id of its job, and when it was answered."""
    starts: dict[str, list[Line]] = msgspec.field(default_factory=lambda: defaultdict(list))

    def is_safe(self, call: str) -> bool:
        asked, answered = self.invoked[call].at, self.acknowledged[call][1]
        later = [restore for restore in self.restores if restore.over > asked]
        return not later or answered < later[0].copied

    def between(self, at: int) -> int | None:
        """After how many restores; None while one goes on."""
        if any(restore.began <= at <= restore.over for restore in self.restores):
            return None
        return sum(restore.over < at for restore in self.restores)


class Found(msgspec.Struct, frozen=True):
    """A job at the end."""

    id: str
    task: str
    call: str
    state: str
    result: dict[str, str] | None


def story_of(ledgers: str, restores: list[Restore]) -> Story:
    story = Story(restores)
    for line in read(ledgers):
        for call in line.calls if line.what == "invoke" else ():
            story.invoked[call] = line
        for call, id in zip(line.calls, line.ids, strict=True) if line.what == "ok" else ():
            story.acknowledged[call] = (id, line.at)
        if line.what == "start":
            story.starts[line.call or ""].append(line)
    return story


def jobs_of(connection: Direct) -> list[Found]:
    decode = msgspec.json.decode
    query = "SELECT id, task, arguments, state, result FROM holdfast_full_job"
    rows = connection.execute(query).fetchall()
    return [Found(id, task, decode(a)["call"], state, None if r is None else decode(r)) for id, task, a, state, r in rows]


def judge(story: Story, jobs: list[Found], connection: Direct) -> list[PromiseResult]:
    safe = [call for call in story.acknowledged if story.is_safe(call)]
    starts = [line for lines in story.starts.values() for line in lines]
    return [
        PromiseResult(SAFE, len(safe), _lost(story, safe, jobs)),
        PromiseResult(OWN, len(starts) + len(jobs), _mixed_up(starts, jobs)),
        PromiseResult(ONCE, len(safe), _repeated(story, safe)),
        PromiseResult(ENDED, len(jobs), [f"job {job.id} is {job.state}" for job in jobs if job.state != "succeeded"]),
        PromiseResult(SOUND, 1, problems(connection)),
    ]


SAFE: Final = "acknowledged after a restore, there at the end"
OWN: Final = "no job runs, or ends, as another one"
ONCE: Final = "no restore between, no second run"
ENDED: Final = "every job ended, and none failed"
SOUND: Final = "the database itself is sound"


def _lost(story: Story, safe: list[str], jobs: list[Found]) -> list[str]:
    there = {(job.id, job.call) for job in jobs}
    return [f"{call}: job {story.acknowledged[call][0]} is missing" for call in safe
            if (story.acknowledged[call][0], call) not in there]  # fmt: skip


def _mixed_up(starts: list[Line], jobs: list[Found]) -> list[str]:
    broken = [f"{line.call!r} was run by {line.how}" for line in starts if (line.call or "").split()[0] != line.how]
    for job in jobs:
        asked = {"task": job.call.split()[0], "call": job.call}
        if job.task != asked["task"] or job.result not in (None, asked):
            broken.append(f"job {job.id} of {job.call!r} is of {job.task} and has the result {job.result}")
    return broken


def _repeated(story: Story, safe: list[str]) -> list[str]:
    """At least once: a restore may take back that a job has run. Without one between them there are no two runs."""
    broken = []
    for call in safe:
        runs = [story.between(line.at) for line in story.starts[call]]
        counted = [run for run in runs if run is not None]
        if len(counted) != len(set(counted)):
            broken.append(f"{call!r} was started {len(runs)} times, after restores {runs}")
    return broken
