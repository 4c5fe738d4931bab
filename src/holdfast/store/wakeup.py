"""A wake-up from one thread to another that an exception from a signal handler cannot leave locked.

`threading.Event`, `Condition` and `Semaphore` take their lock in Python code: a handler that raises there leaves it held, and who
comes next hangs. `with lock:` on a plain lock, and `SimpleQueue`, take theirs in C, where no handler runs.
"""

from __future__ import annotations

from contextlib import suppress
from queue import Empty, SimpleQueue


class Wakeup:
    def __init__(self) -> None:
        self._calls: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """End the wait that is going on, or the next one."""
        if self._calls.empty():
            self._calls.put(None)

    def clear(self) -> None:
        with suppress(Empty):
            while True:
                self._calls.get_nowait()

    def wait(self, seconds: float | None = None) -> bool:
        """True: it was set since this was last called."""
        try:
            self._calls.get(timeout=None if seconds is None else max(0.0, seconds))
        except Empty:
            return False
        self.clear()
        return True
