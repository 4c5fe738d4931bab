"""litequeue: pop, run, done, with the payload as JSON text."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Lock

import msgspec
from litequeue import LiteQueue

from bench import job
from bench.job import Payload, Tally, payload

encode = msgspec.json.encode
decode = msgspec.json.decode
BULK = 1_000


class Lite:
    def __init__(self, synchronous: str) -> None:
        self._synchronous = synchronous
        self._lock = Lock()

    def setup(self, directory: Path) -> None:
        self._queue = LiteQueue(str(directory / "lite.db"), timeout=60)
        self._queue.conn.execute(f"PRAGMA synchronous = {self._synchronous}")

    def send(self, argument: Payload) -> None:
        with self._lock:
            self._queue.put(encode(argument).decode())

    def share(self) -> None:
        """Threads may call `send` as it is."""

    def send_many(self, jobs: int) -> None:
        for start in range(0, jobs, BULK):
            with self._queue.transaction(mode="IMMEDIATE"):
                for number in range(start, min(start + BULK, jobs)):
                    self._queue.put(encode(payload(number)).decode())

    def drain(self, tally: Tally) -> None:
        while not tally.over() and (message := self._queue.pop()):
            job.run(decode(message.data))
            self._queue.done(message.message_id)

    def serve(self, stop: Event) -> None:
        raise NotImplementedError("litequeue has no worker")

    def close(self) -> None:
        self._queue.close()


def durable() -> Lite:
    return Lite("FULL")


def default() -> Lite:
    return Lite("NORMAL")
