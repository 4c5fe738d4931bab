"""What is measured, and how much of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from bench.measure import Figures, Record, fresh_directory, take_turns
from bench.process import Child, ChildFailed
from bench.systems import Entry

THREADS = 16
WARM_JOBS = 5
SETTLE_SECONDS = 1.5
CYCLE_JOBS = 1_000
CYCLE_SECONDS = 3.0
PICKUP_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Sizes:
    rounds: int = 3
    one: int = 4_000
    threads: int = 3_200
    bulk: int = 50_000
    drain: int = 40_000
    pickup: int = 250
    pickup_rounds: int = 2
    pickup_gap: float = 0.03
    idle_seconds: float = 8.0
    backlogs: tuple[int, ...] = (1_000, 100_000, 1_000_000)
    finished: int = 1_000_000
    cycles: int = 12
    sustained: int = 20_000
    sustained_cycles: int = 5
    rival_cycles: int = 3
    rival_backlog_max: int = 100_000
    rival_drain_max: int = 3_000


FULL = Sizes()
QUICK = Sizes(
    rounds=2,
    one=500,
    threads=1_600,
    bulk=20_000,
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


def with_rounds(sizes: Sizes, rounds: int | None) -> Sizes:
    return replace(sizes, rounds=rounds) if rounds else sizes


def one_by_one(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    def run(entry: Entry, directory: Path) -> Figures:
        with Child(entry.name, directory) as child:
            return child.call("one", jobs=sizes.one)

    take_turns(record, "one", entries, sizes.rounds, run)


def by_threads(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    def run(entry: Entry, directory: Path) -> Figures:
        with Child(entry.name, directory) as child:
            return child.call("threads", jobs=sizes.threads, number=THREADS)

    take_turns(record, "threads", entries, sizes.rounds, run)


def in_bulk(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    def run(entry: Entry, directory: Path) -> Figures:
        with Child(entry.name, directory) as child:
            return child.call("bulk", jobs=min(sizes.bulk, entry.bulk_jobs_max))

    take_turns(record, "bulk", entries, sizes.rounds, run)


def drain_by_one(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    take_turns(record, "drain1", entries, sizes.rounds, lambda entry, directory: drain(entry, directory, sizes, 1))


def drain_by_two(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    take_turns(record, "drain2", entries, sizes.rounds, lambda entry, directory: drain(entry, directory, sizes, 2))


def drain(entry: Entry, directory: Path, sizes: Sizes, workers: int) -> Figures:
    jobs = sizes.drain if entry.drain_jobs_max > sizes.drain else min(entry.drain_jobs_max, sizes.rival_drain_max)
    seed(entry, directory, jobs)
    with ExitStack() as stack:
        children = [stack.enter_context(Child(entry.name, directory)) for _ in range(workers)]
        for child in children:
            child.tell("drain", jobs=jobs)
        return together([child.hear() for child in children], jobs)


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
    with Child(entry.name, directory) as child:
        return child.call("bulk", jobs=jobs)


def pickup(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    def run(entry: Entry, directory: Path) -> Figures:
        with Child(entry.name, directory) as sender, Child(entry.name, directory) as worker:
            worker.tell("receive", jobs=sizes.pickup, warm=WARM_JOBS, seconds=PICKUP_SECONDS)
            sender.call("send", jobs=sizes.pickup + WARM_JOBS, gap=sizes.pickup_gap)
            return worker.hear()

    take_turns(record, "pickup", entries, sizes.pickup_rounds, run)


def idle(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    """All at once: idle workers do not disturb each other."""
    with ExitStack() as stack:
        children = {}
        for entry in entries:
            directory = stack.enter_context(fresh_directory())
            try:
                children[entry.name] = stack.enter_context(Child(entry.name, directory))
                children[entry.name].tell("idle", settle=SETTLE_SECONDS, seconds=sizes.idle_seconds)
            except ChildFailed as failure:
                record.failures[f"idle {entry.name}"] = str(failure)
        for name, child in children.items():
            try:
                record.add("idle", name, child.hear())
            except ChildFailed as failure:
                record.failures[f"idle {name}"] = str(failure)


def claim(record: Record, entries: Sequence[Entry], sizes: Sizes) -> None:
    for entry in entries:
        try:
            claim_of(record, entry, sizes)
        except ChildFailed as failure:
            record.failures[f"claim {entry.name}"] = str(failure)


def claim_of(record: Record, entry: Entry, sizes: Sizes) -> None:
    """Standing backlogs side by side; some jobs are taken off each in turn, and as many put back."""
    whole = "million" in entry.measures
    with ExitStack() as stack:
        backlogs = standing(record, entry, sizes, stack) if whole else {}
        for backlog in (jobs for jobs in sizes.backlogs if whole or jobs <= sizes.rival_backlog_max):
            backlogs[f"ready {backlog}"] = backlog_of(entry, backlog, stack)
        short = {level: child for level, child in backlogs.items() if level != f"ready {sizes.sustained}"}
        for _ in range(sizes.cycles if whole else sizes.rival_cycles):
            turn(record, "claim", entry, short, CYCLE_JOBS)
        long = {level: backlogs[level] for level in sustained_levels(sizes)} if whole else {}
        for _ in range(sizes.sustained_cycles):
            turn(record, "sustained", entry, long, sizes.sustained)


def standing(record: Record, entry: Entry, sizes: Sizes, stack: ExitStack) -> dict[str, Child]:
    """The backlog just large enough for a long look, and the one behind a long history."""
    directory = stack.enter_context(fresh_directory())
    million(record, entry, directory, sizes.finished)
    seed(entry, directory, sizes.sustained)
    return {
        f"finished {sizes.finished}": stack.enter_context(Child(entry.name, directory)),
        f"ready {sizes.sustained}": backlog_of(entry, sizes.sustained, stack),
    }


def backlog_of(entry: Entry, jobs: int, stack: ExitStack) -> Child:
    directory = stack.enter_context(fresh_directory())
    seed(entry, directory, jobs)
    return stack.enter_context(Child(entry.name, directory))


def sustained_levels(sizes: Sizes) -> list[str]:
    return [f"ready {sizes.sustained}", f"ready {sizes.backlogs[-1]}", f"finished {sizes.finished}"]


def turn(record: Record, measure: str, entry: Entry, levels: dict[str, Child], jobs: int) -> None:
    for level, child in levels.items():
        record.add(f"{measure}, {level}", entry.name, child.call("cycle", jobs=jobs, seconds=CYCLE_SECONDS))


def million(record: Record, entry: Entry, directory: Path, jobs: int) -> None:
    """One long run for the memory of the enqueuer and of the worker."""
    record.add("long enqueue", entry.name, seed(entry, directory, jobs))
    with Child(entry.name, directory) as child:
        figures = child.call("drain", jobs=jobs)
    together([figures], jobs)  # refuses a worker that left jobs behind
    record.add("long drain", entry.name, figures)


MEASURES: dict[str, Callable[[Record, Sequence[Entry], Sizes], None]] = {
    "one": one_by_one,
    "threads": by_threads,
    "bulk": in_bulk,
    "drain1": drain_by_one,
    "drain2": drain_by_two,
    "pickup": pickup,
    "idle": idle,
    "claim": claim,
}
