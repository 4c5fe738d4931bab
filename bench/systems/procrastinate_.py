"""Procrastinate: jobs are deferred through its synchronous connector, and run by its worker."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from threading import Event
from typing import Any

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

from bench import job
from bench.ground import database_url
from bench.job import Payload, Tally, payload

BULK = 1_000
CONCURRENCY = 10


class Procrastinate:
    def setup(self, directory: Path) -> None:
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        self._url = database_url(directory)
        self._app = App(connector=SyncPsycopgConnector(conninfo=self._url))
        self._app.open()
        self._noop: Any = self._app.task(name="noop")(noop)
        found = self._app.connector.get_sync_connector().execute_query_one("SELECT to_regclass('procrastinate_jobs') AS found")
        if found["found"] is None:
            self._app.schema_manager.apply_schema()

    def send(self, argument: Payload) -> None:
        self._noop.defer(argument=argument)

    def share(self) -> None:
        raise NotImplementedError("not measured on PostgreSQL")

    def send_many(self, jobs: int) -> None:
        for start in range(0, jobs, BULK):
            self._noop.batch_defer(*({"argument": payload(number)} for number in range(start, min(start + BULK, jobs))))

    def drain(self, tally: Tally) -> None:
        asyncio.run(self._work(wait=False, listen_notify=False))

    def serve(self, stop: Event) -> None:
        asyncio.run(self._serve(stop))

    def close(self) -> None:
        self._app.close()

    async def _serve(self, stop: Event) -> None:
        work = asyncio.create_task(self._work(wait=True))
        await asyncio.to_thread(stop.wait)
        work.cancel()
        await asyncio.wait([work])

    async def _work(self, **options: Any) -> None:
        app = App(connector=PsycopgConnector(conninfo=self._url, min_size=1, max_size=CONCURRENCY + 2))
        app.task(name="noop")(noop)
        async with app.open_async():
            await app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False, **options)


async def noop(argument: Payload) -> None:
    job.run(argument)
