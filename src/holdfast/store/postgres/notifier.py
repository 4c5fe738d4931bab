"""Notifies other processes of commits: at most one NOTIFY every few milliseconds.

NOTIFY inside a transaction makes all commits of the database wait for each other, so it is sent after the commit: in the packet
of a single statement if none was sent of late, else by the next such statement, and if none comes, on a connection and in a
thread of its own. It is a hint: workers and followers look for themselves every second or two anyway.

There are two channels. `holdfast` is for commits that bring work. `holdfast_followers` is for those that only followers of jobs
care about: no worker wakes for them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final

import psycopg

from holdfast.errors import HoldfastError
from holdfast.store.postgres.schema import Raw
from holdfast.store.sql import Wakes
from holdfast.store.wakeup import Wakeup

CHANNEL: Final = "holdfast"
FOLLOWERS_CHANNEL: Final = "holdfast_followers"
CHANNELS: Final[dict[Wakes, str]] = {"workers": CHANNEL, "followers": FOLLOWERS_CHANNEL}
"""The same for all schemas: to wake for nothing does no harm. A follower listens on both."""
GAP_SECONDS: Final = 0.003
LEEWAY_SECONDS: Final = 0.001
"""The thread waits so much longer than a statement does: in a stream of them the next one carries the notification, which costs
less than a thread that wakes (one by one: 15 µs of 115)."""
IDLE_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 1.0
_NOTIFY: Final = "BEGIN; SET LOCAL synchronous_commit = off; NOTIFY {}; COMMIT"  # a hint need not be on the disk


class Notifier:
    def __init__(self, connect: Callable[[], Raw]) -> None:
        self._connect = connect
        self.forget()

    def forget(self) -> Raw | None:
        """In a forked child, which has neither the thread nor a right to the connection."""
        inherited = getattr(self, "_raw", None)
        self._raw: Raw | None = None
        self._mutex = threading.Lock()
        self._wakeup = Wakeup()
        self._requested: Wakes | None = None
        self._sent_at = self._requested_at = -math.inf
        self._closing = False
        self._thread: threading.Thread | None = None
        return inherited

    def request(self, wakes: Wakes) -> None:
        """Send a notification soon. Never waits for the server."""
        if self._requested in ("workers", wakes):
            return  # and not sent yet; followers hear of work, too
        with self._mutex:
            if not self._closing and not (self._thread is not None and self._thread.is_alive()):
                self._thread = threading.Thread(target=self._work, name="holdfast-notifier", daemon=True)
                self._thread.start()
            if self._requested is None:
                self._requested_at = time.monotonic()
            self._requested = wakes
        self._wakeup.set()

    def take_over(self) -> bool:
        """True, at most every few milliseconds: the caller must notify workers in the packet of its own statement.

        That notification also stands for what was requested and not sent yet.
        """
        now = time.monotonic()
        if now - self._sent_at < GAP_SECONDS:
            return False
        self._sent_at, self._requested = now, None
        return True

    def close(self) -> None:
        """What was requested is sent first; it can be used again afterwards."""
        with self._mutex:
            thread, self._closing = self._thread, True
        self._wakeup.set()
        if thread is not None:
            thread.join(2 * RETRY_SECONDS)
        with self._mutex:
            raw, self._raw = self._raw, None
            self._requested, self._closing = None, False
        if raw is not None:
            raw.close()

    def _work(self) -> None:
        while self._wait_for_request():
            while (early := self._sent_at + GAP_SECONDS + LEEWAY_SECONDS - time.monotonic()) > 0:
                time.sleep(early)
            while (early := self._requested_at + GAP_SECONDS - time.monotonic()) > 0 and self._is_for_followers():
                self._wakeup.wait(early)
            with self._mutex:
                wakes, self._requested = self._requested, None
                self._sent_at = time.monotonic() if wakes else self._sent_at
            if wakes is not None:  # else it was taken over, or this was closed meanwhile
                self._send(CHANNELS[wakes])

    def _is_for_followers(self) -> bool:
        """They are notified a little later: a worker that has claimed a job starts it first."""
        return self._requested == "followers" and not self._closing

    def _wait_for_request(self) -> bool:
        """False if none came for a while, or it is time to close."""
        deadline = time.monotonic() + IDLE_SECONDS
        while True:
            with self._mutex:
                if self._requested:
                    return True
                if self._closing or time.monotonic() >= deadline:
                    self._thread = None  # the next request starts another
                    return False
            self._wakeup.wait(deadline - time.monotonic())

    def _send(self, channel: str) -> None:
        """The connection may have died while it was of no use: another is tried once."""
        for _ in range(2):
            try:
                if self._raw is None:
                    self._raw = self._connect()
                self._raw.execute(_NOTIFY.format(channel), prepare=False)
                return
            except (psycopg.Error, HoldfastError):
                raw, self._raw = self._raw, None
                if raw is not None:
                    raw.close()
        if not self._closing:
            time.sleep(RETRY_SECONDS)  # those who listen look for themselves meanwhile
