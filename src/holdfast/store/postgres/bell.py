"""Tells others that something was committed: one NOTIFY for all that is committed within a few milliseconds.

A NOTIFY inside a transaction makes all commits of the database wait for each other, so it is sent after the commit, on a
connection and in a thread of its own. It is a hint: who listens looks for himself every second anyway.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import psycopg

from holdfast.errors import HoldfastError
from holdfast.store.postgres.place import CHANNEL
from holdfast.store.postgres.schema import Raw

GAP_SECONDS: Final = 0.003
IDLE_SECONDS: Final = 5.0
_NOTIFY: Final = f"BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {CHANNEL}; COMMIT"  # a hint need not be on the disk
TRIES_AGAIN_SECONDS: Final = 1.0


class Bell:
    def __init__(self, connect: Callable[[], Raw]) -> None:
        self._connect = connect
        self.forget()

    def forget(self) -> Raw | None:
        """In a forked child, which has neither the thread nor a right to the connection."""
        inherited = getattr(self, "_raw", None)
        self._raw: Raw | None = None
        self._condition = threading.Condition()
        self._rung = self._closing = False
        self._thread: threading.Thread | None = None
        return inherited

    def ring(self) -> None:
        """Never waits for the server."""
        if self._rung:
            return  # and not told yet
        with self._condition:
            self._rung = True
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._work, name="holdfast-bell", daemon=True)
                self._thread.start()
            self._condition.notify()

    def close(self) -> None:
        """What was rung for is told first; it can be used again afterwards."""
        with self._condition:
            thread, self._closing = self._thread, True
            self._condition.notify()
        if thread is not None:
            thread.join(2 * TRIES_AGAIN_SECONDS)
        with self._condition:
            raw, self._raw = self._raw, None
            self._rung = self._closing = False
        if raw is not None:
            raw.close()

    def _work(self) -> None:
        while self._is_wanted():
            self._tell()
            time.sleep(GAP_SECONDS)

    def _is_wanted(self) -> bool:
        """Waits until it was rung; False if that was not for a while, or it is time to close."""
        with self._condition:
            self._condition.wait_for(lambda: self._rung or self._closing, IDLE_SECONDS)
            if self._rung:
                self._rung = False
                return True
            self._thread = None  # who rings from now on starts another
            return False

    def _tell(self) -> None:
        """The connection may have died while it was of no use: another is tried once."""
        for _ in range(2):
            try:
                if self._raw is None:
                    self._raw = self._connect()
                self._raw.execute(_NOTIFY, prepare=False)
                return
            except (psycopg.Error, HoldfastError):
                raw, self._raw = self._raw, None
                if raw is not None:
                    raw.close()
        if not self._closing:
            time.sleep(TRIES_AGAIN_SECONDS)  # those who listen look for themselves meanwhile
