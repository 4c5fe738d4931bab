"""A psycopg connection on which no answer is waited for longer than so many seconds: then it is closed; and its settings.

psycopg's own I/O is a generator that yields what it waits for (`Wait.R`, `Wait.RW`) and is sent what is ready, every tenth of a
second at the latest. Both functions here wrap such a generator. They depend on psycopg's internals; pyproject has the versions.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.pq.abc import PGconn
from psycopg.waiting import Ready, Wait

from holdfast.store.postgres.url import CALL_SECONDS

MARGIN_SECONDS = 2.0
"""The server's own timeout comes first: it leaves the connection usable."""


class Timeout(psycopg.OperationalError):
    """The server did not answer at all. Whether it did what it was asked is not known."""


class Bounded(psycopg.Connection[tuple[Any, ...]]):
    bound_seconds = CALL_SECONDS + MARGIN_SECONDS
    settings_local = ""
    """What every transaction sets for itself, where the session's own settings are not ours."""

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Inside, our settings hold. Where they are set for a transaction only, it is one."""
        if not self.settings_local:
            yield
            return
        self.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED; {self.settings_local}", prepare=False)
        try:
            yield
        except Exception:
            with suppress(psycopg.Error):  # the connection is beyond use, and what made it so is the error to be seen
                self.execute("ROLLBACK", prepare=False)
            raise
        self.execute("COMMIT", prepare=False)

    def wait(self, gen: Any, *rest: Any, **options: Any) -> Any:
        try:
            return super().wait(_bounded(_sent(gen, self.pgconn), self.bound_seconds), *rest, **options)
        except Timeout:
            self.close()
            raise


def _bounded(steps: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """The same steps, until nothing could be read or written for so long."""
    deadline = time.monotonic() + seconds
    try:
        ready = yield next(steps)
        while True:
            if not ready and time.monotonic() > deadline:
                raise Timeout(f"no answer for {seconds:g} seconds")
            ready = yield steps.send(ready)
    except StopIteration as end:
        return end.value


def _sent(steps: Generator[Any, Any, Any], server: PGconn) -> Generator[Any, Any, Any]:
    """The same steps, but what was queued is sent before an answer is waited for.

    In a pipeline psycopg (3.3) goes on to read when the socket is full, with the rest of a long statement unsent: the server
    waits for that rest, and we for the server.
    """
    try:
        wanted = next(steps)
        while True:
            if wanted == Wait.R and server.flush():
                ready = yield Wait.RW
                if not ready & Ready.R:
                    continue
                ready = Ready.R
            else:
                ready = yield wanted
            wanted = steps.send(ready)
    except StopIteration as end:
        return end.value
