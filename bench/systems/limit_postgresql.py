"""The limit on PostgreSQL: the same effects on the same tables as plain hand-written SQL, with no queue around it.

Settle and the next claim share a transaction, and travel to the server together.
"""

from __future__ import annotations

from importlib.resources import files
from itertools import count
from pathlib import Path
from threading import Event
from time import time_ns
from typing import Any

import msgspec
import psycopg

from bench import job
from bench.ground import database_url
from bench.job import Payload, Tally, payload
from bench.systems import limit_postgresql_sql as sql
from holdfast.store.sql import SCHEMA, in_schema

BULK = 1_000
BATCH = 500
# A table without statistics, or with old ones, is else read by a bitmap and sorted whole for each claim.
PINNED = "-c enable_bitmapscan=off -c enable_seqscan=off -c enable_sort=off"
LAYOUT = files("holdfast.store.postgres") / "migrations" / "0001_jobs.sql"

Claimed = tuple[int, int, int, str]  # seq, token, attempt, arguments
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(dict[str, Any]).decode


class Limit:
    def setup(self, directory: Path) -> None:
        self._numbers = count()
        self._after = 0
        self._connection = psycopg.connect(database_url(directory), autocommit=True, prepare_threshold=0, options=PINNED)
        if self._connection.execute("SELECT to_regclass('plain')").fetchone() == (None,):
            self._connection.execute(
                f"CREATE SCHEMA holdfast; {in_schema(LAYOUT.read_text(), SCHEMA)}; {sql.PLAIN}".encode(), prepare=False
            )

    def send(self, argument: Payload) -> None:
        """A plain durable insert into one table."""
        self._connection.execute(sql.INSERT_PLAIN, (self._id(), now(), encode(argument).decode()))

    def share(self) -> None:
        raise NotImplementedError("not measured on PostgreSQL")

    def send_many(self, jobs: int) -> None:
        for start in range(0, jobs, BULK):
            numbers = range(start, min(start + BULK, jobs))
            arguments = [encode(payload(number)).decode() for number in numbers]
            row = {"ids": [self._id() for _ in numbers], "arguments": arguments, "now": now()}
            self._connection.execute(sql.INSERT_MANY, row)

    def drain(self, tally: Tally) -> None:
        done: list[Claimed] = []
        while done := self._settle_and_claim(done, more=not tally.over()):
            for row in done:
                job.run(decode(row[3]))

    def serve(self, stop: Event) -> None:
        raise NotImplementedError("the limit has no idle worker")

    def close(self) -> None:
        self._connection.close()

    def _settle_and_claim(self, done: list[Claimed], more: bool) -> list[Claimed]:
        """Nothing found after the last claim means a look from the start: another worker's numbers may lie below."""
        claimed = self._transaction(done, more)
        if more and not claimed and self._after:
            self._after = 0
            claimed = self._transaction([], more)
        self._after = max((row[0] for row in claimed), default=0)
        return claimed

    def _transaction(self, done: list[Claimed], more: bool) -> list[Claimed]:
        with self._connection.pipeline(), self._connection.transaction():
            if done:
                seqs, tokens = [row[0] for row in done], [row[1] for row in done]
                self._connection.execute(sql.SETTLE, {"seqs": seqs, "tokens": tokens, "now": now()})
            if not more:
                return []
            cursor = self._connection.execute(sql.CLAIM, {"after": self._after, "batch": BATCH, "now": now()}, binary=True)
        return cursor.fetchall()

    def _id(self) -> str:
        return f"{now():016x}{next(self._numbers):016x}"


def now() -> int:
    return time_ns() // 1000
