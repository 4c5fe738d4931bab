"""The load of `holdfast torture`: ordinary workers with short leases, and enqueuers without a pause.

`python -m holdfast.torture.load LOGS SEED` is the fork server of a run.
"""

from __future__ import annotations

import logging
import random
from typing import Final

from holdfast.torture.fleet import LEASES_SECONDS
from holdfast.torture.forks import serve
from holdfast.torture.requester import Requester
from holdfast.torture.workload import app

LOG_FORMAT: Final = "%(asctime)s %(process)d %(name)s %(message)s"


def work(chance: random.Random, name: str, _life: int) -> None:
    """A worker that takes the place of a killed one has the same name."""
    logging.basicConfig(level=logging.WARNING, format=LOG_FORMAT)
    lease = chance.choice(LEASES_SECONDS)
    app.worker(concurrency=chance.choice((4, 8, 16)), name=name, lease=lease, grace=5.0).run()


def enqueue(chance: random.Random, name: str, life: int) -> None:
    Requester(chance, f"{name}.{life}").run()


if __name__ == "__main__":
    serve({"worker": work, "enqueuer": enqueue})
