"""The settings of one worker, as the clerk needs them."""

from __future__ import annotations

import msgspec


class WorkerConfig(msgspec.Struct, frozen=True):
    name: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    lease_seconds: float
    retention_seconds: float | None
    callbacks: bool = True
    """Whether it runs our own tasks, too."""
