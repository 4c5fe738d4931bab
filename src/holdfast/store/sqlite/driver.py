"""One SQLite file for many threads and processes.

Every write begins with BEGIN IMMEDIATE and ends with a synced commit, which callers that come at the same time share
(`store/commits`). One connection writes, a few read, and one copies the log into the file.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, Final, TypeVar

from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.store.caller import AsyncCallerTransaction, CallerTransaction
from holdfast.store.clock import Clock, SystemClock
from holdfast.store.commits import Commits, Entry, Share, accept, refuse, shares
from holdfast.store.migrate import Migration, pending
from holdfast.store.op import Alone, Moment, Operation, drive, shortcut
from holdfast.store.probe import Probe
from holdfast.store.sqlite.caller import caller_transaction
from holdfast.store.sqlite.connection import Connection, StoreWatcher, connect, is_busy, patiently
from holdfast.store.sqlite.errors import explain
from holdfast.store.sqlite.file import check_file, create_private
from holdfast.store.sqlite.schema import PACKAGE, apply_pending, version_of

T = TypeVar("T")
SQLITE_OLDEST: Final = (3, 35, 0)
READERS_MAX: Final = 8
CHECKPOINT_BYTES: Final = 4 * 1024 * 1024

_REFUSED: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError)
"""What is wrong with one statement and its values, not with the file."""


class SqliteStore:
    """The store behind a `sqlite:///` URL. Opened on first use; safe to share between threads and across fork."""

    dialect: Final = "sqlite"
    is_remote: Final = False

    def __init__(self, path: str, *, clock: Clock | None = None, busy_seconds: float = 30.0) -> None:
        if sqlite3.sqlite_version_info < SQLITE_OLDEST:
            raise StoreUnavailable(f"SQLite {sqlite3.sqlite_version} is too old; Holdfast needs 3.35 or newer")
        self.path, self.busy_seconds = path, busy_seconds
        self.clock: Clock = clock or SystemClock()
        self.probe: Probe | None = None
        self.commits = Commits(self._commit_alone, self._commit, self._after_commit, self._submit)
        self._inherited: list[Any] = []
        self._reset()
        _stores.add(self)

    def _reset(self) -> None:
        self._opening = threading.Lock()
        self._mutex = threading.Lock()
        self._writer: Connection | None = None
        self._checkpointer: sqlite3.Connection | None = None
        self._readers: list[Connection] = []
        self._executor: ThreadPoolExecutor | None = None
        self._logged_bytes = 0
        self._prepared = False

    def forget_after_fork(self) -> None:
        """In a forked child: the parent's connections are kept, unused and unclosed, for closing them would unlock its files."""
        self._inherited.append((self._writer, self._checkpointer, self._readers, self._executor))
        self.commits.forget()
        self._reset()

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
            return value
        except sqlite3.Error as error:
            self._undo(connection, keep=isinstance(error, _REFUSED))
            raise self._reason(error) from error
        except BaseException as error:
            self._undo(connection, keep=isinstance(error, Exception))
            raise

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
            accept(batch)
            if committing:
                self._tell("committed")
        except sqlite3.Error as error:
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

    def read(self, operation: Operation[T], *, urgent: bool = False) -> T:
        """Run an operation that only reads. Nobody waits for others here."""
        pool = self._readers
        connection = self._reading()
        try:
            value = self._patiently(lambda: drive(operation(self._moment()), connection))
        except sqlite3.Error as error:
            connection.close()
            raise explain(error, self.path) from error
        except BaseException:
            self._give_back(connection, pool)
            raise
        self._give_back(connection, pool)
        return value

    async def aread(self, operation: Operation[T]) -> T:
        return await asyncio.wrap_future(self._submit(lambda: self.read(operation)))

    def answer_within(self, seconds: float) -> None:
        """A file has nobody who could fall silent."""

    def watcher(self, follows: bool = False) -> StoreWatcher:
        """Waits for commits of other processes and of this one, whatever they bring."""
        return StoreWatcher(self.path, self._reading())

    def caller(self, connection: Any) -> CallerTransaction | AsyncCallerTransaction:
        """Runs operations in the transaction of a caller's connection to the same file. Nothing is opened yet."""
        return caller_transaction(connection, self.path)

    # Opening

    def version(self) -> int:
        """The schema version of the file; 0 before the first migration."""
        check_file(self.path)
        if not os.path.exists(self.path):
            return 0  # to connect would create it, readable by everybody
        with self._explained(), closing(self._connect()) as connection:
            return self._patiently(lambda: version_of(connection))

    def migrate(self) -> list[Migration]:
        """Bring the file to this version's layout; what was applied."""
        with self._opening:
            return self._prepare()

    def close(self) -> None:
        """Waits for the commit that goes on. Reads that go on close their connections when they end."""
        with self.commits.paused() as paused:
            with self._mutex:
                connections: list[Connection | sqlite3.Connection | None] = [*self._readers]
                if paused:  # else they close when the commit that we are inside of lets go of them
                    connections += [self._writer, self._checkpointer]
                executor = self._executor
                self._writer, self._readers, self._checkpointer, self._executor = None, [], None, None
                self._prepared = False
            for connection in connections:
                if connection is not None:
                    connection.close()
        if executor is not None:
            executor.shutdown(wait=False)

    def _writing(self) -> Connection:
        if self._writer is None:
            self._writer = self._open()
        return self._writer

    def _reading(self) -> Connection:
        with self._mutex:
            if self._readers:
                return self._readers.pop()
        with self._explained():
            return self._open()

    def _give_back(self, connection: Connection, pool: list[Connection]) -> None:
        """To the pool it was taken for; that is no longer ours if the store was closed meanwhile."""
        with self._mutex:
            kept = pool is self._readers and len(pool) < READERS_MAX
            if kept:
                pool.append(connection)
        if not kept:
            connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise explain(error, self.path) from error

    def _open(self) -> Connection:
        with self._opening:
            if not self._prepared:
                self._prepare()
                self._prepared = True
        return Connection(self._connect(), self)

    def _prepare(self) -> list[Migration]:
        check_file(self.path)
        create_private(self.path)
        with self._explained(), closing(self._connect()) as connection:
            self._patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
            return self._migrate(connection)

    def _migrate(self, connection: sqlite3.Connection) -> list[Migration]:
        # The first to open a log, or to recover one, locks out even readers.
        if not pending(PACKAGE, self._patiently(lambda: version_of(connection)), self.path):
            return []
        self._begin(connection)
        return apply_pending(connection, self.path, self.clock.now(), self._tell)

    def _connect(self) -> sqlite3.Connection:
        return connect(self.path, self.busy_seconds)

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        with self._mutex:  # so that nobody closes the executor between our look at it and our use of it
            if self._executor is None:
                self._executor = ThreadPoolExecutor(max_workers=4, thread_name_prefix="holdfast-store")
            return self._executor.submit(work)

    def _moment(self) -> Moment:
        return Moment(self.clock.now(), self.clock.tick(), self.clock.boot())

    def _tell(self, what: str) -> None:
        if self.probe is not None:
            self.probe(what)


_stores: weakref.WeakSet[SqliteStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_stores):
        store.forget_after_fork()


os.register_at_fork(after_in_child=_after_fork)
