"""What a run with watchers found, as a person reads it and as JSON, and what is promised of it."""

from __future__ import annotations

import os
import platform
import time
from typing import Any, Final

from bench import report
from bench.chorus import GAP_SECONDS
from bench.ground import Figures
from bench.measure import QUIET_PERCENT
from bench.thresholds import Threshold

LATE_MS: Final = 250
GROWTH_MB: Final = 10
HANDLES: Final = 8
"""Connections and threads of a pool that grows when it has to, and stays: so many more are no leak."""

ROWS: Final = (
    ("commit_p50_ms", "commit to client, p50 ms"),
    ("commit_p99_ms", "commit to client, p99 ms"),
    ("commit_max_ms", "commit to client, max ms"),
    ("said_p50_ms", "said by the job to client, p50 ms"),
    ("said_p99_ms", "said by the job to client, p99 ms"),
    ("said_max_ms", "said by the job to client, max ms"),
    ("client_lag_p99_ms", "of it, lag of the process with the clients, p99 ms"),
    ("pause_ms", "of it, longest pause of the server to collect garbage ms"),
    ("events", "events"),
    ("kb_per_watcher", "memory of the server per watcher KB"),
    ("tasks_per_watcher", "asyncio tasks per watcher"),
    ("mb", "memory of the server with all watchers MB"),
    ("idle_cpu_percent", "CPU of the server, idle watchers only %"),
    ("active_cpu_percent", "CPU of the server, all watchers %"),
    ("cpu_us_per_event", "CPU of the server µs/event"),
    ("connects_per_second", "streams begun /s"),
    ("cycles_per_second", "come and gone /s"),
)


def promised(figures: Figures) -> list[Threshold]:
    def grown(name: str) -> float:
        return figures[f"{name}_after"] - figures[f"{name}_before"]

    return [
        Threshold("commit to client, p99", figures["commit_p99_ms"], LATE_MS, "ms", at_most=True),
        Threshold("events that did not come", abs(figures["missing"]), 0, "", at_most=True),
        Threshold("after those who came and went: tasks more", grown("tasks"), 0, "", at_most=True),
        Threshold("… descriptors more", grown("descriptors"), HANDLES, "", at_most=True),
        Threshold("… threads more", grown("threads"), HANDLES, "", at_most=True),
        Threshold("… memory more", grown("mb"), GROWTH_MB, "MB", at_most=True),
        Threshold("complaints in the server's log", figures["complaints"], 0, "", at_most=True),
    ]


def text(sizes: dict[str, float], figures: Figures, seen: dict[str, Figures], on: str) -> str:
    quiet = is_quiet(seen)
    held = [[name, *(report.number(figures[f"{name}_{when}"]) for when in ("before", "after"))]
            for name in ("tasks", "descriptors", "threads", "mb")]  # fmt: skip
    parts = [
        f"{sizes['idle']:,} idle watchers and {sizes['active']:,} with an event every {GAP_SECONDS:g} s, on {on}",
        report.table(["", ""], ([label, report.number(figures[name])] for name, label in ROWS)),
        f"What the server holds, before and after {sizes['cycles']:,} clients came and went",
        report.table(["", "before", "after"], held),
        "Thresholds" if quiet else "Thresholds (NOT A QUIET RUN: others used the machine; times are upper bounds)",
        report.table(["", "", "measured", "bound", "goal"], map(report.verdict, promised(figures))),
        "Surroundings, before and after (load counts the benchmark too)",
        report.table(
            ["", "load", "others % CPU", "sync ms"], ([name, *map(report.number, each.values())] for name, each in seen.items())
        ),
    ]
    return "\n\n".join(parts)


def is_quiet(seen: dict[str, Figures]) -> bool:
    return all(each["others_percent"] <= QUIET_PERCENT for each in seen.values())


def document(sizes: dict[str, float], figures: Figures, seen: dict[str, Figures], about: str) -> dict[str, Any]:
    return {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "database": about,
        },
        "sizes": sizes,
        "surroundings": seen,
        "quiet": is_quiet(seen),
        "figures": figures,
        "thresholds": [
            {"text": one.text, "value": one.value, "bound": one.bound, "unit": one.unit, "met": one.met}
            for one in promised(figures)
        ],
    }
