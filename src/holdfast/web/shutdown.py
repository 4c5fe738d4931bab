"""The end of the server, told early: open streams would otherwise keep it from ending.

Servers tell an application that they stop only after its last answer is complete. So the signals that stop a server are heard
here as well, before the server's own handler has them.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Final
from weakref import WeakSet

LATE_SECONDS: Final = 10.0
"""A stream that begins so soon after the end was told is told as well; later it is on a server that was started again."""
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Closing:
    """Calls back everybody who waits for the end, each in its own loop."""

    def __init__(self) -> None:
        self._begun_at = float("-inf")
        self._lock = threading.RLock()  # a signal may come while this very thread holds it
        self._waiting: dict[Callable[[], None], asyncio.AbstractEventLoop] = {}
        self._heard: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

    def add(self, told: Callable[[], None]) -> None:
        """From a running loop; to be told there."""
        loop = asyncio.get_running_loop()
        if loop not in self._heard:
            self._heard.add(loop)
            on_exit(self.begin)
        with self._lock:
            self._waiting[told] = loop
        if time.monotonic() - self._begun_at < LATE_SECONDS:
            told()

    def discard(self, told: Callable[[], None]) -> None:
        with self._lock:
            self._waiting.pop(told, None)

    def begin(self) -> None:
        """From any thread, or from a signal handler."""
        self._begun_at = time.monotonic()
        with self._lock:
            waiting = list(self._waiting.items())
        for told, loop in waiting:
            try:
                loop.call_soon_threadsafe(told)
            except RuntimeError:
                continue  # that loop is closed already

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)


def on_exit(begin: Callable[[], None]) -> None:
    """Hear the signals that stop this process, and pass them on. Only the main thread can; elsewhere there is nothing to hear."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        _chain(number, begin)


def _chain(number: signal.Signals, begin: Callable[[], None]) -> None:
    previous = signal.getsignal(number)

    def heard(number: int, frame: FrameType | None) -> None:
        begin()
        if callable(previous):
            previous(number, frame)
        elif previous is signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    signal.signal(number, heard)
