"""A worker inside the web process, for as long as that lives: `FastAPI(lifespan=holdfast.web.lifespan(app))`."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final

from holdfast.app import Holdfast
from holdfast.domain.retry import Duration
from holdfast.settings import CONCURRENCY, GRACE_SECONDS, LEASE_SECONDS
from holdfast.worker.worker import Worker

log = logging.getLogger("holdfast.web")

AGAIN_SECONDS: Final = 5.0
"""A worker that failed is started again after that."""
_LOCK: Final = threading.Lock()


class Tenure:
    """A worker that runs in a thread, and how many want it to."""

    def __init__(self, app: Holdfast, worker: Worker) -> None:
        self.app, self.worker, self.holders = app, worker, 1
        self.failure: str | None = None
        """Why it was last started again."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-web-worker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.worker.run()
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}"
                log.exception("worker %s failed; it is started again in %g s", self.worker.name, AGAIN_SECONDS)
                self._stopped.wait(AGAIN_SECONDS)

    def end(self) -> None:
        """When what runs is finished, or its time is up."""
        self._stopped.set()
        self.worker.stop()
        self._thread.join()


_RUNNING: Final[dict[tuple[int, int], Tenure]] = {}
"""One worker per process and app."""


def tenure_of(app: Holdfast) -> Tenure | None:
    """The worker that should run for the app inside this process."""
    with _LOCK:
        return _RUNNING.get((os.getpid(), id(app)))


class Lifespan:
    """An ASGI lifespan, and an async context manager. What is started twice runs once, until the last one leaves."""

    def __init__(self, app: Holdfast, options: dict[str, Any]) -> None:
        self._app, self._options = app, options
        self._place = (0, 0)
        self._ending: Tenure | None = None

    def __call__(self, _: Any) -> Lifespan:
        """What FastAPI and Starlette do with a lifespan."""
        return self

    async def __aenter__(self) -> None:
        self._place = (os.getpid(), id(self._app))
        with _LOCK:
            running = _RUNNING.get(self._place)
            if running is None:
                _RUNNING[self._place] = Tenure(self._app, self._app.worker(**self._options))
            else:
                running.holders += 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _LOCK:
            running = _RUNNING[self._place]
            running.holders -= 1
            if running.holders:
                return
            del _RUNNING[self._place]
        self._ending = running
        await asyncio.to_thread(running.end)

    def hurry(self) -> None:
        """Hand back what the worker was going to finish."""
        if self._ending is not None:
            self._ending.worker.stop()


def lifespan(
    app: Holdfast,
    *,
    queues: Sequence[str] | None = None,
    concurrency: int = CONCURRENCY,
    name: str | None = None,
    lease: Duration = LEASE_SECONDS,
    grace: Duration = GRACE_SECONDS,
) -> Lifespan:
    """Runs `app.worker(...)` beside the web application; at the end it finishes what runs, for at most `grace` seconds."""
    chosen = None if queues is None else list(queues)
    return Lifespan(app, {"queues": chosen, "concurrency": concurrency, "name": name, "lease": lease, "grace": grace})
