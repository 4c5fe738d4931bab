"""python -m bench.watchers: how many can watch one server, how soon they hear, what each costs, and what is left when they go.

One `holdfast serve` holds many streams of jobs that wait, and some of jobs that each say something twice a second; then many
come and go. Everybody is on this machine: the worker that runs the jobs, and the process with all the clients in it.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from bench.chorus import GAP_SECONDS, rest, sing
from bench.databases import files, server
from bench.ground import RESULTS, Figures, database_url
from bench.measure import surroundings
from bench.report import write
from bench.watched import Program, Watched
from bench.watchers_report import document, promised, text
from holdfast import Holdfast

IDLE_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 30.0
WARM_CYCLES: Final = 1_000
SIZES: Final = ("idle", "active", "seconds", "cycles")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.watchers", description=__doc__)
    parser.add_argument("--on", choices=["sqlite", "postgresql"], default="sqlite", help="the database; sqlite unless told")
    parser.add_argument("--idle", type=int, default=2_000, help="streams on which nothing happens")
    parser.add_argument("--active", type=int, default=500, help="streams with two events a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="for so long")
    parser.add_argument("--cycles", type=int, default=10_000, help="clients that come and go")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write the figures")
    return parser.parse_args()


def raise_limit() -> None:
    """Of files that may be open; those we start inherit it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def measure(options: argparse.Namespace, directory: Path, url: str, stack: ExitStack) -> Figures:
    figures: Figures = {}
    app = stack.enter_context(Holdfast(url))
    app.migrate()
    resting = [job.id for job in app.enqueue_many(rest.using(run_after=86_400).bind() for _ in range(options.idle))]
    singing = [job.id for job in app.enqueue_many(sing.bind(options.seconds, GAP_SECONDS) for _ in range(options.active))]
    watched = Watched(directory, url)
    stack.callback(watched.close)
    crowd = Program(directory, url, "bench.crowd", str(watched.port))
    stack.callback(crowd.close)
    crowd.ask("come_and_go", ids=resting, count=100)
    hold(figures, watched, crowd, resting, options.seconds)
    speak(figures, watched, crowd, singing, directory, url)
    said = sum(job.event_count for job in app.jobs(task="sing", limit=1_000)) - 3 * len(singing)
    figures["missing"] = said - figures["events"]
    come_and_go(figures, watched, crowd, resting, options.cycles)
    figures["complaints"] = sum("Traceback" in line or "ERROR" in line for line in watched.complaints.splitlines())
    return figures


def hold(figures: Figures, watched: Watched, crowd: Program, resting: list[str], seconds: float) -> None:
    before = watched.holds()
    figures["connects_per_second"] = len(resting) / crowd.ask("watch", ids=resting)["seconds"]
    after = watched.holds()
    figures["kb_per_watcher"] = (after["mb"] - before["mb"]) * 1024 / len(resting)
    figures["tasks_per_watcher"] = (after["tasks"] - before["tasks"]) / len(resting)
    with watched.used(figures, "idle"):
        sleep(min(IDLE_SECONDS, seconds))


def speak(figures: Figures, watched: Watched, crowd: Program, singing: list[str], directory: Path, url: str) -> None:
    crowd.ask("watch", ids=singing)
    figures["mb"] = watched.megabytes()
    heard, commits = directory / "heard.json", directory / "commits.json"
    with watched.used(figures, "active"):
        worker = Program(directory, url, "bench.chorus", str(commits), str(len(singing)))
        try:
            told = crowd.ask("hear", path=str(heard), count=len(singing))
            worker.process.wait(SETTLE_SECONDS)
        finally:
            worker.close()
    figures["pause_ms"] = watched.holds()["pause_ms"]
    figures |= {"events": told["events"], "client_lag_p99_ms": told["lag_p99_ms"]}
    figures["cpu_us_per_event"] = figures["active_cpu_seconds"] / max(1, told["events"]) * 1e6
    late(figures, json.loads(heard.read_text()), dict(json.loads(commits.read_text())))


def late(figures: Figures, heard: list[tuple[int, int]], committed: dict[int, int]) -> None:
    """From the commit, and from when it was said."""
    since_commit = sorted((came - committed[said]) / 1e6 for said, came in heard)
    since_said = sorted((came - said) / 1e6 for said, came in heard)
    for name, ordered in (("commit", since_commit), ("said", since_said)):
        for mark, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
            figures[f"{name}_{mark}_ms"] = ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def come_and_go(figures: Figures, watched: Watched, crowd: Program, resting: list[str], cycles: int) -> None:
    crowd.ask("leave")
    crowd.ask("come_and_go", ids=resting, count=min(cycles, WARM_CYCLES))
    before = settled(watched)
    figures["cycles_per_second"] = crowd.ask("come_and_go", ids=resting, count=cycles)["per_second"]
    after = settled(watched, before)
    for name in before:
        figures |= {f"{name}_before": before[name], f"{name}_after": after[name]}


def settled(watched: Watched, before: Figures | None = None) -> Figures:
    """What it holds when it holds no less than a moment ago, or no more than before."""
    deadline, last = monotonic() + SETTLE_SECONDS, watched.holds()
    while monotonic() < deadline:
        sleep(1.0)
        now = watched.holds()
        if (now["tasks"], now["descriptors"]) == (last["tasks"], last["descriptors"]) if before is None else is_back(now, before):
            return now
        last = now
    return last


def is_back(now: Figures, before: Figures) -> bool:
    return now["tasks"] <= before["tasks"] and now["descriptors"] <= before["descriptors"]


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that children, files and a server of ours go too
    options = arguments()
    raise_limit()
    seen = {"start": surroundings()}
    with files() if options.on == "sqlite" else server() as ground, ground.fresh() as directory, ExitStack() as stack:
        url = f"sqlite:///{directory}/jobs.db" if options.on == "sqlite" else database_url(directory)
        figures = measure(options, directory, url, stack)
        about = ground.about()
    seen["end"] = surroundings()
    sizes = {name: getattr(options, name) for name in SIZES}
    print(text(sizes, figures, seen, options.on))
    path = options.json or RESULTS / time.strftime("watchers-%Y%m%d-%H%M%S.json", time.gmtime())
    print(f"\n{write(path, document(sizes, figures, seen, about))}")
    return 0 if all(one.met for one in promised(figures)) else 1


if __name__ == "__main__":
    sys.exit(main())
