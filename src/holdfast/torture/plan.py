"""What a run will do: everything that chance decides is drawn from the seed; only the machine's timing is not."""

from __future__ import annotations

import os
import random
import sys
from typing import Final

import msgspec

KILLS_DEFAULT: Final = 1_000
WORKERS_DEFAULT: Final = 4
ENQUEUERS_DEFAULT: Final = 3
LEASES_SECONDS: Final = (0.5, 0.7, 1.0)
"""Short, so that a job that was cut off comes back within a run of minutes."""
PAUSE_MEAN_SECONDS: Final = 0.07
PAUSE_SECONDS_MAX: Final = 0.6
STOP_SHARE: Final = 0.1
"""So many of the blows are SIGSTOP for longer than a lease, followed by SIGCONT; the rest are SIGKILL."""


class Plan(msgspec.Struct, frozen=True):
    seed: int
    kills: int | None
    minutes: float | None
    workers: int
    enqueuers: int
    directory: str
    on: str = "sqlite"
    given_url: str | None = None
    chaos: str | None = None
    times: int | None = None

    @property
    def url(self) -> str:
        """Of a database in the run's own directory; on PostgreSQL it is the server's, or was given."""
        return f"sqlite:///{os.path.join(self.directory, 'jobs.db')}"

    @property
    def ledgers(self) -> str:
        return os.path.join(self.directory, "ledgers")

    @property
    def logs(self) -> str:
        return os.path.join(self.directory, "logs")

    @property
    def command(self) -> str:
        """The one command that repeats this run."""
        python = os.path.basename(sys.executable) or "python"
        where = "" if self.on == "sqlite" else f" --on {self.on}{' --url …' if self.given_url else ''}"
        if self.chaos is not None:
            times = "" if self.times is None else f" --times {self.times}"
            return f"{python} -m holdfast.torture{where} --chaos {self.chaos}{times} --seed {self.seed}"
        length = f"--minutes {self.minutes:g}" if self.minutes is not None else f"--kills {self.kills}"
        people = f"--workers {self.workers} --enqueuers {self.enqueuers}"
        return f"{python} -m holdfast.torture{where} {length} --seed {self.seed} {people}"


class Blow(msgspec.Struct, frozen=True):
    """After a pause, one process is hit: killed, or stopped for so many seconds."""

    pause_seconds: float
    choice: float
    """From 0 to 1: which of the living."""
    stopped_seconds: float | None


class Blows:
    """The blows of a run, one after the other."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(f"{seed}/blows")

    def next(self) -> Blow:
        chance = self._chance
        pause = min(chance.expovariate(1 / PAUSE_MEAN_SECONDS), PAUSE_SECONDS_MAX)
        stopped = chance.uniform(1.2, 3.0) * max(LEASES_SECONDS) if chance.random() < STOP_SHARE else None
        return Blow(pause, chance.random(), stopped)


def chance_of(seed: int, name: str, life: int) -> random.Random:
    """A process's own chance: the same in every run with this seed."""
    return random.Random(f"{seed}/{name}/{life}")
