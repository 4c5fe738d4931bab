"""PgQueuer with its fastest driver and event loop, at the batch size that suits it best."""

from __future__ import annotations

import asyncio
from itertools import repeat
from pathlib import Path
from threading import Event
from typing import Any

import asyncpg
import msgspec
import uvloop
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

from bench import job
from bench.ground import database_url
from bench.job import Payload, Tally, payload

BULK = 1_000

encode = msgspec.json.encode
decode = msgspec.json.decode


class PgQueuer:
    def __init__(self, batch: int) -> None:
        self._batch = batch

    def setup(self, directory: Path) -> None:
        self._loop = uvloop.new_event_loop()
        self._url = database_url(directory)
        self._connection, self._queries = self._loop.run_until_complete(connect(self._url))

    def send(self, argument: Payload) -> None:
        self._loop.run_until_complete(self._queries.enqueue("noop", encode(argument)))

    def share(self) -> None:
        raise NotImplementedError("not measured on PostgreSQL")

    def send_many(self, jobs: int) -> None:
        for start in range(0, jobs, BULK):
            payloads: list[bytes | None] = [encode(payload(number)) for number in range(start, min(start + BULK, jobs))]
            size = len(payloads)
            self._loop.run_until_complete(self._queries.enqueue(list(repeat("noop", size)), payloads, list(repeat(0, size))))

    def drain(self, tally: Tally) -> None:
        self._loop.run_until_complete(self._work(QueueExecutionMode.drain, tally))

    def serve(self, stop: Event) -> None:
        self._loop.run_until_complete(self._work(QueueExecutionMode.continuous, stop=stop))

    def close(self) -> None:
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()

    async def _work(self, mode: QueueExecutionMode, tally: Tally | None = None, stop: Event | None = None) -> None:
        connection, queries = await connect(self._url)
        manager = QueueManager(queries)

        @manager.entrypoint("noop")
        async def noop(one: Job) -> None:
            assert one.payload is not None
            job.run(decode(one.payload))
            if tally and tally.over():
                manager.shutdown.set()

        async def stop_when(event: Event) -> None:
            await asyncio.to_thread(event.wait)
            manager.shutdown.set()

        stopper = asyncio.create_task(stop_when(stop)) if stop else None
        await manager.run(batch_size=self._batch, mode=mode)
        if stopper:
            await stopper
        await connection.close()


async def connect(url: str) -> tuple[Any, Queries]:
    connection = await asyncpg.connect(url)
    queries = Queries.from_asyncpg_connection(connection)
    if not await queries.schema_is_installed():
        await queries.install()
        await queries.optimize_autovacuum()
    return connection, queries


def at_its_best() -> PgQueuer:
    return PgQueuer(1_000)


def by_500() -> PgQueuer:
    return PgQueuer(500)


def by_100() -> PgQueuer:
    return PgQueuer(100)
