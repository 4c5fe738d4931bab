"""Thousands of random verbs, on the engine and on the model: the same answers, states, numbers, order and logs."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from holdfast import Cancelled, Fatal, Holdfast, HoldfastError, Key, Lease, Retry, Snooze
from holdfast.testing import ManualClock
from tests.servers import migrated_database
from tests.simulation.invariants import PostgresRows, Rows, check, steady_rows
from tests.simulation.model import DELAY, Model

KEYS = st.one_of(
    st.none(),
    st.builds(
        Key,
        st.sampled_from(["a", "b"]),
        scope=st.sampled_from(["forever", "active", 20.0]),
        conflict=st.sampled_from(["return", "return", "raise", "replace"]),
        failed=st.sampled_from(["free", "hold"]),
    ),
)
PICK = st.integers(min_value=0, max_value=1000)
SECONDS = st.sampled_from([0.5, DELAY, 9.0, 10.0, 10.001, 21.0])
OUTCOMES = {"finish", "fail", "fatal", "skip", "cancel", "release", "snooze"}


class EngineAgainstModel(RuleBasedStateMachine):
    new: Callable[[], Place]

    def __init__(self) -> None:
        super().__init__()
        self.place = type(self).new()
        self.rows = self.place.rows
        self.clock, self.model = ManualClock(), Model()
        self.app = Holdfast(self.place.url, clock=self.clock)
        self.tasks = {queue: self._task(queue) for queue in ("left", "right")}
        self.leases: list[Lease] = []

    def _task(self, queue: str) -> Any:
        @self.app.task(name=f"task-{queue}", queue=queue, retry=Retry(delays=[DELAY], jitter=0))
        def task(number: int) -> int:
            return number

        return task

    def teardown(self) -> None:
        self.app.close()
        self.place.leave()

    def both(self, engine: Callable[[], Any], model: Callable[[], Any]) -> Any:
        """Do it on both sides: the same error, or the engine's answer."""
        expected, _ = self.tried(model)
        found, answer = self.tried(engine)
        assert type(found) is type(expected), f"the model says {expected!r}, the engine {found!r}"
        return answer

    def tried(self, act: Callable[[], Any]) -> tuple[HoldfastError | None, Any]:
        try:
            return None, act()
        except HoldfastError as error:
            return error, None

    def some_job(self, pick: int) -> str:
        ids = sorted(self.model.jobs, key=lambda each: self.model.jobs[each].order)
        return ids[pick % len(ids)]

    # Time

    @rule(seconds=SECONDS)
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds
        self.model.tick += seconds

    @rule(seconds=st.sampled_from([-7.0, 3.0, 30.0]))
    def somebody_sets_the_clock(self, seconds: float) -> None:
        self.clock.jump(seconds)
        self.model.now += seconds

    @rule()
    def the_machine_is_rebooted(self) -> None:
        self.clock.reboot()
        self.model.reboot()

    # Verbs

    @rule(
        queue=st.sampled_from(["left", "right"]),
        priority=st.sampled_from([1, 100]),
        attempts=st.integers(1, 3),
        delay=st.sampled_from([0.0, 0.0, 0.0, 4.0, 12.0]),
        key=KEYS,
    )
    def enqueue(self, queue: str, priority: int, attempts: int, delay: float, key: Key | None) -> None:
        id = f"job-{self.model.accepted + 1}"
        task = self.tasks[queue].using(id=id, priority=priority, attempts=attempts, run_after=delay, key=key)
        got: list[str] = []
        job = self.both(
            lambda: task.enqueue(1), lambda: got.append(self.model.enqueue(id, queue, priority, attempts, delay, key))
        )
        if job is not None:
            assert (job.id, job.created) == (got[0], got[0] == id)

    @rule(queue=st.sampled_from([None, None, "left", "right"]), seconds=st.sampled_from([10.0, 20.0]))
    def claim(self, queue: str | None, seconds: float) -> None:
        lease = self.app.claim(queues=None if queue is None else [queue], seconds=seconds)
        job = self.model.claim(queue, seconds)
        assert (None if lease is None else lease.job.id) == (None if job is None else job.id)
        if lease is not None and job is not None:
            assert (lease.token, lease.job.attempt) == (job.token, job.attempt)
            self.leases.append(lease)

    @precondition(lambda self: self.leases)
    @rule(pick=PICK)
    def renew(self, pick: int) -> None:
        lease = self.leases[-1 - pick % len(self.leases)]
        self.both(lambda: self.app.renew(lease), lambda: self.model.renew(lease.job.id, lease.token))

    @precondition(lambda self: self.leases)
    @rule(pick=PICK, outcome=st.sampled_from(sorted(OUTCOMES)))
    def settle(self, pick: int, outcome: str) -> None:
        self.settle_one(self.leases[-1 - pick % min(3, len(self.leases))], outcome)

    @precondition(lambda self: self.leases)
    @rule(outcome=st.sampled_from(sorted(OUTCOMES)))
    def settle_late(self, outcome: str) -> None:
        """Its lease is over, but nobody has looked."""
        self.time_passes(21.0)
        self.settle_one(self.leases[-1], outcome)

    def settle_one(self, lease: Lease, outcome: str) -> None:
        verbs: dict[str, Callable[[], object]] = {
            "finish": lambda: self.app.finish(lease, 1),
            "fail": lambda: self.app.fail(lease, "broken"),
            "fatal": lambda: self.app.fail(lease, Fatal("hopeless")),
            "skip": lambda: self.app.skip(lease, "no need"),
            "cancel": lambda: self.app.fail(lease, Cancelled()),
            "release": lambda: self.app.release(lease),
            "snooze": lambda: self.app.fail(lease, Snooze(DELAY)),
        }
        self.both(verbs[outcome], lambda: self.model.settle(lease.job.id, lease.token, outcome))

    @precondition(lambda self: self.model.jobs)
    @rule(pick=PICK, verb=st.sampled_from(["cancel", "skip", "retry", "retry", "delete"]))
    def act(self, pick: int, verb: str) -> None:
        id = self.some_job(pick)
        engine = {
            "cancel": lambda: self.app.cancel(id),
            "skip": lambda: self.app.skip(id, "no need"),
            "retry": lambda: self.app.retry(id),
            "delete": lambda: self.app.delete(id),
        }
        self.both(engine[verb], lambda: getattr(self.model, verb)(id))

    @rule(age=st.sampled_from([0.0, 15.0]))
    def prune(self, age: float) -> None:
        assert self.app.prune(age) == self.model.prune(age)

    # What must always be true

    @invariant()
    def agree(self) -> None:
        query = "SELECT id, state, attempt, token FROM holdfast_job"
        assert {id: rest for id, *rest in self.rows(query)} == {
            job.id: [job.state, job.attempt, job.token] for job in self.model.jobs.values()
        }

    @invariant()
    def logs_agree(self) -> None:
        first = "SELECT id, CASE WHEN scheduled_for IS NULL THEN 'enqueued' ELSE 'scheduled' END FROM holdfast_job_spec"
        logs = {id: [kind] for id, kind in self.rows(first)}
        events = "SELECT body.id, event.kind FROM holdfast_event AS event JOIN holdfast_job_spec AS body ON body.seq = event.job"
        for id, kind in self.rows(f"{events} ORDER BY event.job, event.number"):
            logs[id].append(kind)
        assert logs == {job.id: job.log for job in self.model.jobs.values()}

    @invariant()
    def stores_are_sound(self) -> None:
        check(self.rows)

    @invariant()
    def keys_agree(self) -> None:
        held = {text: holding.job.id for text, holding in self.model.keys.items()}
        assert dict(self.rows("SELECT key, id FROM holdfast_key")) == held


