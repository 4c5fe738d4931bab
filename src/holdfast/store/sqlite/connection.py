"""A connection to the file, set up as every one of ours must be, that runs our statements."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar
from urllib.parse import quote

from holdfast.store.op import Probed, Row, Statement, drive
from holdfast.store.sql import load
from holdfast.store.sqlite.file import FileId, Stamp
from holdfast.store.sqlite.schema import PACKAGE
from holdfast.store.sqlite.steps import STEPS
from holdfast.store.sqlite.wake import Watcher

T = TypeVar("T")
_chance: Final = random.SystemRandom()  # the program may have seeded the common one for itself
BUSY_SECONDS: Final = (0.000_2, 0.001)
COMMIT_BYTES: Final = 16 * 1024
CHANGE_BYTES: Final = 12
TEXT_SHARE: Final = 8
_PRAGMAS: Final = ("synchronous = FULL", "wal_autocheckpoint = 0", "mmap_size = 0", "temp_store = MEMORY")


class Connection:
    """A sqlite3 connection that runs our statements."""

    def __init__(self, raw: sqlite3.Connection, probed: Probed, file: FileId | None = None) -> None:
        """file  Which file it was opened on, for there may be another one at its path by now."""
        self.raw, self.file = raw, file
        self.log: FileId | None = None
        """The log of its first commit."""
        self.stamp: Stamp | None = None
        """That of the directory when both were last seen to be in place, if it was settled."""
        self._sql = load(PACKAGE)
        self._probed = probed
        self.text_written = 0
        self._changes = 0

    def run(self, statement: Statement) -> list[Row]:
        probe = self._probed.probe
        if probe is not None:
            probe(statement.verb)
        steps = STEPS.get(statement.verb)
        return self.execute(statement) if steps is None else drive(steps(statement.parameters), self)

    def run_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return [self.run(statement) for statement in statements]

    def execute(self, statement: Statement) -> list[Row]:
        """One statement, without a call of the probe."""
        verb, parameters = statement
        sql = self._sql[verb]
        given = sql.values(parameters)
        for index in sql.long:
            self.text_written += len(given[index])
        found = self.raw.execute(sql.positional, given)
        return found.fetchall() if sql.answers else []

    def answers(self, statement: Statement) -> bool:
        """Whether rows come back."""
        return self._sql[statement.verb].answers

    def written(self) -> int:
        """About how many bytes the log has grown by since this was last asked."""
        before, self._changes = self._changes, self.raw.total_changes
        text, self.text_written = self.text_written, 0
        return COMMIT_BYTES + (self._changes - before) * CHANGE_BYTES + text // TEXT_SHARE

    def close(self) -> None:
        self.raw.close()


class StoreWatcher(Watcher):
    """A watcher with a connection of its own to look at the data version with; after a fork, or on another file, a new one."""

    def __init__(self, path: str, open: Callable[[], Connection], usable: Callable[[Connection], bool]) -> None:
        self._open, self._usable = open, usable
        self._using = threading.Lock()
        self._reader: Connection | None = None
        self._opened = 0
        super().__init__(path, self._data_version)

    def _data_version(self) -> tuple[int, int]:
        """With the number of the connection, for versions of two connections cannot be compared."""
        with self._using:
            if self._reader is None or not self._usable(self._reader):
                self._close_reader()
                self._reader = self._open()
                self._opened += 1
            return self._opened, int(self._reader.raw.execute("PRAGMA data_version").fetchone()[0])

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Meanwhile it has no connection."""
        with self._using:
            self._close_reader()
            yield

    def close(self) -> None:
        super().close()
        self._close_reader()

    def _close_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


def connect(path: str, busy_seconds: float) -> sqlite3.Connection:
    """To a file that exists: SQLite would create one that every user may read."""
    uri = f"file:{quote(os.fsencode(path))}?mode=rw"
    raw = sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256)
    for pragma in _PRAGMAS:
        patiently(partial(raw.execute, f"PRAGMA {pragma}"), busy_seconds)
    return raw


def patiently(action: Callable[[], T], busy_seconds: float) -> T:
    """Try again while others have the file locked, with a short random wait, for so many seconds."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
        time.sleep(_chance.uniform(*BUSY_SECONDS))


def is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorname.startswith("SQLITE_BUSY")
