"""One watcher per process: any number of waiters learn from it that something was committed somewhere."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Final

from holdfast.store.store import Watcher

log = logging.getLogger("holdfast.events")

BEAT_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 10.0


class Pulse:
    """Counts commits. A waiter notes the count, reads the store, and waits for the count to move on."""

    def __init__(self, watcher: Callable[[], Watcher]) -> None:
        self._open = watcher
        self._reset()

    def _reset(self) -> None:
        self.count = 0
        self._owner = os.getpid()
        self._condition = threading.Condition()
        self._loops: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._thread: threading.Thread | None = None
        self._last_used = 0.0
        self._watcher: Watcher | None = None

    def close(self) -> None:
        """The thread goes now, if nobody waits; it comes back with the next waiter."""
        if self._owner != os.getpid():
            return
        with self._condition:
            self._last_used = float("-inf")
            watcher = self._watcher
        if watcher is not None:
            watcher.nudge()

    def wait(self, count: int, timeout_seconds: float) -> bool:
        """True when something was committed since `count` was read; False when the time is up."""
        self._start()
        with self._condition:
            return self._condition.wait_for(lambda: self.count != count, timeout_seconds)

    async def await_(self, count: int, timeout_seconds: float) -> bool:
        self._start()
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        with self._condition:
            self._loops.add(waiter)
        try:
            if self.count == count:
                await asyncio.wait_for(waiter[1].wait(), timeout_seconds)
            return True
        except TimeoutError:
            return False
        finally:
            with self._condition:
                self._loops.discard(waiter)

    def _start(self) -> None:
        if self._owner != os.getpid():
            self._reset()
        self._last_used = time.monotonic()
        with self._condition:
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="holdfast-pulse", daemon=True)
                self._thread.start()

    def _watch(self) -> None:
        """Until nobody has waited for a while; then the thread goes, and comes back with the next waiter."""
        try:
            watcher = self._watcher = self._open()
            try:
                self._beat()  # what was committed before the watch began must not be missed
                while self._wanted():
                    if watcher.wait(BEAT_SECONDS):
                        self._beat()
            finally:
                self._watcher = None
                watcher.close()
        except Exception as error:
            log.warning("nobody tells of commits any more (%s); the next to wait tries again", error)
            with self._condition:
                self._thread = None

    def _wanted(self) -> bool:
        with self._condition:
            if time.monotonic() - self._last_used <= IDLE_SECONDS or self._loops:
                return True
            self._thread = None
            return False

    def _beat(self) -> None:
        with self._condition:
            self.count += 1
            self._condition.notify_all()
            waiters = list(self._loops)
        for loop, event in waiters:
            try:
                loop.call_soon_threadsafe(event.set)
            except RuntimeError:
                continue  # that loop was closed while it waited
