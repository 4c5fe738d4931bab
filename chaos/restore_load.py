"""The load under restores: producers and workers of many tasks, each of which records its own name and argument.

`python -m chaos.restore_load LOGS SEED` is the fork server of a run.
"""

from __future__ import annotations

import logging
import os
import random
import time
from typing import Any, Final

from holdfast.app import Holdfast
from holdfast.domain.retry import Retry
from holdfast.errors import HoldfastError
from holdfast.task import Task
from holdfast.torture.forks import serve
from holdfast.torture.ledgers import DIRECTORY_VARIABLE, Ledger
from holdfast.torture.load import LOG_FORMAT
from holdfast.worker.context import Context

LEASE_SECONDS: Final = 3.0
PACE_SECONDS: Final = 0.02
TASKS: Final = 60
"""Many, and in an order that differs from one restore to the next: a lane that is lost is another task's afterwards."""
SLOW_SHARE: Final = 0.05

app = Holdfast()
ledger = Ledger(os.environ.get(DIRECTORY_VARIABLE, ""))


def _task(name: str) -> Task[Any]:
    @app.task(name=name, retry=Retry(attempts=20, delays=[0.1]))
    def run(ctx: Context, call: str) -> dict[str, str]:
        about = {"call": call, "how": name, "token": ctx.token}
        ledger.write("start", **about)
        if random.random() < SLOW_SHARE:
            time.sleep(random.uniform(0.0, LEASE_SECONDS))  # a run that outlives a restore
        ledger.write("end", **about)
        return {"task": name, "call": call}

    return run


tasks: Final = [_task(f"task-{number}") for number in range(TASKS)]


def work(_chance: random.Random, name: str, _life: int) -> None:
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    app.worker(concurrency=8, name=name, lease=LEASE_SECONDS, grace=5.0).run()


def enqueue(chance: random.Random, name: str, life: int) -> None:
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    count = 0
    while True:
        task = tasks[min(chance.randrange(TASKS), chance.randrange(TASKS))]
        calls = [f"{task.name} {name}.{life}-{count + n}" for n in range(1 if chance.random() < 0.8 else 5)]
        count += len(calls)
        ledger.write("invoke", how=task.name, calls=calls)
        try:
            ledger.write("ok", calls=calls, ids=_request(task, calls))
        except HoldfastError as error:
            logging.getLogger("chaos").warning("%s: %s", type(error).__name__, error)
            ledger.write("refused", calls=calls, error=type(error).__name__)
        time.sleep(chance.uniform(0.0, 2 * PACE_SECONDS))


def _request(task: Task[Any], calls: list[str]) -> list[str]:
    if len(calls) == 1:
        return [task.enqueue(call=calls[0]).id]
    return list(app.enqueue_many(task.bind(call=call) for call in calls).ids)


if __name__ == "__main__":
    serve({"worker": work, "enqueuer": enqueue})
