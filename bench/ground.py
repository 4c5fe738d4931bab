"""The ground that a measurement stands on: a fresh directory, and on PostgreSQL a fresh database named in it."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

Figures = dict[str, float]

RESULTS = Path(__file__).parent / "results"
DATABASE = "database"  # the file that holds the URL of a directory's database


class Ground(Protocol):
    def about(self) -> str:
        """The database and its settings, in a line."""

    def fresh(self) -> AbstractContextManager[Path]:
        """Somewhere that nobody has written to."""

    def settle(self, directory: Path) -> None:
        """Leave no work of the seeding to the measurement."""

    def used(self, directory: Path) -> Figures:
        """What a server has spent so far; empty where there is none."""

    def watched(self, directory: Path) -> AbstractContextManager[None]:
        """From here on statements are counted."""

    def statements(self, directory: Path) -> float | None:
        """How many there were so far, where that can be known."""

    def held(self, directory: Path) -> AbstractContextManager[None]:
        """A transaction that keeps every row version that it could see."""


class Files:
    """SQLite has no server: there is nothing to settle and nothing to ask."""

    def about(self) -> str:
        return f"SQLite {sqlite3.sqlite_version}"

    def fresh(self) -> AbstractContextManager[Path]:
        return fresh_directory()

    def settle(self, directory: Path) -> None:
        """The end of the process that seeded has checkpointed the file."""

    def used(self, directory: Path) -> Figures:
        return {}

    @contextmanager
    def watched(self, directory: Path) -> Iterator[None]:
        yield

    def statements(self, directory: Path) -> float | None:
        return None

    def held(self, directory: Path) -> AbstractContextManager[None]:
        raise NotImplementedError("only measured on PostgreSQL")


@contextmanager
def fresh_directory() -> Iterator[Path]:
    """On the repository's own file system, since a temporary one may be memory."""
    RESULTS.mkdir(exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix="tmp-", dir=RESULTS))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def database_url(directory: Path) -> str:
    return (directory / DATABASE).read_text()


def per_job(before: Figures, after: Figures, jobs: int) -> Figures:
    return {f"{name}_per_job": (after[name] - before[name]) / jobs for name in before}
