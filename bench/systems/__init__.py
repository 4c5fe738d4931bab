"""The systems under test, each behind the same few verbs."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Protocol, cast

from bench.checkout import ROOT
from bench.job import Payload, Tally


class System(Protocol):
    def setup(self, directory: Path) -> None:
        """Create the file or the tables, or open them where another process has created them."""

    def send(self, argument: Payload) -> None:
        """Enqueue one job and return once it is durable."""

    def share(self) -> None:
        """Get ready for `send` from many threads at once."""

    def send_many(self, jobs: int) -> None:
        """Enqueue in bulk, or as near to it as the system comes."""

    def send_later(self, jobs: int) -> None:
        """Enqueue in bulk what is not to run today; only ours is asked to."""

    def send_special(self, kind: str, numbers: range) -> None:
        """Enqueue in bulk with options that differ from job to job; only ours is asked to."""

    def drain(self, tally: Tally) -> None:
        """Work until nothing is ready, or until the tally has enough."""

    def serve(self, stop: Event) -> None:
        """Work as an idle worker does, until told to stop."""

    def close(self) -> None:
        """Let go of the database."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How a system is called, opened and explained; the maxima keep slow ones from taking an hour."""

    name: str
    package: str
    module: str
    maker: str
    settings: str
    measures: frozenset[str]
    bulk_jobs_max: int = 1_000_000
    drain_jobs_max: int = 1_000_000
    quick: bool = True
    checkout: Path = ROOT

    def installed(self) -> bool:
        found = importlib.util.find_spec(self.package)
        return found is not None and found.origin is not None


def open_system(module: str, maker: str) -> System:
    return cast(System, getattr(importlib.import_module(f"bench.systems.{module}"), maker)())


ENQUEUE = frozenset({"one", "threads", "bulk"})
SINGLE = frozenset({"one", "threads"})
SPECIAL = frozenset({"special"})
DRAIN = frozenset({"drain1", "drain2"})
SERVE = frozenset({"pickup", "idle"})
CLAIM = frozenset({"claim"})

ENTRIES = (
    Entry(
        "holdfast",
        "holdfast",
        "holdfast_",
        "plain",
        "its defaults; the task is a plain def",
        ENQUEUE | SPECIAL | DRAIN | SERVE | CLAIM | {"million"},
    ),
    Entry(
        "holdfast-async",
        "holdfast",
        "holdfast_",
        "asynchronous",
        "its defaults; the task is an async def",
        DRAIN | SERVE,
    ),
    Entry(
        "limit",
        "sqlite3",
        "limit",
        "small_batches",
        "hand-written SQL: WAL, synchronous=FULL, a checkpoint every 4 MB as ours; claim and settle in one transaction of"
        " 200, bulk in transactions of 1,000, one by one a plain insert into one table, threads share commits",
        ENQUEUE | DRAIN | CLAIM | {"million"},
    ),
    Entry(
        "limit-500",
        "sqlite3",
        "limit",
        "large_batches",
        "the same with transactions of 500, about as many jobs as Holdfast commits at once",
        DRAIN,
    ),
    Entry(
        "huey",
        "huey",
        "huey_",
        "Huey",
        "SqliteHuey, its defaults: WAL, fsync unset (which is SQLite's own FULL), one worker thread, poll from 0.1 s with"
        " backoff; logging left off; loses the job of a dead worker; no bulk enqueue",
        SINGLE | DRAIN | SERVE | CLAIM,
        drain_jobs_max=3_000,
    ),
    Entry(
        "litequeue",
        "litequeue",
        "litequeue_",
        "durable",
        "WAL, synchronous set to FULL (its default is NORMAL); bulk in transactions of 1,000; no worker of its own, so a"
        " plain loop; its pop sorts the whole backlog, so it drains only 1,000 jobs here",
        ENQUEUE | DRAIN | CLAIM,
        bulk_jobs_max=20_000,
        drain_jobs_max=1_000,
    ),
    Entry(
        "litequeue-normal",
        "litequeue",
        "litequeue_",
        "default",
        "its defaults: synchronous=NORMAL, so a power cut loses acknowledged jobs",
        ENQUEUE | DRAIN,
        bulk_jobs_max=20_000,
        drain_jobs_max=1_000,
        quick=False,
    ),
    Entry(
        "persist-queue",
        "persistqueue",
        "persistqueue_",
        "acknowledged",
        "SQLiteAckQueue, its defaults: WAL, SQLite's own FULL; get, then ack; no bulk enqueue; no worker of its own, so a"
        " plain loop; two processes can be given the same job",
        SINGLE | DRAIN | CLAIM,
        drain_jobs_max=2_000,
    ),
    Entry(
        "persist-noack",
        "persistqueue",
        "persistqueue_",
        "unacknowledged",
        "SQLiteQueue, its defaults: deletes a job when it is taken, so loses the job of a dead worker",
        SINGLE | DRAIN,
        drain_jobs_max=3_000,
        quick=False,
    ),
)
