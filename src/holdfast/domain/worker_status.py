"""A worker as the store knows it."""

from __future__ import annotations

from datetime import datetime

import msgspec


class WorkerStatus(msgspec.Struct, frozen=True):
    """What is known of one worker. The row of one that died stays for an hour, with `alive` False."""

    name: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    """None: all."""
    slots: int
    """How many jobs it can run at once."""
    running: int
    started_at: datetime
    beat_at: datetime
    quiet_seconds: float
    """How long ago its last sign of life was."""
    alive: bool
    by_hand: bool
    """It stands for a job that was claimed by hand, and takes no others."""

    def takes(self, queue: str) -> bool:
        """Whether it lives and claims jobs of this queue."""
        return self.alive and not self.by_hand and (self.queues is None or queue in self.queues)
