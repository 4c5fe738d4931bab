"""The load during chaos: enqueuers and workers that keep a steady pace, and go on whatever happens to the server.

A request that was refused or cut off is written down as such, and the next one is made: nothing is asked for again.
"""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from holdfast.domain.key import Key
from holdfast.errors import HoldfastError
from holdfast.task import Task
from holdfast.torture.ask import Enqueuer
from holdfast.torture.plan import chance_of
from holdfast.torture.tasks import app, copy, flaky, glance, ledger, linger, pay, trudge

LEASE_SECONDS: Final = 2.0
PACE_SECONDS: Final = 0.015
"""Mean pause between two requests of an enqueuer: most of its time, so that its pace does not depend on the machine's."""
BULK: Final = 4
WEIGHTS: Final[dict[Task[Any], int]] = {glance: 700, copy: 150, pay: 100, flaky: 50, linger: 4, trudge: 2}


def ask_on(seed: int, name: str, life: int) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(name)s %(message)s")
    Steady(chance_of(seed, name, life), f"{name}.{life}").run()


def work_on(_seed: int, name: str, _life: int) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(name)s %(message)s")
    app.worker(concurrency=8, name=name, lease=LEASE_SECONDS, grace=5.0).run()


class Steady(Enqueuer):
    def run(self) -> None:
        import psycopg

        ways = {self._one: 60, self._bulk: 8, self._keyed: 12, self._transaction: 12, self._burst: 1, self._gathered: 1,
                self._cancel: 4}  # fmt: skip
        log = logging.getLogger("holdfast.torture")
        while True:
            began = time.monotonic()
            try:
                self._chance.choices(list(ways), list(ways.values()))[0]()
            except (HoldfastError, psycopg.Error) as error:
                ledger.write("refused", error=type(error).__name__)
                log.warning("after %.2f s: %s: %s", time.monotonic() - began, type(error).__name__, " ".join(str(error).split()))
            time.sleep(self._chance.uniform(0.0, 2 * PACE_SECONDS))

    def _bulk_size(self) -> int:
        return BULK

    def _task(self, key: int | None = None) -> Task[Any]:
        chance = self._chance
        task = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        run_after = chance.uniform(0.0, 1.0) if chance.random() < 0.05 else None
        named = None if key is None else Key("torture", key, failed="hold")
        return task.using(run_after=run_after, key=named, priority=chance.choice((1, 100, 100, 500)))