class Place(NamedTuple):
    """An empty database for one example."""

    url: str
    rows: Rows
    leave: Callable[[], None]


def in_a_file(template: Path) -> Place:
    folder = tempfile.mkdtemp(prefix="holdfast-model-")
    path = shutil.copy(template, folder)
    onlooker = sqlite3.connect(path, isolation_level=None)

    def leave() -> None:
        onlooker.close()
        shutil.rmtree(folder)

    return Place(f"sqlite:///{path}", steady_rows(onlooker), leave)


def on_a_server() -> Place:
    stack = ExitStack()
    url = stack.enter_context(migrated_database())
    rows = PostgresRows(url)
    stack.callback(rows.close)
    return Place(url, rows, stack.close)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that is migrated once and copied for every example."""
    path = tmp_path_factory.mktemp("template") / "jobs.db"
    with Holdfast(f"sqlite:///{path}") as app:
        app.migrate()
    return path


@pytest.mark.parametrize("part", range(2))
def test_the_engine_does_what_the_model_does(template: Path, part: int) -> None:
    """In two parts, so that two processors can share it; always the same examples, unless asked to search."""
    compare(lambda: in_a_file(template), part, examples=200)


def test_the_engine_does_on_a_server_what_the_model_does() -> None:
    compare(on_a_server, part=2, examples=25)


def compare(new: Callable[[], Place], part: int, examples: int) -> None:
    machine = type(f"Part{part}", (EngineAgainstModel,), {"new": staticmethod(new)})
    if not settings().derandomize:
        run_state_machine_as_test(machine, settings=settings(stateful_step_count=80))
        return
    steady = settings(max_examples=examples, stateful_step_count=50, derandomize=False, database=None)
    run_state_machine_as_test(seed(part)(machine), settings=steady)
