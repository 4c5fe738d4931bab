"""Coroutine functions run as asyncio tasks, each in a task (and so in a context) of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.worker.desk import Desk, Run
from holdfast.worker.runner import acall


class LoopPool:
    def __init__(self, desk: Desk, context: Callable[[Run], Any], begin: Callable[[Run], None]) -> None:
        self._desk, self._context, self._begin = desk, context, begin
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(self, runs: list[Run]) -> None:
        """From any thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._start_all, runs)

    def _start_all(self, runs: list[Run]) -> None:
        for run in runs:
            self._start(run)

    def _start(self, run: Run) -> None:
        loop = self._loop
        assert loop is not None
        run.pool = self
        self._begin(run)
        run.handle = loop.create_task(self._run(run))
        if run.stopping is not None:
            self.stop(run)  # it was told to stop while it was on its way here

    def stop(self, run: Run) -> None:
        """From any thread."""
        loop = self._loop
        assert loop is not None
        try:
            loop.call_soon_threadsafe(self._cancel, run)
        except RuntimeError:
            return  # the loop is closed, and with it the task

    def _cancel(self, run: Run) -> None:
        if run.handle is not None and not run.ended:
            run.handle.cancel()

    async def _run(self, run: Run) -> None:
        following = self._desk.end(run, await acall(run, self._context))
        if following is not None:
            if following.task.is_async and not following.task.process:
                self._start(following)
            else:
                self._desk.start([following])

    async def close(self, grace_seconds: float) -> None:
        """Cancelled tasks get a moment to clean up."""
        tasks = [run.handle for run in self._desk.running() if isinstance(run.handle, asyncio.Task)]
        if tasks:
            await asyncio.wait(tasks, timeout=grace_seconds)
