"""The worker program: an ordinary worker with a short lease. A restarted one takes the name of the one that was killed."""

from __future__ import annotations

import logging

from holdfast.torture.plan import LEASES_SECONDS, chance_of
from holdfast.torture.tasks import app


def work(seed: int, name: str, life: int) -> None:
    chance = chance_of(seed, name, life)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(name)s %(message)s")
    lease = chance.choice(LEASES_SECONDS)
    app.worker(concurrency=chance.choice((4, 8, 16)), name=name, lease=lease, grace=5.0).run()
