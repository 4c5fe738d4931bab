"""`python -m chaos.restores --on sqlite --times 20 --seed 7`: an older copy of the database is put in its place under load.

Three ways: `sqlite` replaces the file, without its log; `cluster` puts back the data directory of a PostgreSQL server, from
pg_basebackup; `database` restores a dump into a new database, which then takes the name of the old one. No process of the load is
stopped. Afterwards `restore_checks` compares the ledgers with the database.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final, Protocol

from chaos.private_server import PrivateServer
from chaos.restore_checks import Restore, jobs_of, judge, story_of
from holdfast.errors import HoldfastError
from holdfast.torture.direct import connect
from holdfast.torture.fleet import OPEN_JOBS, Fleet, Plan
from holdfast.torture.ledgers import read
from holdfast.torture.run import Echo, check_counts, conduct, new_directory, new_seed, prepare
from holdfast.torture.summary import Figures, promise_figures, promise_lines, title

WAYS: Final = ("sqlite", "cluster", "database")
GO_ON_SECONDS: Final = 60.0
"""How long it may take after a restore until a job that was enqueued after it has run."""
WORDS: Final = "registers again"
"""What a worker logs when it has noticed a restore."""


class RestorePlan(Plan, frozen=True, kw_only=True):
    on: str
    times: int
    age: float
    """Seconds from a copy to its restore, and from a restore to the next copy: from half to one and a half of it."""

    @property
    def command(self) -> str:
        return f"python -m chaos.restores --on {self.on} --times {self.times} --age {self.age:g} --seed {self.seed}"


class Place(Protocol):
    """A database that can be copied and put back."""

    url: str

    def copy(self) -> None: ...
    def restore(self) -> None: ...


class SqliteFile:
    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, "jobs.db")
        self.url = f"sqlite:///{self._path}"

    def copy(self) -> None:
        with closing(sqlite3.connect(self._path)) as source, closing(sqlite3.connect(f"{self._path}.copy")) as target:
            source.backup(target)

    def restore(self) -> None:
        for ending in ("-wal", "-shm"):
            Path(self._path + ending).unlink(missing_ok=True)
        Path(f"{self._path}.copy").replace(self._path)


class Cluster:
    def __init__(self, server: PrivateServer) -> None:
        self.url = server.url()
        self.copy, self.restore = server.copy_cluster, server.restore_cluster


class Database:
    def __init__(self, server: PrivateServer) -> None:
        self.url = server.url()
        self.copy, self.restore = server.copy_database, server.restore_database


@contextmanager
def place_of(plan: RestorePlan) -> Iterator[Place]:
    if plan.on == "sqlite":
        yield SqliteFile(plan.directory)
        return
    server = PrivateServer.new()
    try:
        yield Cluster(server) if plan.on == "cluster" else Database(server)
    finally:
        Path(plan.logs, "server.log").write_text(server.log)
        server.close()


def conduct_restores(plan: RestorePlan, echo: Echo) -> Figures:
    chance, restores = random.Random(f"{plan.seed}/restores"), list[Restore]()
    with place_of(plan) as place:
        prepare(place.url)
        with closing(Fleet(plan, place.url, "chaos.restore_load")) as fleet:
            for number in range(plan.times):
                _wait(fleet, plan.age * chance.uniform(0.5, 1.5))
                copied = time.monotonic_ns()
                place.copy()
                _wait(fleet, plan.age * chance.uniform(0.5, 1.5))
                began = time.monotonic_ns()
                place.restore()
                restores.append(Restore(copied, began, time.monotonic_ns()))
                seconds = _seconds_until_work_goes_on(plan, fleet, restores[-1])
                echo(f"{number + 1:4} of {plan.times}: restored; work went on after {seconds:.1f} s")
            _drain(fleet, place.url)
        with closing(connect(place.url)) as connection:
            story, jobs = story_of(plan.ledgers, restores), jobs_of(connection)
            results = judge(story, jobs, connection)
    noticed = sum(path.read_text().count(WORDS) for path in Path(plan.logs).glob("worker-*.log"))
    if noticed < plan.times:
        fleet.surprises.append(f"the logs of the workers name {noticed} of {plan.times} restores")
    return {
        "ok": not fleet.surprises and not any(result.broken for result in results),
        "seed": plan.seed,
        "command": plan.command,
        "directory": plan.directory,
        "restores": len(restores),
        "requests": len(story.invoked),
        "acknowledged": len(story.acknowledged),
        "starts": sum(map(len, story.starts.values())),
        "jobs": len(jobs),
        "noticed": noticed,
        "surprises": fleet.surprises,
        "promises": promise_figures(results),
    }


def _wait(fleet: Fleet, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        fleet.fill()
        time.sleep(min(left, 0.2))


def _seconds_until_work_goes_on(plan: RestorePlan, fleet: Fleet, restore: Restore) -> float:
    """Until a job that was asked for after the restore has been run, by workers that were not started anew."""
    while (seconds := (time.monotonic_ns() - restore.over) / 1e9) < GO_ON_SECONDS:
        fleet.fill()
        lines = [line for line in read(plan.ledgers) if line.at > restore.over]
        asked = {call for line in lines if line.what == "invoke" for call in line.calls}
        if any(line.what == "end" and line.call in asked for line in lines):
            return seconds
        time.sleep(0.1)
    fleet.surprises.append(f"after a restore no new job was run for {GO_ON_SECONDS:g} s")
    return seconds


def _drain(fleet: Fleet, url: str) -> None:
    for slot in fleet.slots:
        if slot.role == "enqueuer":
            fleet.kill(slot)

    def open_jobs() -> int:
        with closing(connect(url)) as connection:
            return int(connection.execute(OPEN_JOBS).fetchone()[0])

    fleet.drain([slot for slot in fleet.slots if slot.role == "worker"], open_jobs)


def page(found: Figures) -> str:
    lines = [
        title("chaos.restores", found),
        "",
        f"  {found['restores']} restores, which workers named {found['noticed']} times in their logs",
        f"  {found['acknowledged']:,} of {found['requests']:,} requests acknowledged, {found['starts']:,} starts",
        f"  {found['jobs']:,} jobs at the end",
        "",
        *promise_lines(found),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.restores", description="Restores of older copies, under load.")
    parser.add_argument("--on", choices=WAYS, default="sqlite", help="what is restored (default: sqlite)")
    parser.add_argument("--times", type=int, default=20, help="how many restores (default: 20)")
    parser.add_argument("--age", type=float, default=5.0, help="about how many seconds old a copy is (default: 5)")
    parser.add_argument("--seed", type=int, help="repeat the run with this seed (default: a new one, which is printed)")
    parser.add_argument("--dir", dest="directory", help="where ledgers and logs go, and are kept (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    try:
        check_counts(times=options.times)
        seed = new_seed() if options.seed is None else options.seed
        plan = RestorePlan(
            seed=seed, workers=2, enqueuers=2, directory=new_directory(f"holdfast-restores-{seed}-", options.directory),
            on=options.on, times=options.times, age=options.age,
        )  # fmt: skip
        work: Callable[[Echo], Figures] = lambda echo: conduct_restores(plan, echo)  # noqa: E731
        return conduct(plan, work, page, options.json, keep=options.directory is not None)
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
