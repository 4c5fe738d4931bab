"""What the players of a scene run: `python -m tests.journeys.programs worker '{"name": "a", "lease": 0.5}'`."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from holdfast import Key, StoreUnavailable
from holdfast.store.clock import SystemClock
from tests.journeys.tasks import app, ledger, nothing, quick


class JumpingClock(SystemClock):
    """A wall clock that somebody sets by an hour as soon as a file is there."""

    __slots__ = ("_sign", "_switch")

    def __init__(self, switch: str, sign: int) -> None:
        self._switch, self._sign = Path(switch), sign

    def now(self) -> int:
        hour = 3_600_000_000 * self._sign if self._switch.exists() else 0
        return super().now() + hour


def worker(
    name: str, lease: float = 0.6, concurrency: int = 4, grace: float = 30.0, until_empty: bool = False,
    dies_after_claim: bool = False, jump: tuple[str, int] | None = None, queues: list[str] | None = None,
    no_threads: str | None = None,
) -> None:  # fmt: skip
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
    if jump is not None:
        app.store.clock = JumpingClock(*jump)
    if dies_after_claim:
        app.store.probe = _die_after_claim()
    if no_threads is not None:
        _refuse_threads(no_threads)
    someone = app.worker(queues=queues, name=name, lease=lease, concurrency=concurrency, grace=grace)
    someone.run_until_empty() if until_empty else someone.run()


def _refuse_threads(switch: str) -> None:
    """While a file is there, the system has no thread left for a job."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(("holdfast-job-", "holdfast-process-")) and os.path.exists(switch):
            raise RuntimeError("can't start new thread")
        start(thread)

    threading.Thread.start = refuse  # type: ignore[method-assign, assignment]


def _die_after_claim() -> Callable[[str], None]:
    """SIGKILL when a transaction that claimed something has been committed, and nothing was started yet."""
    verbs: list[str] = []

    def probe(what: str) -> None:
        verbs.append(what)
        if what == "begin":
            verbs.clear()
        if what == "committed" and "claim_jobs" in verbs:
            ledger.write("died", call="after claim")
            os.kill(os.getpid(), signal.SIGKILL)

    return probe


def lock(seconds: float) -> None:
    """Hold the write lock."""
    connection = sqlite3.connect(app.store.path, timeout=30.0, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    ledger.write("locked", call="lock")
    time.sleep(seconds)  # blocks on purpose
    connection.execute("ROLLBACK")
    ledger.write("unlocked", call="lock")


def await_file(path: str) -> None:
    """Processes that shall begin together."""
    while not os.path.exists(path):
        threading.Event().wait(0.001)


def keys(name: str, go: str, threads: int) -> None:
    """All at once ask for the same key, every third in a transaction that is rolled back at first."""
    ledger.write("ready", call=name)
    await_file(go)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda number: _ask_for_key(f"{name}-{number}", number), range(threads)))


def _ask_for_key(call: str, number: int) -> None:
    task = quick.using(key=Key("the", "one"))
    if number % 3 == 0:
        connection = sqlite3.connect(app.store.path, timeout=30.0, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        task.using(on=connection).enqueue(call=f"{call}-rolled-back")
        connection.execute("ROLLBACK")
        connection.close()
    if number % 3 == 1:
        connection = sqlite3.connect(app.store.path, timeout=30.0, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        job = task.using(on=connection).enqueue(call=call)
        connection.execute("COMMIT")
        connection.close()
    else:
        job = task.enqueue(call=call)
    ledger.write("ok", call=call, ids=[job.id], how="created" if job.created else "found")


def write(name: str, go: str, count: int) -> None:
    """One job after the other, and how long each had to wait."""
    nothing.enqueue(0)
    ledger.write("ready", call=name)
    await_file(go)
    waits = []
    for number in range(count):
        began = time.monotonic_ns()
        nothing.enqueue(number)
        waits.append(time.monotonic_ns() - began)
    ledger.write("waited", call=name, ids=[str(wait) for wait in waits])


def migrate(name: str, go: str) -> None:
    ledger.write("ready", call=name)
    await_file(go)
    ledger.write("migrated", call=name, ids=app.migrate())
    nothing.enqueue(1)


def enqueue(name: str) -> None:
    """Until there is a file `stop`: enqueue, and write down what became of it."""
    stop = Path(os.environ["HOLDFAST_TORTURE_LEDGERS"]).parent / "stop"
    number = 0
    while not stop.exists():
        number += 1
        try:
            id = quick.enqueue(call=f"{name}-{number}").id
        except StoreUnavailable as error:
            ledger.write("fail", call=name, error=str(error))
            threading.Event().wait(0.02)
        else:
            ledger.write("ok", call=name, ids=[id])


def fork(name: str) -> None:
    """Used before a fork, in the child, and in the parent afterwards."""
    before = quick.enqueue(call="before")
    child = os.fork()
    if child == 0:
        ledger.write("ok", call="child", ids=[quick.enqueue(call="child").id])
        assert app.get(before.id) is not None
        os._exit(0)
    ledger.write("ok", call="parent", ids=[quick.enqueue(call="parent").id])
    _, status = os.waitpid(child, 0)
    ledger.write("ok", call="after", ids=[quick.enqueue(call="after").id], error=str(status))


def bulk(count: int, chunks: int) -> None:
    """Many jobs from a generator; how much memory that took at its most, after each part."""
    for _ in range(chunks):
        app.enqueue_many(nothing.bind(number) for number in range(count // chunks))
        ledger.write("memory", call="bulk", token=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    options: dict[str, Any] = json.loads(sys.argv[2])
    programs = {each.__name__: each for each in (worker, lock, keys, write, migrate, enqueue, fork, bulk)}
    programs[sys.argv[1]](**options)
