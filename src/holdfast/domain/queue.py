"""A queue as it stands: how many of its jobs are where."""

from __future__ import annotations

import msgspec


class Queue(msgspec.Struct, frozen=True):
    """What is known of one queue. `depth` is the number of jobs that are ready; those that ended count until they are pruned."""

    name: str
    depth: int = 0
    scheduled: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    skipped: int = 0
