"""Requests for jobs, in every way that the client offers, each with a line in the ledger before and after it.

A kill between the two lines leaves the request undecided: the job may or may not exist.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from holdfast.domain.key import Key
from holdfast.errors import IllegalMove
from holdfast.task import Task
from holdfast.torture.direct import ORDER, connect, direct
from holdfast.torture.forks import in_child
from holdfast.torture.workload import WEIGHTS, app, crash, ledger, poison

BACKLOG_MAX: Final = 1_500
KEYS: Final = 40
"""Keys in use at one time: few, so that several requests have the same."""
FATES: Final = ("leaves", "closes", "is killed", "is busy")
"""What becomes of the parent of a forked child that enqueues."""
AnyTask = Task[Any]


class Requester:
    def __init__(self, chance: random.Random, name: str) -> None:
        self._chance, self._name = chance, name
        self._count = 0
        self._recent: list[str] = []
        self._ways: dict[Callable[[], None], int] = {
            self._one: 30, self._bulk: 10, self._keyed: 25, self._transaction: 20, self._burst: 6, self._gathered: 6,
            self._cancel: 6, self._forked: 8,
        }  # fmt: skip

    def run(self) -> None:
        ledger.hold()
        self._reader = connect(app.url)
        while True:
            if self._backlog() < BACKLOG_MAX:
                self._chance.choices(list(self._ways), list(self._ways.values()))[0]()
            time.sleep(self._chance.uniform(0.0, 0.02))

    # Kinds of requests

    def _one(self) -> None:
        self._enqueue((self._call(), self._task()), how="one")

    def _bulk(self) -> None:
        calls = [self._call() for _ in range(self._bulk_size())]
        ledger.write("invoke", how="bulk", calls=calls)
        self._acknowledge(calls, *app.enqueue_many(self._task().bind(call=call) for call in calls).ids)

    def _keyed(self) -> None:
        call, key = self._call(), self._key()
        ledger.write("invoke", how="keyed", calls=[call], key=key)
        self._acknowledge([call], self._task(key).enqueue(call=call).id, key=key)

    def _transaction(self) -> None:
        """A row of the user and the job, in one transaction of the user: both are committed, or neither."""
        call, rolled_back = self._call(), self._chance.random() < 0.3
        key = self._key() if self._chance.random() < 0.4 else None
        ledger.write("invoke", how="transaction", calls=[call], key=key, rolled_back=rolled_back)
        with direct(app.url) as connection:
            connection.begin()
            connection.execute(f"INSERT INTO {ORDER} VALUES (?)", (call,))  # noqa: S608
            id = self._task(key).using(on=connection.raw).enqueue(call=call).id
            connection.execute("ROLLBACK" if rolled_back else "COMMIT")
        if not rolled_back:
            self._acknowledge([call], id, key=key)

    def _burst(self) -> None:
        """Several threads at once: their jobs share commits."""
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(self._enqueue, [(self._call(), self._task()) for _ in range(16)]))

    def _gathered(self) -> None:
        """Several coroutines at once: their jobs share commits."""
        asyncio.run(self._gather([(self._call(), self._task()) for _ in range(16)]))

    async def _gather(self, wanted: list[tuple[str, AnyTask]]) -> None:
        await asyncio.gather(*(self._aenqueue(call, task) for call, task in wanted))

    def _enqueue(self, wanted: tuple[str, AnyTask], how: str = "burst") -> None:
        call, task = wanted
        ledger.write("invoke", how=how, calls=[call])
        self._acknowledge([call], task.enqueue(call=call).id)

    async def _aenqueue(self, call: str, task: AnyTask) -> None:
        ledger.write("invoke", how="gathered", calls=[call])
        self._acknowledge([call], (await task.aenqueue(call=call)).id)

    def _forked(self) -> None:
        """A child of a process of its own, which writes as this one does and then leaves, closes, is killed, or stays busy."""
        self._reader.close()  # a child must not inherit a connection of the program's own
        fate = self._chance.choice(FATES)
        ledger.write("fork", how=fate)
        parent = in_child(lambda: self._lead(fate))
        self._reader = connect(app.url)
        os.waitpid(parent, 0)

    def _lead(self, fate: str) -> None:
        """The parent of the child: either of them may end first."""
        self._name = f"{self._name}.{os.getpid()}"
        busy = threading.Thread(target=self._enqueue_some, args=("parent", 12), daemon=True)
        self._enqueue_some("parent", 1)
        if fate == "is busy":
            busy.start()
        child = in_child(lambda: self._enqueue_some("child", self._chance.randint(1, 6), f"{self._name}.child"))
        match fate:
            case "is busy":
                busy.join()
                os.waitpid(child, 0)
            case "closes":
                app.close()
                os.waitpid(child, 0)
            case "is killed":
                os.kill(os.getpid(), signal.SIGKILL)

    def _enqueue_some(self, how: str, count: int, name: str | None = None) -> None:
        self._name = name or self._name
        for _ in range(count):
            self._enqueue((self._call(), self._task()), how=how)

    def _cancel(self) -> None:
        if not self._recent:
            return
        id = self._chance.choice(self._recent)
        ledger.write("cancel", ids=[id])
        try:
            app.cancel(id)
        except IllegalMove:
            return  # the job had already ended
        ledger.write("cancelled", ids=[id])

    # Random choices

    def _bulk_size(self) -> int:
        return self._chance.randint(2, 60)

    def _call(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    def _key(self) -> int:
        """From a range that moves with time and is the same in all processes."""
        return int(time.monotonic() * 4) + self._chance.randrange(KEYS)

    def _task(self, key: int | None = None) -> AnyTask:
        chance = self._chance
        task = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        attempts = None if task in (crash, poison) or chance.random() < 0.5 else chance.choice((3, 8, 25))
        run_after = chance.uniform(0.0, 2.0) if chance.random() < 0.15 else None
        named = None if key is None else Key("torture", key, failed="hold")
        priority = chance.choice((1, 100, 100, 500))
        return task.using(attempts=attempts, run_after=run_after, key=named, priority=priority)

    def _acknowledge(self, calls: list[str], *ids: str, key: int | None = None) -> None:
        ledger.write("ok", calls=calls, ids=list(ids), key=key)
        self._recent = [*self._recent, ids[-1]][-20:]

    def _backlog(self) -> int:
        query = "SELECT count(*) FROM (SELECT 1 FROM holdfast_ready LIMIT ?) AS first_ones"
        return int(self._reader.execute(query, (BACKLOG_MAX,)).fetchone()[0])
