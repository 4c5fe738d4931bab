"""A crash at every statement of every operation: all of a transaction or nothing of it, and the operation can be done again."""

from __future__ import annotations

import functools
import itertools
import os
import shutil
import sqlite3
import traceback
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, State
from holdfast.store import tend
from holdfast.testing import Crash, CrashPoint, statements_of
from tests.simulation.invariants import check_file
from tests.simulation.scenes import LEASE, SCENES, Scene, Stage

KILLED = 9
Dump = dict[str, list[tuple[Any, ...]]]


def dump(path: str) -> Dump:
    """Everything in the file, as another process would read it."""
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast%' ORDER BY 1")
        tables = {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for (name,) in found.fetchall()}
    tables["holdfast_worker"] = [(*row[:3], *row[4:]) for row in tables.get("holdfast_worker", [])]  # a child has another pid
    return tables


@pytest.fixture(autouse=True)
def repeatable(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """The same ids in every run, and small batches, so that operations of several transactions show themselves."""
    numbers = itertools.count(1)

    def start(base: int) -> None:
        nonlocal numbers
        numbers = itertools.count(base * 1_000)

    monkeypatch.setattr("holdfast.store.enqueue.first_id", lambda now: next(numbers) << 64)
    monkeypatch.setattr("holdfast.client.enqueueing.ENQUEUE_BATCH_MAX", 3)
    monkeypatch.setattr(tend, "prune", functools.partial(tend.prune, limit=2))
    return start


class Play:
    """One scene, arranged once; each take of it starts from a copy of that file."""

    def __init__(self, scene: Scene, folder: Path, start: Callable[[int], None]) -> None:
        self.scene, self.folder, self.start = scene, folder, start
        self.copies = itertools.count()
        start(1)
        stage = Stage(str(folder / "arranged.db"))
        stage.app.migrate()
        self.given = scene.arrange(stage)
        self.seconds = (stage.clock.now() - Stage(stage.path).clock.now()) / 1e6
        stage.app.close()
        self.states: list[Dump] = []
        self.places = self._rehearse()

    def take(self) -> Stage:
        """A fresh copy, and an app on it that has not opened it yet."""
        path = str(self.folder / f"take-{next(self.copies)}.db")
        shutil.copy(self.folder / "arranged.db", path)
        self.start(2)
        return Stage(path, self.seconds)

    def act(self, stage: Stage) -> object:
        return self.scene.act(stage, self.given)

    def _rehearse(self) -> list[str]:
        """Without a crash: the places, and what the file holds after each commit."""
        stage = self.take()
        places: list[str] = []

        def note(place: str) -> None:
            places.append(place)
            if place == "committed":
                self.states.append(dump(stage.path))

        self.states.append(dump(stage.path))
        stage.app.store.probe = note
        self.act(stage)
        stage.app.close()
        check_file(stage.path)
        return places

    def expected(self, nth: int) -> Dump:
        return self.states[self.places[:nth].count("committed")]

    def check(self, stage: Stage, nth: int, reopen: bool) -> None:
        """After a crash at the nth place: what was committed, no more and no less; and it can be done again."""
        where = f"{self.scene.name}, crash at {nth}: {self.places[nth - 1]}"
        assert dump(stage.path) == self.expected(nth), where
        check_file(stage.path)
        kept = "committed" in self.places[:nth]
        self.start(3 if kept else 2)
        again = stage.reopen() if reopen else stage
        try:
            self.act(again)
        except self.scene.again:
            assert kept, where
        again.app.close()
        if not kept:
            assert dump(stage.path) == self.states[-1], where
        check_file(stage.path)


@pytest.fixture(params=SCENES, ids=lambda scene: scene.name.replace(" ", "-"))
def play(request: pytest.FixtureRequest, tmp_path: Path, repeatable: Callable[[int], None]) -> Play:
    return Play(request.param, tmp_path, repeatable)


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
    places = statements_of(Stage(str(tmp_path / "clean.db")).app, lambda app: app.migrate())
    assert places.count("migrate") > 10
    for nth in range(1, len(places) + 1):
        stage = Stage(str(tmp_path / f"take-{nth}.db"))
        with CrashPoint(stage.app, nth=nth), pytest.raises(Crash):
            stage.app.migrate()
        assert dump(stage.path) == {"holdfast_worker": []}
        assert stage.app.store.version() == 0
        assert stage.app.migrate() == ["0001_jobs"]
        stage.work.enqueue(1)
        stage.app.close()
        check_file(stage.path)


def test_a_worker_killed_at_any_statement_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    deaths = 0
    for nth in itertools.count(1):
        stage = Stage(str(tmp_path / f"take-{nth}.db"))
        batch = stage.app.enqueue_many(stage.work.bind(n) for n in range(3))
        stage.work.using(run_after=1).enqueue(9)
        stage.clock.advance(1)
        stage.app.close()
        worker = stage.app.worker(concurrency=2, lease=LEASE)
        code = in_child(functools.partial(die_at, stage.app, nth, worker.run_until_empty))
        assert code in (0, KILLED)
        check_file(stage.path)
        after = stage.reopen()
        after.clock.advance(LEASE + 1)
        after.app.worker(concurrency=2).run_until_empty()
        assert after.app.stats() == {"work": {State.SUCCEEDED: 4}}
        assert [after.app.wait(id, timeout=0).result for id in batch.ids] == [0, 1, 2]
        after.app.close()
        check_file(stage.path)
        if code == 0:
            break
        deaths += 1
    assert deaths >= 15
