"""One SQLite file for many threads and processes.

Every write begins with BEGIN IMMEDIATE and ends with a synced commit. Callers that write at the same time share one
transaction: the first to come leads, those that arrive while it syncs are the next batch, and each is answered only
after the commit that holds its work.
"""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Generic, TypeVar

from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.store.enqueue import Plain
from holdfast.store.migrate import Migration, pending
from holdfast.store.op import Make, Moment, Row, Statement, drive
from holdfast.store.sql import load, values
from holdfast.store.sqlite.clock import Clock, SystemClock
from holdfast.store.sqlite.place import check_place, create_private, explain
from holdfast.store.sqlite.wake import Watcher

T = TypeVar("T")
PACKAGE: Final = "holdfast.store.sqlite"
SQLITE_OLDEST: Final = (3, 35, 0)
BATCH_MAX: Final = 256
READERS_MAX: Final = 8
CHECKPOINT_BYTES: Final = 16 * 1024 * 1024
COMMIT_BYTES: Final = 20 * 1024
CHANGE_BYTES: Final = 100
BUSY_SECONDS: Final = (0.000_2, 0.001)

_REFUSED: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
"""What is wrong with one statement and its values, not with the file."""

Probe = Callable[[str], None]
"""Told of every statement before it runs ("begin", the verb, "commit") and after the commit ("committed")."""


class Connection:
    """A sqlite3 connection that runs our statements."""

    def __init__(self, raw: sqlite3.Connection, probe: Callable[[], Probe | None]) -> None:
        self.raw = raw
        self._sql = load(PACKAGE)
        self._probe = probe
        self.text_written = 0
        self._changes = 0

    def run(self, statement: Statement) -> list[Row]:
        probe = self._probe()
        if probe is not None:
            probe(statement.verb)
        sql = self._sql[statement.verb]
        if statement.rows is not None:
            self.raw.executemany(sql.numbered, statement.rows)
            return []
        given = values(sql, statement.parameters)
        for value in given:
            if type(value) is str:
                self.text_written += len(value)
        return self.raw.execute(sql.numbered, given).fetchall()

    def written(self) -> int:
        """About how many bytes the log has grown by since this was last asked."""
        before, self._changes = self._changes, self.raw.total_changes
        text, self.text_written = self.text_written, 0
        return COMMIT_BYTES + (self._changes - before) * CHANGE_BYTES + text

    def close(self) -> None:
        self.raw.close()


