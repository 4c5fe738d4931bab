"""The load of `chaos.limits`: workers of queues with limits, and enqueuers that keep these queues full.

`python -m chaos.limit_load LOGS SEED` is the fork server of a run.
"""

from __future__ import annotations

import logging
import os
import random
import time
from typing import Any, Final

from holdfast.app import Holdfast
from holdfast.domain.limits import Rate
from holdfast.domain.retry import Retry
from holdfast.errors import QueueFull, StoreUnavailable
from holdfast.task import Task
from holdfast.torture.forks import serve
from holdfast.torture.ledgers import DIRECTORY_VARIABLE, Ledger
from holdfast.torture.load import LOG_FORMAT
from holdfast.worker.context import Context

LEASE_SECONDS: Final = 1.0
GAP_SECONDS: Final = 0.05
RATE: Final = Rate(100, burst=5)
BOUND: Final = 100
LIMITS: Final[dict[str, dict[str, Any]]] = {
    "one": {"concurrency": 1},
    "three": {"concurrency": 3},
    "gapped": {"concurrency": 1, "gap": GAP_SECONDS},
    "paced": {"rate": RATE},
    "bounded": {"max_depth": BOUND, "concurrency": 4},
    "free": {},
}
CHUNK: Final = 25
FREE_SHARE: Final = 0.2
"""Jobs without limits are there to fill the slots of the workers now and then."""
AHEAD: Final = 200
"""An enqueuer adds no more to a queue without a bound while it has so many."""

app = Holdfast()
ledger = Ledger(os.environ.get(DIRECTORY_VARIABLE, ""))


def _task(queue: str, limits: dict[str, Any]) -> Task[Any]:
    if limits:
        app.queue(queue, **limits)

    @app.task(name=queue, queue=queue, retry=Retry(attempts=50, delays=[0.05]))
    def run(ctx: Context, seconds: float) -> None:
        ledger.write("start", how=queue, call=ctx.id, token=ctx.token)
        if seconds:
            time.sleep(seconds)
        ledger.write("end", how=queue, call=ctx.id, token=ctx.token)

    return run


tasks: Final = {queue: _task(queue, limits) for queue, limits in LIMITS.items()}


def work(_chance: random.Random, name: str, _life: int) -> None:
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    app.worker(concurrency=8, name=name, lease=LEASE_SECONDS, grace=5.0).run()


def enqueue(chance: random.Random, _name: str, _life: int) -> None:
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    while True:
        for queue, task in tasks.items():
            if queue != "free" or chance.random() < FREE_SHARE:
                _add(chance, queue, task)
        time.sleep(chance.uniform(0.0, 0.02))


def _add(chance: random.Random, queue: str, task: Task[Any]) -> None:
    seconds = [chance.choice((0.0, 0.0, 0.001, 0.005)) for _ in range(CHUNK)]
    try:
        if queue == "bounded":
            if chance.random() < 0.5:
                task.enqueue(seconds[0])
            else:
                app.enqueue_many(task.bind(each) for each in seconds)
        elif app.stats().get(queue, {}).get("ready", 0) < AHEAD:
            app.enqueue_many(task.bind(each) for each in seconds)
    except QueueFull:
        ledger.write("full", how=queue)
    except StoreUnavailable as error:
        logging.getLogger("chaos").warning("%s", error)


if __name__ == "__main__":
    serve({"worker": work, "enqueuer": enqueue})
