"""Huey on SQLite with its own consumer: one worker thread, which is its fastest here."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

from huey import SqliteHuey

from bench import job
from bench.job import Payload, Tally, payloads

LOOK_SECONDS = 0.05


class Huey:
    def setup(self, directory: Path) -> None:
        self._huey: Any = SqliteHuey(filename=str(directory / "huey.db"))
        self._noop = self._huey.task(name="noop")(noop)

    def send(self, argument: Payload) -> None:
        self._noop(argument)

    def share(self) -> None:
        """Threads may call `send` as it is."""

    def send_many(self, jobs: int) -> None:
        """Not a feature of huey: fills a backlog through its storage, and is never measured."""
        rows = ((self._huey.name, self._huey.serialize_task(self._noop.s(p)), 0) for p in payloads(jobs))
        with self._huey.storage.db(commit=True) as cursor:
            cursor.executemany("insert into task (queue, data, priority) values (?, ?, ?)", rows)

    def drain(self, tally: Tally) -> None:
        consumer = self._huey.create_consumer()
        consumer.start()
        seen = -1
        while not tally.over():
            # Counting the queue is slow, so only when nothing has run since the last look.
            if seen == tally.runs and self._huey.storage.queue_size() == 0:
                break
            seen = tally.runs
            tally.enough.wait(LOOK_SECONDS)
        consumer.stop(graceful=True)

    def serve(self, stop: Event) -> None:
        consumer = self._huey.create_consumer()
        consumer.start()
        stop.wait()
        consumer.stop(graceful=True)

    def close(self) -> None:
        self._huey.storage.close()


def noop(argument: Payload) -> None:
    job.run(argument)
