"""The limit: the same effects on the same tables as plain hand-written SQL, with no queue around it.

Claim and settle share a transaction of 200, or of 500, which is about what Holdfast commits at once. Each statement
takes one JSON array and gives one back, because every row that crosses into Python costs more than the row itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from time import time_ns
from typing import Any

import msgspec

from bench import job
from bench.job import Payload, Tally, payload
from bench.systems import limit_sql as sql

BULK = 1_000
BUSY_SECONDS = 60
CHECKPOINT_PAGES = 1_000  # 4 MB: SQLite's own default, and what Holdfast does

Claimed = tuple[int, str, int, int, str]  # seq, id, token, attempt, arguments
encode = msgspec.json.Encoder().encode
decode_claimed = msgspec.json.Decoder(list[Claimed]).decode
decode_arguments = msgspec.json.Decoder(dict[str, Any]).decode


class Limit:
    def __init__(self, batch: int) -> None:
        self._batch = batch

    def setup(self, directory: Path) -> None:
        self._path = directory / "limit.db"
        self._numbers = count()
        self._connection = connect(self._path)
        self._connection.executescript(sql.SCHEMA)
        self._waiting: SimpleQueue[tuple[tuple[object, ...], Event]] = SimpleQueue()
        self._shared = False

    def send(self, argument: Payload) -> None:
        """A plain durable insert into one table; from many threads, whoever waits is committed together."""
        row = self._row(argument)
        if self._shared:
            done = Event()
            self._waiting.put((row, done))
            done.wait()
            return
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(sql.INSERT_JOB, row)
        self._connection.execute("COMMIT")

    def share(self) -> None:
        self._shared = True
        Thread(target=self._commit_forever, daemon=True).start()

    def send_many(self, jobs: int) -> None:
        for start in range(0, jobs, BULK):
            rows = [self._row(payload(number)) for number in range(start, min(start + BULK, jobs))]
            self._connection.execute("BEGIN IMMEDIATE")
            first = self._connection.execute(sql.NEXT_SEQ).fetchone()[0]
            self._connection.executemany(sql.INSERT_JOB, rows)
            self._connection.executemany(sql.INSERT_READY, ((first + n,) for n in range(len(rows))))
            self._connection.execute("COMMIT")

    def drain(self, tally: Tally) -> None:
        done: list[Claimed] = []
        while done := self._settle_and_claim(done, more=not tally.over()):
            for row in done:
                job.run(decode_arguments(row[4]))

    def serve(self, stop: Event) -> None:
        raise NotImplementedError("the limit has no idle worker")

    def close(self) -> None:
        self._connection.close()

    def _settle_and_claim(self, done: list[Claimed], more: bool) -> list[Claimed]:
        now = time_ns() // 1000
        self._connection.execute("BEGIN IMMEDIATE")
        if done:
            settle(self._connection, done, now)
        claimed = claim(self._connection, now, self._batch) if more else []
        self._connection.execute("COMMIT")
        return claimed

    def _commit_forever(self) -> None:
        connection = connect(self._path)
        while True:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(sql.INSERT_JOB, (row for row, _ in batch))
            connection.execute("COMMIT")
            for _, done in batch:
                done.set()

    def _row(self, argument: Payload) -> tuple[str, str, int]:
        now = time_ns() // 1000
        return f"{now:016x}{next(self._numbers):016x}", encode(argument).decode(), now


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    for pragma in ("journal_mode = WAL", "synchronous = FULL", f"wal_autocheckpoint = {CHECKPOINT_PAGES}"):
        connection.execute(f"PRAGMA {pragma}")
    return connection


def settle(connection: sqlite3.Connection, done: Iterable[Claimed], now: int) -> None:
    outcomes = encode([(row[0], row[2], "null") for row in done]).decode()
    held = connection.execute(sql.HELD, (outcomes,)).fetchone()[0]
    connection.execute(sql.DELETE_RUNNING, (held,))
    connection.execute(sql.FINISH_JOB, (now, outcomes))
    connection.execute(sql.INSERT_FINISHED, (now, held))
    connection.execute(sql.INSERT_SUCCEEDED, (held,))


def claim(connection: sqlite3.Connection, now: int, batch: int) -> list[Claimed]:
    chosen, priority, seq = connection.execute(sql.CHOOSE, (batch,)).fetchone()
    if seq is None:
        return []
    connection.execute(sql.DELETE_READY, (priority, seq))
    connection.execute(sql.START_JOB, (now, chosen))
    connection.execute(sql.INSERT_RUNNING, (chosen,))
    connection.execute(sql.INSERT_STARTED, (chosen,))
    return decode_claimed(connection.execute(sql.READ_CLAIMED, (chosen,)).fetchone()[0])


def small_batches() -> Limit:
    return Limit(200)


def large_batches() -> Limit:
    return Limit(500)
