"""What is measured, and how much of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from bench.against import twins
from bench.ground import Figures, per_job
from bench.measure import Record, in_turn, take_turn, take_turns
from bench.process import Child, ChildFailed
from bench.systems import Entry

THREADS = 16
WARM_JOBS = 5
SETTLE_SECONDS = 1.5
CYCLE_JOBS = 500
"""Half of the smallest backlog: one that runs dry is spared what the others claim ahead."""
CYCLE_SECONDS = 3.0
PICKUP_SECONDS = 120.0
HOLD_SECONDS = 300.0
EDGE_SECONDS = 0.5
PLAIN = "plain"
SPECIAL_TEXTS = {  # bulk whose options differ from job to job
    "keys": "with keys",
    "tags": "with tags",
    "priorities": "with priorities",
    "all": "with key, tags, priority, meta",
}

Backlogs = dict[tuple[str, str], Child]  # by system and level, the process that takes jobs off it


@dataclass(frozen=True, slots=True)
class Sizes:
    rounds: int = 3
    one: int = 4_000
    threads: int = 9_600
    bulk: int = 50_000
    special_seconds: float = 10.0
    drain: int = 40_000
    pickup: int = 250
    pickup_rounds: int = 3
    pickup_gap: float = 0.03
    idle_seconds: float = 8.0
    backlogs: tuple[int, ...] = (1_000, 100_000, 1_000_000)
    finished: int = 1_000_000
    scheduled: int = 0
    cycles: int = 24
    sustained: int = 20_000
    sustained_cycles: int = 5
    rival_cycles: int = 3
    rival_backlog_max: int = 100_000
    rival_drain_max: int = 3_000
    hold: int = 0
    hold_lap: int = 0
    hold_rounds: int = 3

    @property
    def besides(self) -> list[str]:
        """Backlogs behind a long history, and beside much that is not yet due."""
        return [f"finished {self.finished}", *([f"scheduled {self.scheduled}"] if self.scheduled else [])]

    @property
    def levels(self) -> list[str]:
        """The backlogs whose claim rate is held against that of a small one."""
        return [*(f"ready {jobs}" for jobs in self.backlogs[1:]), *self.besides]


FULL = Sizes()
QUICK = Sizes(
    rounds=2,
    one=500,
    threads=1_600,
    bulk=20_000,
    special_seconds=2.0,
    drain=15_000,
    pickup=200,
    pickup_rounds=1,
    pickup_gap=0.02,
    idle_seconds=5.0,
    backlogs=(1_000, 10_000, 100_000),
    finished=100_000,
    cycles=8,
    sustained=5_000,
    sustained_cycles=3,
    rival_cycles=1,
    rival_backlog_max=10_000,
    rival_drain_max=1_000,
)
POSTGRESQL = Sizes(
    rounds=5,
    one=3_000,
    bulk=200_000,
    drain=100_000,
    pickup=500,
    idle_seconds=61.0,  # once a minute a worker tends to all: no less would be a fair share of that
    backlogs=(1_000, 1_000_000, 5_000_000),
    finished=5_000_000,
    scheduled=1_000_000,
    cycles=36,
    rival_backlog_max=100_000,  # they take up to half an hour to be given more
    rival_drain_max=10_000,
    hold=500_000,
    hold_lap=50_000,
)
POSTGRESQL_QUICK = replace(
    QUICK,
    bulk=50_000,
    drain=20_000,
    backlogs=(1_000, 50_000, 200_000),
    finished=100_000,
    scheduled=50_000,
    rival_backlog_max=50_000,
    rival_drain_max=5_000,
    hold=100_000,
    hold_lap=10_000,
    hold_rounds=1,
)


def with_rounds(sizes: Sizes, rounds: int | None) -> Sizes:
    return replace(sizes, rounds=rounds) if rounds else sizes


def one_by_one(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    def run(entry: Entry, directory: Path) -> Figures:
        return metered(record, entry, directory, "one", jobs=sizes.one)

    take_turns(record, "one", entries, sizes.rounds, run)


def by_threads(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    def run(entry: Entry, directory: Path) -> Figures:
        with Child(entry, directory) as child:
            return child.call("threads", jobs=sizes.threads, number=THREADS)

    take_turns(record, "threads", entries, sizes.rounds, run)


def in_bulk(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    def run(entry: Entry, directory: Path) -> Figures:
        return metered(record, entry, directory, "bulk", jobs=min(sizes.bulk, entry.bulk_jobs_max))

    take_turns(record, "bulk", entries, sizes.rounds, run)


def special(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    """All kinds in each round, plain bulk among them: what they are held against was measured within the same minute."""
    for number in range(sizes.rounds):
        for kind in in_turn([PLAIN, *SPECIAL_TEXTS], number):
            special_turn(record, entries, sizes, number, kind)


def special_turn(record: Record, entries: Sequence[Entry], sizes: Sizes, number: int, kind: str) -> None:
    def run(entry: Entry, directory: Path) -> Figures:
        return metered(record, entry, directory, "special", kind=kind, jobs=sizes.bulk, seconds=sizes.special_seconds)

    take_turn(record, f"special {kind}", entries, number, run)


def metered(record: Record, entry: Entry, directory: Path, verb: str, **arguments: Any) -> Figures:
    """With what it costs the server: from when the process is connected and its schema there, to after it has gone.

    The server learns late of commits, so those of the schema may be among them.
    """
    with Child(entry, directory) as child:
        before = record.where.used(directory)
        figures = child.call(verb, **arguments)
    return figures | per_job(before, record.where.used(directory), int(figures["jobs"]))


def drain_by_one(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    take_turns(record, "drain1", entries, sizes.rounds, lambda entry, directory: drain(record, entry, directory, sizes, 1))


def drain_by_two(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    take_turns(record, "drain2", entries, sizes.rounds, lambda entry, directory: drain(record, entry, directory, sizes, 2))


def drain(record: Record, entry: Entry, directory: Path, sizes: Sizes, workers: int) -> Figures:
    jobs = sizes.drain if entry.drain_jobs_max > sizes.drain else min(entry.drain_jobs_max, sizes.rival_drain_max)
    seed(entry, directory, jobs)
    record.where.settle(directory)
    with ExitStack() as stack:
        children = [stack.enter_context(Child(entry, directory)) for _ in range(workers)]
        before = record.where.used(directory)
        for child in children:
            child.tell("drain", jobs=jobs)
        figures = together([child.hear() for child in children], jobs)
    return figures | per_job(before, record.where.used(directory), jobs)


def together(workers: Sequence[Figures], jobs: int) -> Figures:
    """The rate of several workers over the time from the first job of any to the last job of all."""
    runs = sum(figures["runs"] for figures in workers)
    if runs < jobs:
        raise ChildFailed(f"only {runs:,.0f} of {jobs:,} jobs were run")
    busy = [figures for figures in workers if figures["runs"]]
    took = max(figures["last"] for figures in busy) - min(figures["first"] for figures in busy)
    return {
        "rate": (jobs - 1) / took,
        "cpu_us": sum(figures["cpu_us"] * figures["runs"] for figures in busy) / jobs,
        "runs_too_many": runs - jobs,
        "return_seconds": max(figures["return_seconds"] for figures in workers),
        "peak_mb": max(figures["peak_mb"] for figures in busy),
    }


def seed(entry: Entry, directory: Path, jobs: int) -> Figures:
    """In a process of its own, whose end also checkpoints the file."""
    with Child(entry, directory) as child:
        return child.call("bulk", jobs=jobs)


def pickup(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    def run(entry: Entry, directory: Path) -> Figures:
        with Child(entry, directory) as sender, Child(entry, directory) as worker:
            worker.tell("receive", jobs=sizes.pickup, warm=WARM_JOBS, seconds=PICKUP_SECONDS)
            sender.call("send", jobs=sizes.pickup + WARM_JOBS, gap=sizes.pickup_gap)
            return worker.hear()

    take_turns(record, "pickup", entries, sizes.pickup_rounds, run)


def idle(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    """All at once: idle workers do not disturb each other."""
    with ExitStack() as stack:
        children = {}
        places = {}
        for entry in entries:
            directory = places[entry.name] = stack.enter_context(record.where.fresh())
            stack.enter_context(record.where.watched(directory))
            with record.noting("idle", entry.name):
                children[entry.name] = stack.enter_context(Child(entry, directory))
                children[entry.name].tell("idle", settle=SETTLE_SECONDS, seconds=sizes.idle_seconds)
        spoken = statements(record, places, sizes)
        for name, child in children.items():
            with record.noting("idle", name):
                record.add("idle", name, child.hear() | spoken[name])


def statements(record: Record, places: dict[str, Path], sizes: Sizes) -> dict[str, Figures]:
    """What each idle worker says to its server, while all of them idle."""
    sleep(SETTLE_SECONDS + EDGE_SECONDS)
    before = {name: record.where.statements(place) for name, place in places.items()}
    since = monotonic()
    sleep(max(0.0, sizes.idle_seconds - 2 * EDGE_SECONDS))
    took = monotonic() - since
    rates: dict[str, Figures] = {}
    for name, place in places.items():
        first, last = before[name], record.where.statements(place)
        rates[name] = {"statements": (last - first) / took} if last is not None and first is not None else {}
    return rates


def claim(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    for group in twins(entries):
        claim_of(record, group, sizes)


def claim_of(record: Record, group: Sequence[Entry], sizes: Sizes) -> None:
    """Standing backlogs side by side; some jobs are taken off each in turn, and as many put back."""
    whole = "million" in group[0].measures
    ready = [f"ready {jobs}" for jobs in sizes.backlogs if whole or jobs <= sizes.rival_backlog_max]
    least = f"ready {sizes.sustained}"
    with ExitStack() as stack:
        stood: Backlogs = {}
        for number, level in enumerate([least, *sizes.besides, *ready] if whole else ready):
            stand(record, group, sizes, level, number, stood, stack)
        for number in range(sizes.cycles if whole else sizes.rival_cycles):
            turn(record, "claim", group, stood, number, [*sizes.besides, *ready] if whole else ready, CYCLE_JOBS)
        for number in range(sizes.sustained_cycles if whole else 0):
            turn(record, "sustained", group, stood, number, [least, *sizes.levels], sizes.sustained)


def stand(
    record: Record, group: Sequence[Entry], sizes: Sizes, level: str, number: int, stood: Backlogs, stack: ExitStack
) -> None:
    """Both checkouts' backlogs of a level are made one right after the other, so that they are of the same age."""
    for entry in in_turn(group, number):
        if not record.failed("claim", entry.name):
            with record.noting("claim", entry.name):
                stood[entry.name, level] = backlog(record, entry, sizes, level, stack)


