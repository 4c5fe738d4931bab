"""A queue as it stands: how many of its jobs are where."""

from __future__ import annotations

import msgspec


class Queue(msgspec.Struct, frozen=True):
    """What is known of one queue. `depth` is the number of jobs that are ready; those that ended count until they are pruned."""

    name: str
    """Its name."""
    depth: int = 0
    """Jobs that are ready to run."""
    scheduled: int = 0
    """Jobs that must not run yet."""
    running: int = 0
    """Jobs that a worker has."""
    succeeded: int = 0
    """Jobs that ended well."""
    failed: int = 0
    """Jobs that failed for good."""
    cancelled: int = 0
    """Jobs that were cancelled."""
    skipped: int = 0
    """Jobs that ended on purpose, without an error."""
