"""Chancy with its executor for async jobs."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
from chancy import Chancy as App
from chancy import Job, Queue, Worker

from bench import job
from bench.ground import database_url
from bench.job import Payload, Tally, payloads

BULK = 1_000
CONCURRENCY = 100
LOOK_SECONDS = 0.05
PENDING = "SELECT EXISTS (SELECT FROM chancy_jobs WHERE state = 'pending')"


class Chancy:
    def setup(self, directory: Path) -> None:
        self._url = database_url(directory)
        asyncio.run(self._install())
        self._app = self._open()
        self._app.sync_pool.open()

    def send(self, argument: Payload) -> None:
        self._app.sync_push(wanted(argument))

    def share(self) -> None:
        raise NotImplementedError("not measured on PostgreSQL")

    def send_many(self, jobs: int) -> None:
        for _ in self._app.sync_push_many([wanted(argument) for argument in payloads(jobs)], batch_size=BULK):
            pass

    def drain(self, tally: Tally) -> None:
        asyncio.run(self._drain(tally))

    def serve(self, stop: Event) -> None:
        asyncio.run(self._serve(stop))

    def close(self) -> None:
        self._app.sync_pool.close()

    def _open(self) -> Any:
        log = logging.getLogger("chancy")
        log.setLevel(logging.WARNING)
        return App(self._url, log=log)

    async def _install(self) -> None:
        async with self._open() as app:
            await app.migrate()
            executor = App.Executor.Async
            await app.declare(Queue("default", concurrency=CONCURRENCY, executor=executor, eager_polling=True), upsert=True)

    async def _drain(self, tally: Tally) -> None:
        """Until nothing is pending; that is only asked when nothing has run since the last look."""
        async with self._open() as app, Worker(app, register_signal_handlers=False):
            connection = await psycopg.AsyncConnection.connect(self._url, autocommit=True)
            seen = -1
            while not tally.over():
                if seen == tally.runs and await (await connection.execute(PENDING)).fetchone() == (False,):
                    break
                seen = tally.runs
                await asyncio.sleep(LOOK_SECONDS)
            await connection.close()

    async def _serve(self, stop: Event) -> None:
        async with self._open() as app, Worker(app, register_signal_handlers=False):
            await asyncio.to_thread(stop.wait)


def wanted(argument: Payload) -> Any:
    return Job.from_func(noop).with_kwargs(argument=argument)


async def noop(argument: Payload) -> None:
    job.run(argument)
