"""One SQLite file for many threads and processes.

Every write begins with BEGIN IMMEDIATE and ends with a synced commit, which callers that come at the same time share
(`store/commits`). One connection writes, a few read, and one copies the log into the file.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Final, TypeVar

from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.store.caller import AsyncCallerTransaction, CallerTransaction
from holdfast.store.clock import Clock, SystemClock
from holdfast.store.commits import Commits, Entry, Share, accept, refuse, shares
from holdfast.store.fork import WAIT_SECONDS, ForkAware
from holdfast.store.migrate import Migration, pending
from holdfast.store.op import Alone, Moment, Operation, Probe, drive, shortcut
from holdfast.store.pool import Pool, Threads
from holdfast.store.sqlite.caller import caller_transaction
from holdfast.store.sqlite.connection import Connection, StoreWatcher, connect, is_busy, patiently
from holdfast.store.sqlite.errors import explain
from holdfast.store.sqlite.file import FileId, check_file, create_private, file_id, is_open_here, is_settled, stamp_of
from holdfast.store.sqlite.schema import PACKAGE, apply_pending, version_of

log = logging.getLogger("holdfast.store")

T = TypeVar("T")
SQLITE_OLDEST: Final = (3, 35, 0)
READERS_MAX: Final = 8
READING_THREADS: Final = 4
OPEN_TRIES_MAX: Final = 10
CHECKPOINT_BYTES: Final = 4 * 1024 * 1024

_REFUSED: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
"""What is wrong with one statement and its values, not with the file."""


class SqliteStore(ForkAware):
    """The store behind a `sqlite:///` URL. Opened on first use; safe to share between threads.

    Before a fork all of its connections are closed, and both processes open their own on the next use: with a connection that it
    inherited, SQLite would take no locks in the child, and another process would delete the log under it. Where a connection
    cannot be closed, the child refuses to use the file.
    """

    dialect: Final = "sqlite"
    is_remote: Final = False

    def __init__(self, path: str, *, clock: Clock | None = None, busy_seconds: float = 30.0) -> None:
        if sqlite3.sqlite_version_info < SQLITE_OLDEST:
            raise StoreUnavailable(f"SQLite {sqlite3.sqlite_version} is too old; Holdfast needs 3.35 or newer")
        self.path = os.path.abspath(path) if path else path  # the program may change its directory
        self.busy_seconds = busy_seconds
        self.clock: Clock = clock or SystemClock()
        self.probe: Probe | None = None
        self._threads = Threads(READING_THREADS)
        self.commits = Commits(self._commit_alone, self._commit, self._after_commit, self._threads.submit)
        self._readers = Pool(self._open, READERS_MAX, (sqlite3.Error,), self._is_current)
        self._inherited: list[Any] = []
        self._is_refused = False
        self.generation = 0
        self._reset()
        super().__init__()

    def _reset(self) -> None:
        self._opening = threading.Lock()
        self._watching = threading.Lock()
        self._writer: Connection | None = None
        self._checkpointer: Connection | None = None
        self._watchers: weakref.WeakSet[StoreWatcher] = weakref.WeakSet()
        self._logged_bytes = 0
        self._file: FileId | None = None
        """The file whose layout was brought up to date."""
        self._log = self._directory = ""
        self._forking = ExitStack()

    # Forking

    def before_fork(self) -> None:
        if not self._forking.enter_context(self.commits.paused(WAIT_SECONDS)):
            return
        self._forking.enter_context(self._readers.emptied(WAIT_SECONDS))
        self._forking.enter_context(self._watching)
        for watcher in list(self._watchers):
            self._forking.enter_context(watcher.closed())
        self._forking.enter_context(self._opening)
        self._close_writers()

    def after_fork(self) -> None:
        self._forking.close()

    def after_fork_in_child(self) -> None:
        kept = (
            self._forking,
            self._writer,
            self._checkpointer,
            self._readers.forget(),
            self._threads.forget(),
            [*self._watchers],
        )
        self._inherited.append(kept)
        self.commits.forget()
        self._reset()
        self._is_refused = self._is_refused or is_open_here(self.path)

    # Writing

    def write(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction; returns when it is committed and synced."""
        return self.commits.write(operation)

    async def awrite(self, operation: Operation[T]) -> T:
        return await self.commits.awrite(operation)

    def _commit_alone(self, operation: Operation[T]) -> T:
        try:
            connection = self._writer or self._writing()
            short = shortcut(operation)
            alone = None if short is None else short.alone(self._moment())
            if alone is not None and self._commit_statement(connection, alone):
                self._check_file(connection)
                return alone.value
            self._begin(connection.raw)
        except sqlite3.Error as error:
            raise self._reason(error) from error
        raw = connection.raw
        try:
            value = drive(operation(self._moment()), connection)
            if raw.in_transaction:
                self._tell("commit")
                raw.execute("COMMIT")
                self._tell("committed")
        except sqlite3.Error as error:
            self._undo(connection, keep=isinstance(error, _REFUSED))
            raise self._reason(error) from error
        except BaseException as error:
            self._undo(connection, keep=isinstance(error, Exception))
            raise
        self._check_file(connection)
        return value

    def _commit_statement(self, connection: Connection, alone: Alone[T]) -> bool:
        """A statement by itself is a transaction: SQLite begins it, locks, and syncs as it ends. False: nothing was written."""
        statement = alone.statement
        if self.probe is not None:
            for step in ("begin", statement.verb, "commit"):
                self._tell(step)
        if connection.raw.in_transaction:
            connection.raw.execute("ROLLBACK")  # an interrupt can leave one behind that was begun for nobody
        try:
            try:
                rows = connection.execute(statement)
            except sqlite3.OperationalError as error:
                if not is_busy(error):
                    raise  # a failed sync must not be tried again: the system may have dropped the pages
                rows = self._patiently(lambda: connection.execute(statement))
        except sqlite3.IntegrityError:
            return False  # for example, its lane does not exist yet: the whole operation finds out
        except BaseException as error:
            self._undo(connection, keep=isinstance(error, _REFUSED))
            raise
        written = bool(rows) or not connection.answers(statement)
        if written and self.probe is not None:
            self._tell("committed")
        return written

    def _undo(self, connection: Connection, keep: bool) -> None:
        """Nothing of what was begun stays; where the file itself may be in trouble, the connection goes too."""
        if not keep:
            self._drop(connection)
        elif connection.raw.in_transaction:
            connection.raw.execute("ROLLBACK")

    def _commit(self, batch: list[Entry[Any]]) -> None:
        try:
            connection = self._writing()
            self._begin(connection.raw)
        except (sqlite3.Error, HoldfastError) as error:
            refuse(batch, self._reason(error))
            return
        except BaseException:
            refuse(batch, self._interrupted())
            raise
        committing = False
        try:
            moment = self._moment()
            for share in shares(batch):
                self._run(connection, share, moment, alone=len(share.entries) == len(batch))
            committing = connection.raw.in_transaction
            if committing:
                self._tell("commit")
                connection.raw.execute("COMMIT")
                self._check_file(connection)
            accept(batch)
            if committing:
                self._tell("committed")
        except (sqlite3.Error, StoreUnavailable) as error:
            refuse(batch, self._reason(error))
            self._drop(connection)
        except BaseException:
            # An interrupt that comes while COMMIT syncs is raised after it. The connection knows what became of it.
            if committing and not connection.raw.in_transaction:
                accept(batch)
            else:
                refuse(batch, self._interrupted())
            self._drop(connection)
            raise

    def _interrupted(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self.path}: the write was interrupted, and nothing of it was kept; try again")

    def _run(self, connection: Connection, share: Share, moment: Moment, alone: bool) -> None:
        """If it fails, only that is undone; an error of the database itself undoes the whole batch."""
        if not alone:
            connection.raw.execute("SAVEPOINT holdfast")
        try:
            share.answer(drive(share.operation(moment), connection))
        except Exception as error:
            if isinstance(error, sqlite3.Error) and not isinstance(error, _REFUSED):
                raise
            share.fail(self._reason(error))
            connection.raw.execute("ROLLBACK" if alone else "ROLLBACK TO holdfast")
        if not alone:
            connection.raw.execute("RELEASE holdfast")

    def _reason(self, error: Exception) -> Exception:
        return explain(error, self.path) if isinstance(error, sqlite3.Error) else error

    def _begin(self, raw: sqlite3.Connection) -> None:
        """BEGIN IMMEDIATE, with a short random wait while another process writes."""
        self._tell("begin")
        if raw.in_transaction:
            raw.execute("ROLLBACK")  # an interrupt can leave one behind that was begun for nobody
        try:
            raw.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            self._patiently(lambda: raw.execute("BEGIN IMMEDIATE"))

    def _patiently(self, action: Callable[[], T]) -> T:
        return patiently(action, self.busy_seconds)

    def _drop(self, connection: Connection) -> None:
        """After a failed commit nothing is known about the file's cached pages: start over with a new connection."""
        self._writer = None
        try:
            if connection.raw.in_transaction:
                connection.raw.execute("ROLLBACK")
            connection.close()
        except sqlite3.Error:
            pass

    def _check_file(self, connection: Connection) -> None:
        """After a commit, before it is acknowledged: SQLite goes on writing to a file or a log that was deleted or replaced."""
        stamp = stamp_of(self._directory)
        if stamp is not None and stamp == connection.stamp:
            return
        log = file_id(self._log)
        connection.log = connection.log or log
        if connection.log != log or not self._is_current(connection):
            self._drop(connection)
            raise StoreUnavailable(f"{self.path} or its log was deleted or replaced, and this write with it; try again")
        connection.stamp = stamp if stamp is not None and is_settled(stamp) else None

    def _is_current(self, connection: Connection) -> bool:
        return connection.file == file_id(self.path)

    def _after_commit(self) -> None:
        if self._writer is not None:
            self._logged_bytes += self._writer.written()
        if self._logged_bytes >= CHECKPOINT_BYTES:
            self._logged_bytes = 0
            self._checkpoint()

    def checkpoint(self) -> None:
        with self.commits.paused() as paused:
            if paused:
                self._checkpoint()

    def _checkpoint(self) -> None:
        """Copy the log into the file while we hold the write lock: nobody can reset the log under a checkpoint.

        SQLite before 3.51.3 can corrupt a file when one connection checkpoints and another resets the log at once.
        """
        try:
            writer, checkpointer = self._writing(), self._checkpointer
            if checkpointer is None or checkpointer.file != writer.file:
                if checkpointer is not None:
                    checkpointer.close()
                checkpointer = self._checkpointer = self._open()
            self._patiently(lambda: writer.raw.execute("BEGIN IMMEDIATE"))
            try:
                checkpointer.raw.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            finally:
                writer.raw.execute("ROLLBACK")
        except (sqlite3.Error, StoreUnavailable):
            self._logged_bytes = CHECKPOINT_BYTES // 2

    # Reading

    def read(self, operation: Operation[T], *, urgent: bool = False) -> T:
        """Run an operation that only reads. It never waits for others."""
        with self._explained(), self._readers.lent() as connection:
            return self._patiently(lambda: drive(operation(self._moment()), connection))

    async def aread(self, operation: Operation[T]) -> T:
        return await asyncio.wrap_future(self._threads.submit(lambda: self.read(operation)))

    def answer_within(self, seconds: float) -> None:
        """A file has no server that could fall silent."""

    def watcher(self, follows: bool = False) -> StoreWatcher:
        """Waits for commits of other processes and of this one, whatever they bring."""
        with self._explained(), self._watching:
            watcher = StoreWatcher(self.path, self._open, self._is_current)
            self._watchers.add(watcher)
            return watcher

    def caller(self, connection: Any) -> CallerTransaction | AsyncCallerTransaction:
        """Runs operations in the transaction of a caller's connection to the same file. Nothing is opened yet."""
        return caller_transaction(connection, self.path)

    # Opening

    def version(self) -> int:
        """The schema version of the file; 0 before the first migration."""
        check_file(self.path)
        if not os.path.exists(self.path):
            return 0  # to connect would create it, readable by everybody
        with self._opening, self._explained(), closing(self._connect()) as connection:
            return self._patiently(lambda: version_of(connection))

    def migrate(self) -> list[Migration]:
        """Create the file, or bring it to this version's layout; what was applied."""
        with self._opening:
            return self._prepare()

    def close(self) -> None:
        """Waits for the commit that goes on. Reads that go on close their connections when they end."""
        with self.commits.paused() as paused:
            if paused:
                self._close_writers()
            else:  # the commit that we are inside of closes them
                self._writer = self._checkpointer = None
            self._file = None
        self._readers.close()
        self._threads.close()

    def _close_writers(self) -> None:
        connections = (self._writer, self._checkpointer)
        self._writer = self._checkpointer = None
        for connection in connections:
            if connection is not None:
                connection.close()

    def _writing(self) -> Connection:
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explain(error, self.path) from error

    def _open(self) -> Connection:
        with self._opening:
            for _ in range(OPEN_TRIES_MAX):
                file = self._prepared_file()
                connection = Connection(self._connect(), self, file)
                if self._is_current(connection):
                    return connection
                connection.close()
        raise StoreUnavailable(f"{self.path} is being replaced again and again; try again when that is over")

    def _prepared_file(self) -> FileId:
        """The file at the path, which has this version's layout."""
        file = file_id(self.path)
        if file is not None and file == self._file:
            return file
        if self._file is not None:
            if file is None:
                raise StoreUnavailable(
                    f"{self.path} was deleted while it was in use; put it back, or create an empty one: holdfast migrate"
                )
            log.warning("%s was replaced by another file: from now on its jobs are those of that file", self.path)
            self.generation += 1
        self._prepare()
        assert self._file is not None
        return self._file

    def _prepare(self) -> list[Migration]:
        check_file(self.path)
        create_private(self.path)
        file, resolved = file_id(self.path), os.path.realpath(self.path)
        self._log = f"{resolved}-wal"
        self._directory = os.path.dirname(resolved) if resolved == self.path else ""  # a link can change in any directory
        with self._explained(), closing(self._connect()) as connection:
            self._patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
            applied = self._migrate(connection)
        self._file = file
        return applied

    def _migrate(self, connection: sqlite3.Connection) -> list[Migration]:
        # The first to open a log, or to recover one, locks out even readers.
        if not pending(PACKAGE, self._patiently(lambda: version_of(connection)), self.path):
            return []
        self._begin(connection)
        return apply_pending(connection, self.path, self.clock.now(), self._tell)

    def _connect(self) -> sqlite3.Connection:
        if self._is_refused:
            raise StoreUnavailable(
                f"{self.path} was open in the process that this one was forked from, and SQLite's locks do not survive a fork; "
                "close connections of your own before the fork, or start this process with spawn"
            )
        return connect(self.path, self.busy_seconds)

    def _moment(self) -> Moment:
        return Moment(self.clock.now(), self.clock.tick(), self.clock.boot())

    def _tell(self, what: str) -> None:
        if self.probe is not None:
            self.probe(what)
