"""What a worker was asked to be."""

from __future__ import annotations

import msgspec


class Terms(msgspec.Struct, frozen=True):
    name: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    lease_seconds: float
    retention_seconds: float | None
    callbacks: bool = True
    """It runs our own tasks, too."""