def backlog(record: Record, entry: Entry, sizes: Sizes, level: str, stack: ExitStack) -> Child:
    """Of so many jobs; or just large enough for a long look, behind a long history or beside much that is not yet due."""
    state, jobs = level.split()
    directory = stack.enter_context(record.where.fresh())
    if state == "finished":
        million(record, entry, directory, int(jobs))
    if state == "scheduled":
        with Child(entry, directory) as child:
            child.call("later", jobs=int(jobs))
    seed(entry, directory, int(jobs) if state == "ready" else sizes.sustained)
    record.where.settle(directory)
    return stack.enter_context(Child(entry, directory))


def turn(
    record: Record, measure: str, group: Sequence[Entry], stood: Backlogs, number: int, levels: Sequence[str], jobs: int
) -> None:
    """Level by level, so that the same one of both checkouts comes one right after the other."""
    for level in levels:
        for entry in in_turn(group, number):
            if not record.failed("claim", entry.name):
                with record.noting("claim", entry.name):
                    figures = stood[entry.name, level].call("cycle", jobs=jobs, seconds=CYCLE_SECONDS)
                    record.add(f"{measure}, {level}", entry.name, figures)


def million(record: Record, entry: Entry, directory: Path, jobs: int) -> None:
    """One long run for the memory of the enqueuer and of the worker."""
    record.add("long enqueue", entry.name, seed(entry, directory, jobs))
    with Child(entry, directory) as child:
        figures = child.call("drain", jobs=jobs)
    together([figures], jobs)  # refuses a worker that left jobs behind
    record.add("long drain", entry.name, figures)


def hold(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    """Many jobs go through while a transaction elsewhere keeps vacuum from removing what they leave behind.

    No checkpoint comes before them: it would leave the first jobs clean buffers and ready-made files of the log, which all
    others have to write out and to make, and so slow down without any fault of the transaction. A lap is short, and autovacuum
    may fall into it: hence some rounds, but for rivals, who need minutes.
    """

    def run(entry: Entry, directory: Path) -> Figures:
        with Child(entry, directory) as child, record.where.held(directory):
            child.call("bulk", jobs=sizes.hold)
            return child.call("drain", seconds=HOLD_SECONDS, lap=sizes.hold_lap)

    whole = [entry for entry in entries if "million" in entry.measures]
    take_turns(record, "hold", whole, sizes.hold_rounds, run)
    take_turns(record, "hold", [entry for entry in entries if entry not in whole], 1, run)


Measure = Callable[[Record, Sequence[Entry], Sizes], None]

MEASURES: dict[str, Measure] = {
    "one": one_by_one,
    "threads": by_threads,
    "bulk": in_bulk,
    "special": special,
    "drain1": drain_by_one,
    "drain2": drain_by_two,
    "pickup": pickup,
    "idle": idle,
    "claim": claim,
    "hold": hold,
}
