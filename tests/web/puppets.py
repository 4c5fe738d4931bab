"""Jobs that do what a test tells them, when it tells them, on a real worker; and a browser to watch them in."""

from __future__ import annotations

import os
import queue
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Context, Holdfast, LeaseLost, Retry
from holdfast.domain.callback import CALLBACK_QUEUE
from holdfast.domain.job import Job
from tests.until import PATIENCE

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")

Act = Callable[[Context], Any]


class Puppet:
    """A running job on a string."""

    def __init__(self, job: Job, acts: queue.SimpleQueue[Act]) -> None:
        self.id, self._acts = job.id, acts

    def emit(self, kind: str, data: Any = None) -> None:
        self._acts.put(lambda ctx: ctx.emit(kind, data))

    def emit_many(self, kind: str, count: int) -> None:
        def act(ctx: Context) -> None:
            for number in range(count):
                ctx.emit(kind, {"n": number})

        self._acts.put(act)

    def progress(self, done: float, total: float, **fields: Any) -> None:
        self._acts.put(lambda ctx: ctx.progress(done, total, **fields))

    def do(self, act: Act) -> None:
        """Anything; what it returns, if it is not None, is the job's result."""
        self._acts.put(act)

    def finish(self, result: Any) -> None:
        self._acts.put(lambda _: result)

    def fail(self, message: str) -> None:
        def act(_: Context) -> None:
            raise ValueError(message)

        self._acts.put(act)


class Puppets:
    """An app with one task, and a worker in a thread of this process: no server that is killed takes it along."""

    def __init__(self, url: str) -> None:
        self.url, self.app = url, Holdfast(url)
        self._acts: dict[str, queue.SimpleQueue[Act]] = {}

        @self.app.task(name="archive.read_document", retry=Retry(delays=[0.0], jitter=0))
        def read_document(ctx: Context, name: str, rest: Any = None) -> Any:
            return self._perform(ctx, name, rest)

        self.task = read_document

    def _perform(self, ctx: Context, name: str, rest: Any = None) -> Any:
        acts = self._acts[name]
        while True:
            try:
                result = acts.get(timeout=PATIENCE)(ctx)
            except LeaseLost:
                return None
            if result is not None:
                return result

    def start(self, rest: Any = None, **options: Any) -> Puppet:
        name = f"puppet-{len(self._acts)}"
        self._acts[name] = queue.SimpleQueue()
        return Puppet(self.task.using(**options).enqueue(name, rest), self._acts[name])

    def park(self, count: int = 1, **options: Any) -> list[Job]:
        """Jobs that nobody runs: of a queue that the worker does not serve."""
        return list(self.app.enqueue_many(self.task.using(queue="parked", **options).bind("nobody") for _ in range(count)))

    def deliver(self) -> None:
        """Every callback that is due; in a thread, since a browser's test has an event loop in its own."""
        thread = threading.Thread(target=self.app.worker(queues=[CALLBACK_QUEUE]).run_until_empty)
        thread.start()
        thread.join(PATIENCE)

    @contextmanager
    def working(self, **options: Any) -> Iterator[None]:
        worker = self.app.worker(queues=["default"], concurrency=8, grace=0, **options)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield
        finally:
            for acts in self._acts.values():
                acts.put(lambda _: "the test is over")
            worker.stop()
            thread.join(PATIENCE)


def chromium() -> str:
    """Where the browser is, or a skipped test that says what is missing."""
    named = os.environ.get("HOLDFAST_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if not found or not Path(found).exists():
        pytest.skip(f"there is no browser: install Debian's package chromium, or name one in HOLDFAST_CHROMIUM (now {named!r})")
    return found
