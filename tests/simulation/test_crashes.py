"""A crash at every statement of every operation: all of a transaction or nothing of it, and the operation can be done again."""

from __future__ import annotations

import functools
import itertools
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import Holdfast, State
from holdfast.store import tend
from holdfast.testing import Crash, CrashPoint, statements_of
from tests.simulation.ground import GROUNDS, Dump, Ground, SqliteGround
from tests.simulation.scenes import LEASE, SCENES, Scene, Stage

KILLED = 9


@pytest.fixture(params=sorted(GROUNDS))
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ground]:
    with GROUNDS[request.param](tmp_path) as ground:
        yield ground


@pytest.fixture(autouse=True)
def repeatable(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """The same ids in every run, and small batches, so that operations of several transactions show themselves."""
    numbers = itertools.count(1)

    def start(base: int) -> None:
        nonlocal numbers
        numbers = itertools.count(base * 1_000)
        monkeypatch.setattr("holdfast.store.workers.new_number", lambda: next(numbers))

    for module in ("enqueue", "callbacks"):
        monkeypatch.setattr(f"holdfast.store.{module}.first_id", lambda now: next(numbers) << 64)
    monkeypatch.setattr("holdfast.client.enqueueing.ENQUEUE_BATCH_MAX", 3)
    monkeypatch.setattr(tend, "prune", functools.partial(tend.prune, limit=2))
    return start


class Play:
    """One scene, arranged once; each take of it starts from a copy of that."""

    def __init__(self, scene: Scene, ground: Ground, start: Callable[[int], None]) -> None:
        self.scene, self.ground, self.start = scene, ground, start
        start(1)
        stage = Stage(ground.url)
        stage.app.migrate()
        self.given = scene.arrange(stage)
        self.seconds = (stage.clock.now() - Stage(stage.url).clock.now()) / 1e6
        stage.app.close()
        self.states: list[Dump] = []
        self.places = self._rehearse()

    def take(self) -> Stage:
        """A fresh copy, and an app on it that has not opened it yet."""
        url = self.ground.copy()
        self.start(2)
        return Stage(url, self.seconds)

    def act(self, stage: Stage) -> object:
        return self.scene.act(stage, self.given)

    def _rehearse(self) -> list[str]:
        """Without a crash: the places, and what the file holds after each commit."""
        stage = self.take()
        places: list[str] = []

        def note(place: str) -> None:
            places.append(place)
            if place == "committed":
                self.states.append(self.ground.dump(stage.url))

        self.states.append(self.ground.dump(stage.url))
        stage.app.store.probe = note
        self.act(stage)
        stage.app.close()
        self.ground.check(stage.url)
        return places

    def expected(self, nth: int) -> Dump:
        return self.states[self.places[:nth].count("committed")]

    def check(self, stage: Stage, nth: int, reopen: bool) -> None:
        """After a crash at the nth place: what was committed, no more and no less; and it can be done again."""
        where = f"{self.scene.name}, crash at {nth}: {self.places[nth - 1]}"
        self.ground.settle()
        assert self.ground.dump(stage.url) == self.expected(nth), where
        self.ground.check(stage.url)
        kept = "committed" in self.places[:nth]
        self.start(3 if kept else 2)
        again = stage.reopen() if reopen else stage
        try:
            self.act(again)
        except self.scene.again:
            assert kept, where
        again.app.close()
        if not kept:
            assert self.ground.dump(stage.url) == self.states[-1], where
        self.ground.check(stage.url)


@pytest.fixture(params=SCENES, ids=lambda scene: scene.name.replace(" ", "-"))
def play(request: pytest.FixtureRequest, ground: Ground, repeatable: Callable[[int], None]) -> Play:
    return Play(request.param, ground, repeatable)


def test_a_crash_in_this_process_leaves_all_or_nothing(play: Play) -> None:
    assert play.places[0] == "begin"
    assert "committed" in play.places
    for nth in range(1, len(play.places) + 1):
        stage = play.take()
        with CrashPoint(stage.app, nth=nth) as point, pytest.raises(Crash):
            play.act(stage)
        assert point.hit
        play.check(stage, nth, reopen=False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_dies_leaves_all_or_nothing(play: Play) -> None:
    for nth in range(1, len(play.places) + 1):
        stage = play.take()
        assert in_child(functools.partial(die_at, stage.app, nth, functools.partial(play.act, stage))) == KILLED
        play.check(stage, nth, reopen=True)


def die_at(app: Holdfast, nth: int, act: Callable[[], object]) -> None:
    with CrashPoint(app, nth=nth, does=lambda place: os._exit(KILLED)):
        act()


def in_child(act: Callable[[], object]) -> int:
    """Run it in a forked process; its exit code. Nothing of ours is open on the file while it runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: the child touches nothing of theirs
        child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:
            traceback.print_exc()
            os._exit(70)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_migration_that_crashes_leaves_no_schema(tmp_path: Path) -> None:
    """In a file; for PostgreSQL there is one in `tests/store/test_postgres`."""
    ground = SqliteGround(tmp_path)
    places = statements_of(Stage(ground.empty()).app, lambda app: app.migrate())
    assert places.count("migrate") > 10
    for nth in range(1, len(places) + 1):
        stage = Stage(ground.empty())
        with CrashPoint(stage.app, nth=nth), pytest.raises(Crash):
            stage.app.migrate()
        assert ground.dump(stage.url) == {"holdfast_worker": []}
        assert stage.app.store.version() == 0
        assert stage.app.migrate()[0] == "0001_jobs"
        stage.work.enqueue(1)
        stage.app.close()
        ground.check(stage.url)


def test_a_worker_killed_at_any_statement_loses_nothing_and_does_nothing_twice(ground: Ground) -> None:
    deaths = 0
    for nth in itertools.count(1):
        stage = Stage(ground.empty())
        batch = stage.app.enqueue_many(stage.work.bind(n) for n in range(3))
        stage.work.using(run_after=1).enqueue(9)
        stage.clock.advance(1)
        stage.app.close()
        worker = stage.app.worker(concurrency=2, lease=LEASE)
        code = in_child(functools.partial(die_at, stage.app, nth, worker.run_until_empty))
        assert code in (0, KILLED)
        ground.check(stage.url)
        after = stage.reopen()
        after.clock.advance(LEASE + 1)
        after.app.worker(concurrency=2).run_until_empty()
        assert after.app.stats() == {"work": {State.SUCCEEDED: 4}}
        assert [after.app.wait(id, timeout=0).result for id in batch.ids] == [0, 1, 2]
        after.app.close()
        ground.check(stage.url)
        if code == 0:
            break
        deaths += 1
    assert deaths >= 15