class SqliteStore:
    """The store behind a `sqlite:///` URL. Opened on first use; safe to share between threads and across fork."""

    dialect: Final = "sqlite"

    def __init__(self, path: str, *, clock: Clock | None = None, busy_seconds: float = 30.0) -> None:
        if sqlite3.sqlite_version_info < SQLITE_OLDEST:
            raise StoreUnavailable(
                f"SQLite {sqlite3.sqlite_version} is too old; Holdfast needs 3.35 or newer"
            )
        self.path = path
        self.clock: Clock = clock or SystemClock()
        self.busy_seconds = busy_seconds
        self.probe: Probe | None = None
        self.changed: list[Callable[[], None]] = []
        self._inherited: list[Any] = []
        self._reset()
        _stores.add(self)

    def _reset(self) -> None:
        self._opening = threading.Lock()
        self._mutex = threading.Lock()
        self._pending: list[_Entry[Any]] = []
        self._leading = False
        self._writer: Connection | None = None
        self._checkpointer: sqlite3.Connection | None = None
        self._readers: list[Connection] = []
        self._executor: ThreadPoolExecutor | None = None
        self._logged_bytes = 0
        self._prepared = False

    def forget_after_fork(self) -> None:
        """In a forked child: the parent's connections are kept, unused and unclosed, for closing them would unlock its files."""
        self._inherited.append((self._writer, self._checkpointer, self._readers, self._executor))
        self._reset()

    # Writing

    def write(self, make: Make[T]) -> T:
        """Run an operation in a transaction; returns when it is committed and synced."""
        entry = _ThreadEntry(make)
        try:
            if not self._join(entry):
                entry.wait()
        except BaseException:
            self._abandon(entry)
            raise
        if entry.leads:
            self._lead()
        return entry.answer()

    async def awrite(self, make: Make[T]) -> T:
        entry = _LoopEntry(make, asyncio.get_running_loop(), self._lead_elsewhere)
        if self._join(entry):
            self._lead_elsewhere()
        return await entry.future

    def _join(self, entry: _Entry[Any]) -> bool:
        with self._mutex:
            self._pending.append(entry)
            if self._leading:
                return False
            self._leading = entry.leads = True
            return True

    def _abandon(self, entry: _Entry[Any]) -> None:
        """Its caller was interrupted while it waited; if the lead was handed to it meanwhile, the others still need it."""
        with self._mutex:
            if entry in self._pending and not entry.leads:
                self._pending.remove(entry)
        if entry.leads:
            self._lead()

    def _lead_elsewhere(self) -> None:
        self._threads().submit(self._lead)

    def _lead(self) -> None:
        """Commit what is waiting now, then hand the lead to the first of those that came meanwhile."""
        with self._mutex:
            batch, self._pending = self._pending[:BATCH_MAX], self._pending[BATCH_MAX:]
        try:
            self._commit(batch)
        finally:
            with self._mutex:
                heir = self._pending[0] if self._pending else None
                if heir is None:
                    self._leading = False
                else:
                    heir.leads = True
            for entry in batch:
                entry.wake()
            if heir is not None:
                heir.wake()

    def _commit(self, batch: list[_Entry[Any]]) -> None:
        try:
            connection = self._writing()
            self._begin(connection.raw)
        except (sqlite3.Error, HoldfastError) as error:
            return self._refuse(batch, error)
        except BaseException:
            self._refuse(batch, self._interrupted())
            raise
        try:
            moment = self._moment()
            joint, single = _parted(batch)
            if joint:
                self._run(connection, joint, _joined(joint), moment, alone=not single)
            for entry in single:
                self._run(connection, [entry], entry.make, moment, alone=len(batch) == 1)
            kept = connection.raw.in_transaction
            if kept:
                self._tell("commit")
                connection.raw.execute("COMMIT")
            for entry in batch:
                entry.done = True
            if kept:
                self._tell("committed")
        except sqlite3.Error as error:
            self._drop(connection)
            return self._refuse(batch, error)
        except BaseException:
            self._drop(connection)
            if not batch[0].done:
                self._refuse(batch, self._interrupted())
            raise
        self._after_commit(connection)

    def _interrupted(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self.path}: the write was interrupted, and nothing of it was kept; try again")

    def _run(self, connection: Connection, entries: list[_Entry[Any]], make: Make[Any], moment: Moment, alone: bool) -> None:
        """The work of one caller, or of several that asked for the same; if it fails, only that is undone.

        An error of the database itself undoes the whole batch.
        """
        if not alone:
            connection.raw.execute("SAVEPOINT holdfast")
        try:
            value = drive(make(moment), connection)
            for entry, each in zip(entries, value if len(entries) > 1 else [value], strict=True):
                entry.value = each
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not isinstance(error, _REFUSED):
                raise
            reason = explain(error, self.path) if isinstance(error, sqlite3.Error) else error
            for entry in entries:
                entry.error = reason
            connection.raw.execute("ROLLBACK" if alone else "ROLLBACK TO holdfast")
        if not alone:
            connection.raw.execute("RELEASE holdfast")

    def _refuse(self, batch: list[_Entry[Any]], error: Exception) -> None:
        reason = explain(error, self.path) if isinstance(error, sqlite3.Error) else error
        for entry in batch:
            entry.value, entry.error, entry.done = None, reason, True

    def _begin(self, raw: sqlite3.Connection) -> None:
        """BEGIN IMMEDIATE, with a short random wait while another process writes."""
        self._tell("begin")
        if raw.in_transaction:
            raw.execute("ROLLBACK")  # an interrupt can leave one behind that was begun for nobody
        self._patiently(lambda: raw.execute("BEGIN IMMEDIATE"))

    def _patiently(self, action: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + self.busy_seconds
        while True:
            try:
                return action()
            except sqlite3.OperationalError as error:
                if not _busy(error) or time.monotonic() >= deadline:
                    raise
            time.sleep(random.uniform(*BUSY_SECONDS))

    def _drop(self, connection: Connection) -> None:
        """After a failed commit nothing is known about the file's cached pages: start over with a new connection."""
        self._writer = None
        try:
            if connection.raw.in_transaction:
                connection.raw.execute("ROLLBACK")
            connection.close()
        except sqlite3.Error:
            pass

    def _after_commit(self, connection: Connection) -> None:
        self._logged_bytes += connection.written()
        for told in self.changed:
            told()
        if self._logged_bytes >= CHECKPOINT_BYTES:
            self._logged_bytes = 0
            self.checkpoint()

    def checkpoint(self) -> None:
        """Copy the log into the file while we hold the write lock: nobody can reset the log under a checkpoint.

        SQLite before 3.51.3 can corrupt a file when one connection checkpoints and another resets the log at once.
        """
        try:
            writer = self._writing().raw
            if self._checkpointer is None:
                self._checkpointer = self._connect()
            self._patiently(lambda: writer.execute("BEGIN IMMEDIATE"))
            try:
                self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            finally:
                writer.execute("ROLLBACK")
        except (sqlite3.Error, StoreUnavailable):
            self._logged_bytes = CHECKPOINT_BYTES // 2

    # Reading

    def read(self, make: Make[T]) -> T:
        """Run an operation that only reads."""
        connection = self._reading()
        try:
            value: T = self._patiently(lambda: drive(make(self._moment()), connection))
        except sqlite3.Error as error:
            connection.close()
            raise explain(error, self.path) from error
        except BaseException:
            self._readers.append(connection)
            raise
        if len(self._readers) < READERS_MAX:
            self._readers.append(connection)
        else:
            connection.close()
        return value

    async def aread(self, make: Make[T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads(), lambda: self.read(make))

    def watcher(self) -> Watcher:
        """Waits for commits of other processes and of this one."""
        return _StoreWatcher(self.path, self._reading())

    # Opening

    def version(self) -> int:
        """The schema version of the file; 0 before the first migration."""
        check_place(self.path)
        if not os.path.exists(self.path):
            return 0  # to connect would create it, readable by everybody
        connection = self._checked(self._connect)
        try:
            return int(self._patiently(lambda: _version(connection)))
        except sqlite3.Error as error:
            raise explain(error, self.path) from error
        finally:
            connection.close()

    def migrate(self) -> list[Migration]:
        """Bring the file to this version's layout; what was applied."""
        with self._opening:
            return self._prepare()

    def close(self) -> None:
        with self._mutex:
            connections = [self._writer, *self._readers]
            checkpointer, executor = self._checkpointer, self._executor
            self._writer, self._readers, self._checkpointer, self._executor = None, [], None, None
            self._prepared = False
        for connection in connections:
            if connection is not None:
                connection.close()
        if checkpointer is not None:
            checkpointer.close()
        if executor is not None:
            executor.shutdown(wait=False)

    def _writing(self) -> Connection:
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    def _reading(self) -> Connection:
        try:
            return self._readers.pop()
        except IndexError:
            return self._checked(self._open)

    def _checked(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except sqlite3.Error as error:
            raise explain(error, self.path) from error

    def _open(self) -> Connection:
        with self._opening:
            if not self._prepared:
                self._prepare()
                self._prepared = True
        return Connection(self._connect(), lambda: self.probe)

    def _prepare(self) -> list[Migration]:
        check_place(self.path)
        create_private(self.path)
        try:
            connection = self._connect()
            try:
                self._patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
                return self._migrate(connection)
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise explain(error, self.path) from error

    def _migrate(self, connection: sqlite3.Connection) -> list[Migration]:
        # The first to open a log, or to recover one, locks out even readers.
        if not pending(PACKAGE, self._patiently(lambda: _version(connection)), self.path):
            return []
        self._begin(connection)
        try:
            # Another process may have done it while we waited for the lock.
            due = pending(PACKAGE, _version(connection), self.path)
            connection.execute(_MIGRATIONS)
            for migration in due:
                for statement in statements(migration.sql):
                    self._tell("migrate")
                    connection.execute(statement)
                connection.execute(
                    "INSERT INTO holdfast_migration VALUES (?, ?)", (migration.version, self.clock.now())
                )
            connection.execute("COMMIT")
            return due
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _connect(self) -> sqlite3.Connection:
        raw = sqlite3.connect(
            self.path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        for pragma in (
            "synchronous = FULL",
            "wal_autocheckpoint = 0",
            "mmap_size = 0",
            "temp_store = MEMORY",
        ):
            self._patiently(partial(raw.execute, f"PRAGMA {pragma}"))
        return raw

    def _threads(self) -> ThreadPoolExecutor:
        with self._mutex:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(max_workers=4, thread_name_prefix="holdfast-store")
            return self._executor

    def _moment(self) -> Moment:
        clock = self.clock
        return Moment(clock.now(), clock.tick(), clock.boot())

    def _tell(self, what: str) -> None:
        if self.probe is not None:
            self.probe(what)


_MIGRATIONS: Final = (
    "CREATE TABLE IF NOT EXISTS holdfast_migration (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL)"
)


class _StoreWatcher(Watcher):
    """A watcher with a connection of its own to look at the data version with."""

    def __init__(self, path: str, reader: Connection) -> None:
        self._reader = reader
        super().__init__(path, lambda: int(reader.raw.execute("PRAGMA data_version").fetchone()[0]))

    def close(self) -> None:
        super().close()
        self._reader.close()


class _Entry(ABC, Generic[T]):
    """One caller's operation, waiting for the commit that will hold it."""

    def __init__(self, make: Make[T]) -> None:
        self.make = make
        self.value: T | None = None
        self.error: BaseException | None = None
        self.done = False
        self.leads = False

    @abstractmethod
    def wake(self) -> None:
        """Tell the caller that it is done, or that it leads now."""


class _ThreadEntry(_Entry[T]):
    def __init__(self, make: Make[T]) -> None:
        super().__init__(make)
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait(self) -> None:
        self._gate.acquire()

    def wake(self) -> None:
        self._gate.release()

    def answer(self) -> T:
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


class _LoopEntry(_Entry[T]):
    def __init__(self, make: Make[T], loop: asyncio.AbstractEventLoop, lead: Callable[[], None]) -> None:
        super().__init__(make)
        self.future: asyncio.Future[T] = loop.create_future()
        self._loop = loop
        self._lead = lead

    def wake(self) -> None:
        if not self.done:
            return self._lead()
        try:
            self._loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            return None  # that loop was closed while it waited; the others of the batch must be told all the same

    def _settle(self) -> None:
        if self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)  # type: ignore[arg-type]


def _parted(batch: list[_Entry[Any]]) -> tuple[list[_Entry[Any]], list[_Entry[Any]]]:
    """Those that can be run as one, and the others."""
    joint = [entry for entry in batch if isinstance(entry.make, Plain)] if len(batch) > 1 else []
    if len(joint) < 2:
        return [], batch
    return joint, [entry for entry in batch if not isinstance(entry.make, Plain)]


def _joined(entries: list[_Entry[Any]]) -> Make[Any]:
    first, *others = [entry.make for entry in entries if isinstance(entry.make, Plain)]
    return first.together(others)


def statements(script: str) -> Iterable[str]:
    """A script's statements one by one: `executescript` would commit first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _version(connection: sqlite3.Connection) -> int:
    table = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'holdfast_migration'").fetchone()
    if table is None:
        return 0
    return int(connection.execute("SELECT coalesce(max(version), 0) FROM holdfast_migration").fetchone()[0])


def _busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorname.startswith("SQLITE_BUSY")


_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_stores):
        store.forget_after_fork()


os.register_at_fork(after_in_child=_after_fork)
