"""`python -m chaos.limits --on sqlite --runs 50000 --seed 7`: limits of queues, with workers that are killed at random.

Every run writes its start and its end into a ledger outside the database. Afterwards a sweep over these intervals looks for a
moment at which a limit was exceeded. A run of a killed process ends with it: its code does nothing after that, though its
claim lasts until its lease has run out. A rate is counted twice: by the times that claims recorded; and by the ledger, where the
code of a run begins a little after its claim. A depth is looked at by a connection of its own, all the time.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from chaos.limit_load import BOUND, GAP_SECONDS, LIMITS, RATE
from chaos.private_server import PrivateServer
from holdfast.domain.limits import Rate
from holdfast.errors import HoldfastError
from holdfast.torture.checker import PromiseResult
from holdfast.torture.direct import Direct, connect
from holdfast.torture.fleet import Fleet, Plan
from holdfast.torture.ledgers import Line, read
from holdfast.torture.run import Echo, check_counts, conduct, new_directory, new_seed, prepare
from holdfast.torture.summary import Figures, promise_figures, promise_lines, title

KILL_SECONDS: Final = 0.7
LATE_SECONDS: Final = 0.25
"""How much later than its claim the code of a run may begin on a busy machine; by so much the ledger's intervals are wider."""
CLOCK_SECONDS: Final = {"sqlite": 0.001, "postgresql": 0.02}
"""Times of different processes are this exact: on PostgreSQL each knows the server's clock by its own measurement."""
DEPTH: Final = """
SELECT count(*)
  FROM (SELECT seq, lane FROM holdfast_ready UNION ALL SELECT seq, lane FROM holdfast_scheduled) AS waiting
  JOIN holdfast_lane AS lane ON lane.lane = waiting.lane
  LEFT JOIN holdfast_job_state AS state ON state.seq = waiting.seq
 WHERE lane.queue = 'bounded' AND state.seq IS NULL
"""
"""Jobs that wait and were never started: what comes back from a killed worker is not refused, whatever the depth."""
CLAIMS: Final = """
SELECT event.at FROM holdfast_event AS event JOIN holdfast_job AS job ON job.seq = event.job
  JOIN holdfast_lane AS lane ON lane.lane = job.lane WHERE event.kind = 'started' AND lane.queue = 'paced' ORDER BY event.at
"""


class LimitPlan(Plan, frozen=True, kw_only=True):
    on: str
    runs: int

    @property
    def command(self) -> str:
        return f"python -m chaos.limits --on {self.on} --runs {self.runs} --seed {self.seed}"


class Interval(NamedTuple):
    """A run, in seconds of the monotonic clock."""

    queue: str
    start: float
    end: float


def intervals(lines: list[Line]) -> list[Interval]:
    """By start. A run whose process was killed ended then, if not before."""
    killed = {int(pid): line.at for line in lines if line.what == "kill" for pid in line.ids}
    ends = {(line.call, line.token): line.at for line in lines if line.what == "end"}
    last = max(line.at for line in lines)
    return sorted(
        (
            Interval(line.how or "", line.at / 1e9, ends.get((line.call, line.token), killed.get(line.pid, last)) / 1e9)
            for line in lines
            if line.what == "start"
        ),
        key=lambda run: run.start,
    )


# The promises


def together(runs: list[Interval], most: int) -> list[str]:
    """A sweep: at each start, which of the earlier runs have not ended."""
    open_ends: list[float] = []
    broken = []
    for run in runs:
        open_ends = [end for end in open_ends if end > run.start]
        open_ends.append(run.end)
        if len(open_ends) > most:
            broken.append(f"{run.queue}: {len(open_ends)} at once, at {run.start:.6f}")
    return broken


def apart(runs: list[Interval], gap: float, clock: float) -> list[str]:
    """From the end of any run to the next start."""
    broken = []
    for before, after in pairwise(runs):
        if after.start - before.end < gap - clock:
            broken.append(f"{after.queue}: {after.start - before.end:.6f} s after the end of the one before")
    return broken


def paced(starts: list[float], rate: Rate, late: float) -> list[str]:
    """No interval between two starts has more than burst + rate * t, by a bucket that leaks: the same as to look at all pairs."""
    seconds, level, before = rate.interval / 1e6, 0.0, 0.0
    broken = []
    for start in starts:
        level = max(0.0, level - (start - before) / seconds) + 1
        before = start
        if level > rate.at_once + late / seconds + 1e-6:
            broken.append(f"{level:.2f} starts in a bucket of {rate.at_once}, at {start:.6f}")
    return broken


