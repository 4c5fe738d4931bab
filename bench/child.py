"""One process of one system: reads commands as JSON lines, does them, answers with figures as JSON lines."""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Event, Thread, Timer
from time import monotonic, monotonic_ns, perf_counter, process_time, sleep
from typing import TextIO

from bench import job
from bench.checkout import prove
from bench.job import payload, payloads
from bench.systems import System, open_system
from bench.usage import cpu_seconds, peak_megabytes

Figures = dict[str, float]

FIRST_JOBS = 1_000


def timed(jobs: int, work: Callable[[], None]) -> Figures:
    """How fast so many jobs went, and what each cost this process."""
    before, start = cpu_seconds(), perf_counter()
    work()
    took = perf_counter() - start
    return {"rate": jobs / took, "cpu_us": (cpu_seconds() - before) / jobs * 1e6}


def one(system: System, jobs: int) -> Figures:
    def enqueue() -> None:
        for argument in payloads(jobs):
            system.send(argument)

    return {"jobs": jobs, **timed(jobs, enqueue)}


def threads(system: System, jobs: int, number: int) -> Figures:
    system.share()
    gate = Barrier(number + 1)

    def enqueue() -> None:
        gate.wait()
        for argument in payloads(jobs // number):
            system.send(argument)

    def join() -> None:
        for thread in crowd:
            thread.join()

    crowd = [Thread(target=enqueue) for _ in range(number)]
    for thread in crowd:
        thread.start()
    gate.wait()
    return timed(jobs // number * number, join)


def bulk(system: System, jobs: int) -> Figures:
    system.send_many(max(1, jobs // 10))
    tenth = peak_megabytes()
    rest = jobs - max(1, jobs // 10)
    figures = timed(rest, lambda: system.send_many(rest))
    return {"jobs": jobs, **figures, "tenth_mb": tenth, "peak_mb": peak_megabytes()}


def special(system: System, kind: str, jobs: int, seconds: float) -> Figures:
    """Fewer jobs where the first ones show that all would take longer than this."""
    first = min(FIRST_JOBS, max(1, jobs // 10))
    pace = timed(first, lambda: system.send_special(kind, range(first)))["rate"]
    rest = max(1, min(jobs - first, int(pace * seconds)))
    return {"jobs": first + rest, **timed(rest, lambda: system.send_special(kind, range(first, first + rest)))}


def drain(system: System, jobs: int = 0, limit: int = 0, seconds: float = 0, lap: int = 0) -> Figures:
    tally = job.begin(limit, seconds, mark=jobs // 10, lap=lap)
    before = cpu_seconds()
    system.drain(tally)
    returned = monotonic()
    used = cpu_seconds() - before
    counted, took = tally.window()
    return {
        "first": tally.first,
        "last": tally.last,
        "runs": tally.runs,
        "return_seconds": returned - tally.last if tally.runs else 0.0,
        "cpu_us": used / max(1, tally.runs) * 1e6,
        "rate": (counted - 1) / took if took > 0 else 0.0,
        "tenth_mb": tally.mark_megabytes,
        "peak_mb": peak_megabytes(),
        **tally.lap_rates(),
    }


def later(system: System, jobs: int) -> Figures:
    system.send_later(jobs)
    return {"jobs": jobs}


def cycle(system: System, jobs: int, seconds: float) -> Figures:
    """Take some jobs off a standing backlog, then put as many back."""
    figures = drain(system, limit=jobs, seconds=seconds)
    system.send_many(int(figures["runs"]))
    return figures


def idle(system: System, settle: float, seconds: float) -> Figures:
    stop = Event()
    used: list[float] = []

    def watch() -> None:
        sleep(settle)
        before, since = process_time(), monotonic()
        sleep(seconds)
        used.append((process_time() - before) / (monotonic() - since) * 100)
        stop.set()

    Thread(target=watch, daemon=True).start()
    system.serve(stop)
    return {"cpu_percent": used[0], "peak_mb": peak_megabytes()}


def receive(system: System, jobs: int, warm: int, seconds: float) -> Figures:
    """Serve until so many stamped jobs have come; the first few only warm things up."""
    tally = job.begin(limit=jobs + warm)
    give_up = Timer(seconds, tally.enough.set)
    give_up.start()
    system.serve(tally.enough)
    give_up.cancel()
    late = sorted(nanoseconds / 1e6 for nanoseconds in tally.latencies[warm:])
    if not late:
        return {"samples": 0}
    return {"samples": len(late), "p50_ms": late[len(late) // 2], "p99_ms": late[int(len(late) * 0.99)], "worst_ms": late[-1]}


def send(system: System, jobs: int, gap: float) -> Figures:
    """Enqueue stamped jobs at random moments, so that the worker is idle before each."""
    for number in range(jobs):
        sleep(random.uniform(0.5, 1.5) * gap)
        system.send({"sent": monotonic_ns(), **payload(number)})
    return {"jobs": jobs}


VERBS: dict[str, Callable[..., Figures]] = {
    verb.__name__: verb for verb in (one, threads, bulk, special, later, drain, cycle, idle, receive, send)
}


def answer(system: System, commands: TextIO, answers: TextIO) -> None:
    for line in commands:
        command = json.loads(line)
        figures = VERBS[command.pop("verb")](system, **command)
        print(json.dumps(figures), file=answers, flush=True)


def main() -> None:
    # Only answers may reach the parent: whatever a system prints goes to standard error.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, maker, directory, checkout = sys.argv[1:]
    system = open_system(module, maker)
    prove(Path(checkout))
    system.setup(Path(directory))
    print(json.dumps({"ready": os.getpid()}), file=answers, flush=True)
    answer(system, sys.stdin, answers)
    system.close()


if __name__ == "__main__":
    main()
