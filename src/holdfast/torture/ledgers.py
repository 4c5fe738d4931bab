"""Ledgers: what each process is about to do and what it has done, in files outside the database.

A line is one write to the file of its process, opened for appending: a SIGKILL removes nothing that was written, and only the
last line can be incomplete.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec

DIRECTORY_VARIABLE: Final = "HOLDFAST_TORTURE_LEDGERS"
_encode: Final = msgspec.json.Encoder().encode


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """`at` is CLOCK_MONOTONIC in nanoseconds, which is the same for all processes of a machine."""

    what: str
    at: int
    pid: int
    call: str | None = None
    token: int | None = None
    attempt: int | None = None
    calls: list[str] = []
    ids: list[str] = []
    how: str | None = None
    key: int | None = None
    rolled_back: bool = False
    error: str | None = None


class Ledger:
    """The file is opened with the first line. A forked child opens another one."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._pid, self._descriptor = 0, -1
        self._unlock()
        os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self) -> None:
        """Another thread of the parent may have held the lock."""
        self._lock = threading.Lock()

    def write(self, what: str, **fields: Any) -> None:
        with self._lock:
            pid = os.getpid()
            if pid != self._pid:
                self._open(pid)
            os.write(self._descriptor, _encode(Line(what, time.monotonic_ns(), pid, **fields)) + b"\n")

    def hold(self) -> None:
        """`is_held` until this process and all of its forked children have ended, however they end."""
        fcntl.flock(os.open(self._directory, os.O_RDONLY), fcntl.LOCK_SH)

    def is_held(self) -> bool:
        descriptor = os.open(self._directory, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _open(self, pid: int) -> None:
        path = os.path.join(self._directory, f"{pid}-{time.monotonic_ns()}.jsonl")
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._pid = pid


def read(directory: str) -> Iterator[Line]:
    """All lines of all processes, those of each process in order. An incomplete last line is left out."""
    decode = msgspec.json.Decoder(Line).decode
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), "rb") as file:
            for text in file:
                if text.endswith(b"\n"):
                    yield decode(text)
