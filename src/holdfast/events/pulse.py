"""One thread per process that waits for commits, and does something after each: at once after a pause, else not too often."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Final

from holdfast.domain.sanitize import one_line
from holdfast.store.store import Watcher

log = logging.getLogger("holdfast.events")

GAP_SECONDS: Final = (0.002, 0.02)
GAP_BEATS: Final = 5.0
"""A beat is followed by a pause that is so many times as long: few followers are told at once, many cost no more."""
WAIT_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 5.0
"""The longest between two beats: a notification may be lost."""
IDLE_SECONDS: Final = 10.0
RETRY_SECONDS: Final = (0.05, 2.0)

_chance: Final = random.SystemRandom()  # the program may have seeded the common one for itself
_inherited: list[Watcher] = []
"""Of a parent process: to close one here could end it there."""


class Pulse:
    """Comes with the first who needs it, and goes a while after the last.

    watcher  opens what waits for commits.
    beat     is called after commits. What it raises is told of, and it is called again.
    wanted   whether anybody needs it.
    """

    def __init__(self, watcher: Callable[[], Watcher], beat: Callable[[], None], wanted: Callable[[], bool]) -> None:
        self._open, self._beat, self._needed = watcher, beat, wanted
        self._watcher: Watcher | None = None
        self.forget()

    def forget(self) -> None:
        """In a forked child, which does not have the thread."""
        if self._watcher is not None:
            _inherited.append(self._watcher)
        self._owner = os.getpid()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._used_at = 0.0
        self._watcher = None

    @property
    def is_inherited(self) -> bool:
        return self._owner != os.getpid()

    def start(self) -> None:
        """Beat soon, with a thread that is started if there is none."""
        with self._mutex:
            self._used_at = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="holdfast-pulse", daemon=True)
                self._thread.start()
            watcher = self._watcher
        if watcher is not None:
            watcher.nudge()

    def close(self) -> None:
        """The thread ends now if nothing needs it; the next follower starts it again."""
        if self.is_inherited:
            return
        with self._mutex:
            self._used_at = float("-inf")
            watcher = self._watcher
        if watcher is not None:
            watcher.nudge()

    def _work(self) -> None:
        failures = 0
        while self._wanted():
            try:
                watcher = self._open()
                with self._mutex:
                    self._watcher = watcher
                try:
                    while self._wanted():
                        self._turn(watcher)
                        failures = 0
                finally:
                    with self._mutex:
                        self._watcher = None
                    watcher.close()
            except Exception as error:
                if not failures:
                    log.warning(
                        "followers are told nothing for now (%s); trying again until that is better", one_line(str(error))
                    )
                failures += 1
                low, high = RETRY_SECONDS
                time.sleep(min(high, low * float(2 ** min(failures, 10))) * _chance.uniform(0.5, 1.0))

    def _turn(self, watcher: Watcher) -> None:
        """A beat, which also tells of what was committed before the watch began; then until there is word of a commit."""
        began = time.monotonic()
        self._beat()
        low, high = GAP_SECONDS
        time.sleep(min(high, max(low, GAP_BEATS * (time.monotonic() - began))))
        while time.monotonic() - began < LOOK_SECONDS and self._wanted():
            if watcher.wait(WAIT_SECONDS):
                return

    def _wanted(self) -> bool:
        with self._mutex:
            if self._needed() or time.monotonic() - self._used_at <= IDLE_SECONDS:
                return True
            self._thread = None
            return False
