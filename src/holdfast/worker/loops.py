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
        self._tasks: set[asyncio.Task[None]] = set()

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
        self._begin(run)
        task = loop.create_task(self._run(run))
        run.stop = lambda: _cancel(loop, task)
        if run.stopping is not None:
            run.stop()  # it was told to stop while it was on its way here
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, run: Run) -> None:
        following = self._desk.end(run, await acall(run, self._context))
        if following is not None:
            if following.task.is_async and not following.task.process:
                self._start(following)
            else:
                self._desk.start([following])

    async def close(self, grace_seconds: float) -> None:
        """Cancelled tasks get a moment to clean up."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_seconds)


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    try:
        loop.call_soon_threadsafe(task.cancel)
    except RuntimeError:
        return  # the loop is closed, and with it the task
