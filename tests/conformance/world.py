"""One kind of store, an app with a few tasks on it, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast import Holdfast, Job, Lease, Retry, Task
from holdfast.domain.states import EVENTS, State
from holdfast.testing import ManualClock
from tests.servers import migrated_database
from tests.simulation.invariants import PostgresRows, Rows, sqlite_rows

DELAYS = [10.0, 20.0]


@dataclass
class World:
    """`add` may run three times, 10 and 20 seconds apart; `once` may run once, in a queue of its own."""

    url: str
    rows: Rows
    """Runs a query of its own, as an onlooker would; it may say `holdfast_job` whatever the store calls that."""
    clock: ManualClock = field(default_factory=ManualClock)
    let_go: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        self.app, self.add, self.once = self.open()
        self._others: list[Holdfast] = []

    def open(self) -> tuple[Holdfast, Task[Callable[..., int]], Task[Callable[..., str]]]:
        app = Holdfast(self.url, clock=self.clock)

        @app.task(name="add", retry=Retry(delays=DELAYS, jitter=0))
        def add(a: int, b: int = 1) -> int:
            return a + b

        @app.task(name="once", queue="other", retry=Retry(1))
        def once(text: str) -> str:
            return text

        return app, add, once

    def another(self) -> Holdfast:
        """The same app as another process would have it: connections of its own."""
        app, _, _ = self.open()
        self._others.append(app)
        return app

    def close(self) -> None:
        for app in (self.app, *self._others):
            app.close()
        self.let_go()

    # Short words for what tests do all the time

    def get(self, job: Job | str) -> Job:
        found = self.app.get(job.id if isinstance(job, Job) else job)
        assert found is not None
        return found

    def state(self, job: Job | str) -> State:
        return self.get(job).state

    def kinds(self, job: Job | str) -> list[str]:
        return [event.kind for event in self.app.events(job.id if isinstance(job, Job) else job)]

    def claim(self, **options: Any) -> Lease:
        lease = self.app.claim(**options)
        assert lease is not None, "nothing was ready"
        return lease

    def everything(self) -> list[list[tuple[Any, ...]]]:
        """All that is stored, to see that nothing changed."""
        return [self.rows(f"SELECT * FROM holdfast_{table} ORDER BY 1, 2") for table in self.tables]

    @property
    def tables(self) -> tuple[str, ...]:
        return TABLES if self.app.store.dialect == "sqlite" else TABLES[1:]  # others count their numbers elsewhere

    def job_in(self, state: State) -> Job:
        """A job that was led to this state by the shortest way."""
        if state is State.SCHEDULED:
            return self.add.using(run_after=60).enqueue(1)
        job = self.add.using(attempts=1, queue=f"for-{state}").enqueue(1)
        if state is State.READY:
            return job
        if state is State.CANCELLED:
            return self.app.cancel(job.id)
        lease = self.claim(queues=[f"for-{state}"])
        match state:
            case State.RUNNING:
                return lease.job
            case State.SUCCEEDED:
                return self.app.finish(lease, 2)
            case State.FAILED:
                return self.app.fail(lease, "broken")
            case State.SKIPPED:
                return self.app.skip(lease, "not needed")
        raise AssertionError(f"no way to {state}")


TABLES = (
    "counter",
    "lane",
    "job",
    "job_spec",
    "ready",
    "scheduled",
    "running",
    "finished",
    "event",
    "error",
    "key",
    "tag",
    "worker",
    "notice",
)
REACHABLE = [state for state in State if state is not State.WAITING]
"""Nothing leads to `waiting` through the client API."""
ENDINGS = {EVENTS[verb] for verb in ("finish", "fail", "cancel", "skip")}


def sqlite_world(directory: Path) -> World:
    path = str(directory / "jobs.db")
    return World(f"sqlite:///{path}", sqlite_rows(path))


def postgres_world(directory: Path) -> World:
    database = ExitStack()
    url = database.enter_context(migrated_database())
    rows = PostgresRows(url)
    database.callback(rows.close)
    return World(url, rows, let_go=database.close)


STORES: dict[str, Callable[[Path], World]] = {"postgresql": postgres_world, "sqlite": sqlite_world}
"""The stores that have to pass: a new one is one more entry."""
