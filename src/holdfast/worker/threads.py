"""Plain functions run in threads. A thread cannot be stopped: its code is told, and if it goes on it is left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from holdfast.worker.desk import Desk, Run
from holdfast.worker.runner import call


class ThreadPool:
    def __init__(self, desk: Desk, context: Callable[[Run], Any], begin: Callable[[Run], None]) -> None:
        self._desk, self._context, self._begin = desk, context, begin
        self._runs: SimpleQueue[Run | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0

    def start(self, runs: list[Run]) -> None:
        """From any thread; as many threads as jobs run at once, and no more."""
        for run in runs:
            try:
                self._provide_thread()
            except RuntimeError as error:  # the system has no more
                self._desk.refuse(run, error)
            else:
                self._runs.put(run)

    def _provide_thread(self) -> None:
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                return
            threading.Thread(target=self._work, name=f"holdfast-job-{self._threads + 1}", daemon=True).start()
            self._threads += 1

    def stop(self, run: Run) -> None:
        """Nothing can be done but tell its context, which was done."""

    def _work(self) -> None:
        while (run := self._runs.get()) is not None:
            following: Run | None = run
            while following is not None:
                run = following
                run.pool = self
                self._begin(run)
                following = self._desk.end(run, call(run, self._context))
                if following is not None and (following.task.is_async or following.task.process):
                    self._desk.start([following])
                    following = None
            with self._lock:
                self._idle += 1

    def close(self) -> None:
        """Idle threads go; busy ones are daemons and do not keep the process alive."""
        with self._lock:
            threads = self._threads
        for _ in range(threads):
            self._runs.put(None)
