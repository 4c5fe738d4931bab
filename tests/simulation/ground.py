"""Where a crash test plays: a database that is arranged once, and put back to that before every take."""

from __future__ import annotations

import itertools
import shutil
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.servers import migrated_database
from tests.simulation.invariants import PostgresRows, check, check_file

Dump = dict[str, list[tuple[Any, ...]]]
OTHERS = ("pid", "tx")
"""Columns whose numbers depend on who wrote them, and not on what was written."""


class Ground(ABC):
    url: str
    """Of the database as it is arranged."""

    @abstractmethod
    def copy(self) -> str:
        """The URL of a database with what is arranged now."""

    @abstractmethod
    def empty(self) -> str:
        """The URL of another one with nothing in it."""

    @abstractmethod
    def dump(self, url: str) -> Dump:
        """Everything in it, as another process would read it; but for the process ids in it."""

    @abstractmethod
    def check(self, url: str) -> None: ...

    @abstractmethod
    def settle(self) -> None:
        """Returns when nothing is left of transactions whose client is gone."""


class SqliteGround(Ground):
    def __init__(self, folder: Path) -> None:
        self._folder, self._copies = folder, itertools.count()
        self.url = f"sqlite:///{folder / 'arranged.db'}"

    def copy(self) -> str:
        url = self.empty()
        shutil.copy(_path(self.url), _path(url))
        return url

    def empty(self) -> str:
        return f"sqlite:///{self._folder / f'take-{next(self._copies)}.db'}"

    def dump(self, url: str) -> Dump:
        with closing(sqlite3.connect(_path(url))) as connection:
            found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'holdfast%' ORDER BY 1")
            tables = {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for (name,) in found.fetchall()}
        tables.pop("holdfast_identity", None)  # every file has a mark of its own
        tables["holdfast_worker"] = [(*row[:3], *row[4:]) for row in tables.get("holdfast_worker", [])]
        return tables

    def settle(self) -> None:
        """They went with it."""

    def check(self, url: str) -> None:
        check_file(_path(url))


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")


BUSY = """
SELECT pid FROM pg_stat_activity
 WHERE datname = current_database() AND backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()
"""


class PostgresGround(Ground):
    """One database: what is arranged is kept in a second schema. Numbers that were given out in vain do not count."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._connection = psycopg.connect(url, autocommit=True)
        query = "SELECT relname FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r' ORDER BY 1"
        names = [name for (name,) in self._connection.execute(query).fetchall()]
        self._tables = [name for name in names if name not in ("server_epoch", "migration", "identity")]
        self._kept = False

    def copy(self) -> str:
        tables = self._tables
        if not self._kept:
            kept = [f"CREATE TABLE arranged.{table} AS TABLE holdfast.{table}" for table in tables]
            self._run(["CREATE SCHEMA arranged", *kept])
            self._kept = True
        else:
            self.empty()
            self._run([f"INSERT INTO holdfast.{table} SELECT * FROM arranged.{table}" for table in tables])
        return self.url

    def empty(self) -> str:
        self._run([f"DELETE FROM holdfast.{table}" for table in self._tables])
        return self.url

    def dump(self, url: str) -> Dump:
        lanes = {lane: (queue, task) for lane, queue, task in self._rows("SELECT lane, queue, task FROM holdfast.lane")}
        jobs = {seq: place for place, (seq,) in enumerate(self._rows("SELECT seq FROM holdfast.job_spec ORDER BY 1"), 1)}
        workers = {id: place for place, (id,) in enumerate(self._rows("SELECT id FROM holdfast.worker ORDER BY 1"), 1)}
        numbers: dict[str, dict[Any, Any]] = {"lane": lanes, "seq": jobs, "job": jobs, "worker": workers}
        return {table: self._table(table, {**numbers, "id": workers} if table == "worker" else numbers) for table in self._tables}

    def settle(self) -> None:
        """The server may still be at the last statements that it was sent: it holds their rows until it finds out."""
        deadline = time.monotonic() + 20
        while self._rows(BUSY):
            assert time.monotonic() < deadline, "a transaction goes on although its client is gone"

    def check(self, url: str) -> None:
        rows = PostgresRows(url)
        check(rows)
        rows.close()

    def close(self) -> None:
        if self._kept:
            self._run(["DROP SCHEMA arranged CASCADE"])
        self._connection.close()

    def _table(self, table: str, numbers: dict[str, dict[Any, Any]]) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(f"SELECT * FROM holdfast.{table}".encode())
        names = [column.name for column in cursor.description or ()]
        same: dict[Any, Any] = {}
        rows = [
            tuple(numbers.get(name, same).get(value, value) for name, value in zip(names, row, strict=True) if name not in OTHERS)
            for row in cursor.fetchall()
        ]
        return sorted(rows, key=repr)

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query.encode()).fetchall()

    def _run(self, statements: list[str]) -> None:
        self._connection.execute("; ".join(["BEGIN", *statements, "COMMIT"]).encode())


@contextmanager
def sqlite_ground(folder: Path) -> Iterator[Ground]:
    yield SqliteGround(folder)


@contextmanager
def postgres_ground(folder: Path) -> Iterator[Ground]:
    with migrated_database() as url, closing(PostgresGround(url)) as ground:
        yield ground


GROUNDS: dict[str, Callable[[Path], Any]] = {"postgresql": postgres_ground, "sqlite": sqlite_ground}
