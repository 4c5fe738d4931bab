"""A load whose processes end by themselves: a worker by SIGKILL, an enqueuer with an error."""

from __future__ import annotations

import os
import random
import signal

from holdfast.torture.forks import serve


def work(_chance: random.Random, _name: str, _life: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def enqueue(_chance: random.Random, name: str, _life: int) -> None:
    raise ValueError(name)


if __name__ == "__main__":
    serve({"worker": work, "enqueuer": enqueue})
