"""A file beside the database that tasks append to: what really ran, whatever the database says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.worker.context import Context

LEDGER_VARIABLE: Final = "HOLDFAST_DEMO_LEDGER"
WORKER_VARIABLE: Final = "HOLDFAST_DEMO_WORKER"


class Entry(NamedTuple):
    job: str
    attempt: int
    token: int


def done(ctx: Context) -> None:
    """The last thing a task does. One write of one line, so that lines of several workers never mix."""
    line = json.dumps(Entry(ctx.id, ctx.attempt, ctx.token)).encode() + b"\n"
    descriptor = os.open(os.environ[LEDGER_VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def worker() -> str:
    """The name that the stage gave to this process."""
    return os.environ.get(WORKER_VARIABLE, "")


def read(path: Path) -> list[Entry]:
    if not path.exists():
        return []
    return [Entry(*json.loads(line)) for line in path.read_text(encoding="ascii").splitlines()]
