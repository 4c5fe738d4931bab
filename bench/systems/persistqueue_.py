"""persist-queue on SQLite, with acknowledgement and without.

Its take is a SELECT and then a write, in two steps: two processes can be given one job.
"""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import Any

from persistqueue import Empty, SQLiteAckQueue, SQLiteQueue

from bench import job
from bench.job import Payload, Tally, payloads


class Persist:
    def __init__(self, kind: Any) -> None:
        self._kind = kind

    def setup(self, directory: Path) -> None:
        options = {"auto_resume": False} if self._kind is SQLiteAckQueue else {}
        self._queue: Any = self._kind(str(directory), multithreading=True, timeout=60, **options)

    def send(self, argument: Payload) -> None:
        self._queue.put(argument)

    def share(self) -> None:
        """Threads may call `send` as it is."""

    def send_many(self, jobs: int) -> None:
        """Not a feature of persist-queue: fills a backlog in one transaction, and is never measured."""
        insert = self._queue._sql_insert
        rows = ((self._queue._serializer.dumps(argument), 0.0) for argument in payloads(jobs))
        with self._queue._putter as connection:
            connection.executemany(insert, rows)

    def drain(self, tally: Tally) -> None:
        while not tally.over():
            try:
                taken = self._queue.get(block=False, raw=True)
            except Empty:
                return
            job.run(taken["data"])
            if self._kind is SQLiteAckQueue:
                self._queue.ack(id=taken["pqid"])

    def serve(self, stop: Event) -> None:
        raise NotImplementedError("persist-queue does not wake a worker in another process")

    def close(self) -> None:
        self._queue.close()


def acknowledged() -> Persist:
    return Persist(SQLiteAckQueue)


def unacknowledged() -> Persist:
    return Persist(SQLiteQueue)
