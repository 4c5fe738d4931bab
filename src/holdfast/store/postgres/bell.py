"""Tells others that something was committed: one NOTIFY for all that is committed within a few milliseconds.

A NOTIFY inside a transaction makes all commits of the database wait for each other, so it is sent after the commit: right
behind it if nobody was told of late, else by the next one for which that is true, and if none comes in time, on a connection and
in a thread of its own. It is a hint: who listens looks for himself every second anyway.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final

import psycopg

from holdfast.errors import HoldfastError
from holdfast.store.postgres.place import CHANNEL, FOLLOWERS_CHANNEL
from holdfast.store.postgres.schema import Raw

GAP_SECONDS: Final = 0.003
LEEWAY_SECONDS: Final = 0.001
"""For the next one who commits: to tell costs him less than it costs the thread."""
IDLE_SECONDS: Final = 5.0
_NOTIFY: Final = "BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {}; COMMIT"  # a hint need not be on the disk
_TO_ALL: Final = _NOTIFY.format(CHANNEL)
_TO_FOLLOWERS: Final = _NOTIFY.format(FOLLOWERS_CHANNEL)
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
        self._rung: str | None = None
        self._told_at = self._rung_at = -math.inf
        self._closing = False
        self._thread: threading.Thread | None = None
        return inherited

    def ring(self, followers: bool = False) -> None:
        """For all, or for followers only. Never waits for the server."""
        if self._rung == _TO_ALL or (followers and self._rung):
            return  # and not told yet
        with self._condition:
            if not followers:
                self._rung = _TO_ALL
            elif not self._rung:
                self._rung, self._rung_at = _TO_FOLLOWERS, time.monotonic()
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._work, name="holdfast-bell", daemon=True)
                self._thread.start()
            self._condition.notify()

    def takes_word(self) -> bool:
        """True if nobody was told of late: then the caller tells, on his own connection, also what was rung for before."""
        now = time.monotonic()
        if now - self._told_at < GAP_SECONDS:
            return False
        self._told_at, self._rung = now, None
        return True

    def close(self) -> None:
        """What was rung for is told first; it can be used again afterwards."""
        with self._condition:
            thread, self._closing = self._thread, True
            self._condition.notify()
        if thread is not None:
            thread.join(2 * TRIES_AGAIN_SECONDS)
        with self._condition:
            raw, self._raw = self._raw, None
            self._rung, self._closing = None, False
        if raw is not None:
            raw.close()

    def _work(self) -> None:
        while self._wanted():
            while (early := self._told_at + GAP_SECONDS + LEEWAY_SECONDS - time.monotonic()) > 0:
                time.sleep(early)
            with self._condition:
                while (early := self._rung_at + GAP_SECONDS - time.monotonic()) > 0 and self._is_for_followers():
                    self._condition.wait(early)
                word, self._rung = self._rung, None
                self._told_at = time.monotonic() if word else self._told_at
            if word is not None:  # else somebody took it, or it was closed meanwhile
                self._tell(word)

    def _is_for_followers(self) -> bool:
        """These are told a little later: a worker that has claimed a job has to start it now."""
        return self._rung == _TO_FOLLOWERS and not self._closing

    def _wanted(self) -> bool:
        """Waits until it was rung; False if that was not for a while, or it is time to close."""
        with self._condition:
            self._condition.wait_for(lambda: self._rung or self._closing, IDLE_SECONDS)
            if not self._rung:
                self._thread = None  # who rings from now on starts another
            return self._rung is not None

    def _tell(self, word: str) -> None:
        """The connection may have died while it was of no use: another is tried once."""
        for _ in range(2):
            try:
                if self._raw is None:
                    self._raw = self._connect()
                self._raw.execute(word, prepare=False)
                return
            except (psycopg.Error, HoldfastError):
                raw, self._raw = self._raw, None
                if raw is not None:
                    raw.close()
        if not self._closing:
            time.sleep(TRIES_AGAIN_SECONDS)  # those who listen look for themselves meanwhile
