"""The load during faults: enqueuers and workers with a steady pace, which go on after every error.

A request that was refused or cut off gets a line in the ledger and is not repeated. `python -m chaos.steady LOGS SEED` is the
fork server of a run.
"""

from __future__ import annotations

import logging
import random
import time
from typing import Any, Final

from holdfast.domain.key import Key
from holdfast.errors import HoldfastError
from holdfast.task import Task
from holdfast.torture.forks import serve
from holdfast.torture.load import LOG_FORMAT
from holdfast.torture.requester import Requester
from holdfast.torture.workload import app, copy, flaky, glance, ledger, linger, pay, trudge

LEASE_SECONDS: Final = 2.0
PACE_SECONDS: Final = 0.015
"""Mean pause between two requests of an enqueuer: most of its time, so that its pace depends little on the machine."""
BULK: Final = 4
WEIGHTS: Final[dict[Task[Any], int]] = {glance: 700, copy: 150, pay: 100, flaky: 50, linger: 4, trudge: 2}


def work(_chance: random.Random, name: str, _life: int) -> None:
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    app.worker(concurrency=8, name=name, lease=LEASE_SECONDS, grace=5.0).run()


def enqueue(chance: random.Random, name: str, life: int) -> None:
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    SteadyRequester(chance, f"{name}.{life}").run()


class SteadyRequester(Requester):
    def run(self) -> None:
        import psycopg

        ways = {self._one: 60, self._bulk: 8, self._keyed: 12, self._transaction: 12, self._burst: 1, self._gathered: 1,
                self._cancel: 4}  # fmt: skip
        log = logging.getLogger("chaos")
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


if __name__ == "__main__":
    serve({"worker": work, "enqueuer": enqueue})
