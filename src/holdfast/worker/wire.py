"""What a worker and its child processes say to each other. A frame is a length and JSON; no pickle."""

from __future__ import annotations

import os
import sys
from io import BufferedReader
from typing import Any, Final

import msgspec

from holdfast.domain.job import Claimed
from holdfast.worker.child_log import levels

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
STOP: Final = b""
LOGGED: Final = "logged"
_LENGTH_BYTES: Final = 4


class Assignment(msgspec.Struct, frozen=True):
    """What a child needs to run one job: where its function is, and the job as it was claimed."""

    module: str
    main_path: str | None
    qualname: str
    task: str
    queue: str
    claimed: Claimed
    began_at: int | None = None


class Setup(msgspec.Struct, frozen=True):
    """What a child is told first, so that it imports what its parent would."""

    path: list[str]
    argv: list[str]
    pythonpath: str | None
    log_levels: dict[str, int]


class Order(msgspec.Struct, frozen=True):
    """One job for a child. Every message gives `run` back: a thread that outlives its job stays apart."""

    run: int
    assignment: Assignment


class Message(msgspec.Struct, frozen=True):
    """About a job: `began`, `gathered` on its way (a `Gathered`), `ended` at its end (an `Outcome`, and how long its code ran).

    About any or none: `logged`, a record of the log.
    """

    run: int
    kind: str
    data: dict[str, Any]

    @property
    def final(self) -> bool:
        return self.kind == "ended"


def setup() -> bytes:
    return msgspec.json.encode(Setup(import_path(), sys.argv, os.environ.get("PYTHONPATH"), levels()))


def import_path() -> list[str]:
    return [os.path.abspath(entry) for entry in sys.path]


def write_frame(descriptor: int, frame: bytes) -> None:
    rest = memoryview(len(frame).to_bytes(_LENGTH_BYTES, "big") + frame)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read_frame(reader: BufferedReader) -> bytes | None:
    """None at the end of the pipe, also in the middle of a frame: the writer is gone."""
    head = reader.read(_LENGTH_BYTES)
    length = int.from_bytes(head, "big")
    if len(head) < _LENGTH_BYTES or length > FRAME_BYTES_MAX:
        return None
    frame = reader.read(length)
    return frame if len(frame) == length else None