def judge(runs: list[Interval], claims: list[float], depths: list[int], clock: float) -> list[PromiseResult]:
    of = {queue: [run for run in runs if run.queue == queue] for queue in LIMITS}
    most = {queue: limits["concurrency"] for queue, limits in LIMITS.items() if "concurrency" in limits}
    starts = [run.start for run in of["paced"]]
    return [
        *(
            PromiseResult(f"at most {n} of queue {queue} at once", len(of[queue]), together(of[queue], n))
            for queue, n in most.items()
        ),
        PromiseResult(
            f"{GAP_SECONDS:g} s from an end to the next start", len(of["gapped"]), apart(of["gapped"], GAP_SECONDS, clock)
        ),
        PromiseResult("no interval of claims over its rate", len(claims), paced(claims, RATE, clock)),
        PromiseResult("no interval of the ledger over its rate", len(starts), paced(starts, RATE, LATE_SECONDS)),
        PromiseResult(f"depth never above {BOUND}", len(depths), [f"depth {depth}" for depth in depths if depth > BOUND]),
    ]


# The run


def keep_limits(plan: LimitPlan, echo: Echo) -> Figures:
    chance, began = random.Random(f"{plan.seed}/kills"), time.monotonic()
    depths: list[int] = []
    with place_of(plan) as url:
        prepare(url)
        with closing(Fleet(plan, url, "chaos.limit_load")) as fleet, closing(connect(url)) as onlooker:
            _strike(plan, fleet, onlooker, chance, depths, echo)
            seconds = time.monotonic() - began
            for slot in fleet.slots:
                fleet.kill(slot)
        with closing(connect(url)) as connection:
            claims = [at / 1e6 for (at,) in connection.execute(CLAIMS).fetchall()]
    lines = list(read(plan.ledgers))
    runs = intervals(lines)
    results = judge(runs, claims, depths, CLOCK_SECONDS[plan.on])
    return {
        "ok": not fleet.surprises and not any(result.broken for result in results),
        "seed": plan.seed,
        "command": plan.command,
        "directory": plan.directory,
        "on": plan.on,
        "seconds": round(seconds, 1),
        "kills": fleet.kills,
        "runs": len(runs),
        "runs_by_queue": {queue: sum(run.queue == queue for run in runs) for queue in LIMITS},
        "full": sum(line.what == "full" for line in lines),
        "depth_max": max(depths, default=0),
        "surprises": fleet.surprises,
        "promises": promise_figures(results),
    }


def _strike(plan: LimitPlan, fleet: Fleet, onlooker: Direct, chance: random.Random, depths: list[int], echo: Echo) -> None:
    told = looked = 0.0
    strike = time.monotonic() + KILL_SECONDS
    while True:
        fleet.fill()
        depths.append(int(onlooker.execute(DEPTH).fetchone()[0]))
        now = time.monotonic()
        if now >= strike:
            fleet.kill(chance.choice(fleet.slots))
            strike = now + chance.uniform(0.0, 2 * KILL_SECONDS)
        if now - looked > 1.0:
            looked, done = now, _started(plan.ledgers)
            if now - told > 10.0:
                told = now
                echo(f"{done:,} of {plan.runs:,} runs, {sum(fleet.kills.values())} kills")
            if done >= plan.runs:
                return
        time.sleep(0.005)


def _started(directory: str) -> int:
    return sum(Path(directory, name).read_bytes().count(b'"start"') for name in os.listdir(directory))


@contextmanager
def place_of(plan: LimitPlan) -> Iterator[str]:
    if plan.on == "sqlite":
        yield f"sqlite:///{os.path.join(plan.directory, 'jobs.db')}"
        return
    server = PrivateServer.new()
    try:
        yield server.url()
    finally:
        Path(plan.logs, "server.log").write_text(server.log)
        server.close()


def page(found: Figures) -> str:
    kills = found["kills"]
    lines = [
        title("chaos.limits", found),
        "",
        f"  {found['runs']:,} runs in {found['seconds']:,} s on {found['on']}",
        f"  {kills['worker']} workers and {kills['enqueuer']} enqueuers killed",
        "  " + ", ".join(f"{queue} {count:,}" for queue, count in found["runs_by_queue"].items()),
        f"  {found['full']:,} times a queue was full; its depth was {found['depth_max']} at most",
        "",
        *promise_lines(found),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.limits", description="Limits of queues, with workers that are killed.")
    parser.add_argument("--on", choices=("sqlite", "postgresql"), default="sqlite", help="which database (default: sqlite)")
    parser.add_argument("--runs", type=int, default=50_000, help="how many runs (default: 50,000)")
    parser.add_argument("--workers", type=int, default=4, help="(default: 4)")
    parser.add_argument("--enqueuers", type=int, default=3, help="(default: 3)")
    parser.add_argument("--seed", type=int, help="repeat the run with this seed (default: a new one, which is printed)")
    parser.add_argument("--dir", dest="directory", help="where ledgers and logs go, and are kept (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    try:
        check_counts(runs=options.runs, workers=options.workers, enqueuers=options.enqueuers)
        seed = new_seed() if options.seed is None else options.seed
        plan = LimitPlan(
            seed=seed, workers=options.workers, enqueuers=options.enqueuers,
            directory=new_directory(f"holdfast-limits-{seed}-", options.directory), on=options.on, runs=options.runs,
        )  # fmt: skip
        return conduct(plan, lambda echo: keep_limits(plan, echo), page, options.json, keep=options.directory is not None)
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
