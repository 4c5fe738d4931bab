"""ARCHITECTURE's journey of a job names every file that it opens, on each database: this walks it, and compares."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import holdfast
from holdfast import Holdfast, Task
from tests.servers import migrated_database

PACKAGE = Path(holdfast.__file__).parent
ARCHITECTURE = (Path(__file__).parent.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
NOT_VERBS = {"begin", "commit", "committed"}


class Walk:
    """The package's files in which functions are called, and the verbs that are run, while it records."""

    def __init__(self, app: Holdfast) -> None:
        self.files: set[str] = set()
        self.verbs: set[str] = set()
        self._dialect = app.store.dialect.removesuffix("ql")
        app.store.probe = self._note_verb

    def _note_verb(self, verb: str) -> None:
        folders = [PACKAGE / "store" / self._dialect / name for name in ("sql", "steps")]
        if any((folder / f"{verb}.sql").exists() for folder in folders):
            self.verbs.add(f"{verb}.sql")
        else:  # SQLite runs it as several statements
            assert verb in NOT_VERBS or self._dialect == "sqlite", verb

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE) and not frame.f_code.co_name.startswith("<"):
            self.files.add(path.relative_to(PACKAGE).with_suffix("").as_posix())

    def all(self) -> set[str]:
        return self.files | self.verbs


class TurnWalks:
    """A walk for every turn of a worker's clerk."""

    def __init__(self, app: Holdfast) -> None:
        self.turns: list[set[str]] = []
        self._walk = Walk(app)
        self._inside = False

    def note(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code.co_name == "_turn" and code.co_filename.endswith("clerk.py"):
            if event == "call":
                self._walk.files, self._walk.verbs, self._inside = set(), set(), True
            else:
                self.turns.append(self._walk.all())
                self._inside = False
        if self._inside:
            self._walk.note(frame, event, argument)

    def turn_with(self, verb: str) -> set[str]:
        (only,) = [turn for turn in self.turns if verb in turn]
        return only


@contextmanager
def profiled(install: Callable[[Any], None], note: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    install(note)
    try:
        yield
    finally:
        install(None)


def documented(step: str, dialect: str) -> set[str]:
    """What the section of a step names: in its text, and in the item of that database."""
    section = re.search(rf"^### {step}\n(.*?)^###? ", ARCHITECTURE, flags=re.DOTALL | re.MULTILINE)
    assert section is not None
    text, *items = re.split(r"^- \*\*", section.group(1), flags=re.MULTILINE)
    text += "".join(item for item in items if item.startswith(f"{NAMES[dialect]}**"))
    quoted = re.findall(r"`([\w/.]+)`", text)
    return {name for name in quoted if name.endswith(".sql") or (PACKAGE / f"{name}.py").exists()}


@pytest.fixture(params=["sqlite", "postgresql"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    with migrated_database() if request.param == "postgresql" else nullcontext(f"sqlite:///{tmp_path}/jobs.db") as url:
        app = Holdfast(url)
        yield app
        app.close()


@pytest.fixture
def double(app: Holdfast) -> Task[Callable[[int], int]]:
    """A task whose lane exists, on connections that are open."""

    @app.task(name="double")
    def double(number: int) -> int:
        return number * 2

    double.enqueue(1)
    app.worker(concurrency=1).run_until_empty()
    return double


def test_the_documented_journey_of_an_enqueue_is_the_true_one(app: Holdfast, double: Task[Callable[[int], int]]) -> None:
    walk = Walk(app)
    with profiled(sys.setprofile, walk.note):
        double.enqueue(2)
    assert walk.all() == documented("Enqueue", app.store.dialect)


def test_the_documented_journey_of_a_claim_and_a_settle_is_the_true_one(
    app: Holdfast, double: Task[Callable[[int], int]]
) -> None:
    double.enqueue(2)
    walks = TurnWalks(app)
    with profiled(threading.setprofile, walks.note):
        app.worker(concurrency=1).run_until_empty()
    dialect = app.store.dialect
    claimed, settled = ("add_claims.sql", "succeed_jobs.sql") if dialect == "sqlite" else ("claim_jobs.sql", "finish_jobs.sql")
    assert walks.turn_with(claimed) == documented("Claim", dialect)
    assert walks.turn_with(settled) == documented("Settle", dialect)
