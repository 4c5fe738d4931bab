"""One connection that writes, and the callers that wait for it: they share its transactions (`store/commits`).

What was not committed is done again from the start, on a new connection if the old one is gone, for a few seconds. A commit that
was sent and not answered is never simply sent again: the server is asked what became of the transaction. A single statement is
sent again: that it does no harm is its operation's promise (`op.Alone`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from psycopg import errors

from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.store.commits import Commits, Entry, Share, accept, refuse, shares
from holdfast.store.op import Alone, Moment, Operation, drive, shortcut
from holdfast.store.postgres.bounded import Timeout
from holdfast.store.postgres.clock import ServerClock
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.errors import explain, is_lost, is_mixed_up, is_stale_plan, unknown_outcome
from holdfast.store.postgres.url import IDLE_SECONDS

if TYPE_CHECKING:
    from holdfast.store.postgres.driver import PostgresStore

T = TypeVar("T")
_chance: Final = random.SystemRandom()  # the program may have seeded the common one for itself
PATIENCE_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = (0.01, 0.5)

_REFUSED: Final = (
    psycopg.IntegrityError, psycopg.DataError, psycopg.ProgrammingError, psycopg.InterfaceError, psycopg.NotSupportedError,
    errors.QueryCanceled, errors.LockNotAvailable,
)  # fmt: skip
"""What is wrong with one statement, its values, or the rows it waits for; not with the server."""
_CONTENDED: Final = (errors.SerializationFailure, errors.DeadlockDetected)
_ID_CONSTRAINT: Final = "job_spec_id_key"


class NotKept(psycopg.OperationalError):
    """A commit without an answer, of which the server says that it was rolled back."""


class Patience:
    """How long it is worth to try again, and the pauses between: none before the second try, then longer ones."""

    def __init__(self, seconds: float = PATIENCE_SECONDS) -> None:
        self._deadline = time.monotonic() + seconds
        self._pause = 0.0

    def pause(self) -> bool:
        """False when it has run out."""
        if time.monotonic() + self._pause > self._deadline:
            return False
        time.sleep(self._pause * _chance.uniform(0.5, 1.0))
        low, high = PAUSE_SECONDS
        self._pause = min(high, max(low, self._pause * 2))
        return True


class Writer:
    def __init__(self, store: PostgresStore, submit: Callable[[Callable[[], None]], object]) -> None:
        self._store = store
        self._connection: Connection | None = None
        self.commits = Commits(self._commit_alone, self._commit, lambda: None, submit)

    def is_idle(self) -> bool:
        return not (self.commits.busy.locked() or self.commits.waiting)

    def forget(self) -> Connection | None:
        """In a forked child: nobody waits, and the parent's connection is not ours to use or to close."""
        self.commits.forget()
        inherited, self._connection = self._connection, None
        return inherited

    def close(self) -> None:
        with self.commits.paused() as paused:
            connection, self._connection = self._connection, None
            if paused and connection is not None:  # else it closes when the commit that we are inside of lets go of it
                connection.close()

    # Committing

    def _commit_alone(self, operation: Operation[T]) -> T:
        try:
            short = shortcut(operation)
            alone = None if short is None else short.alone(self._store.moment())
            if alone is not None and self._commit_statement(alone):
                return alone.value
            return self._transact(lambda connection, moment: drive(operation(moment), connection), lambda: None)
        except psycopg.Error as error:
            raise self._reason(error) from error

    def _commit(self, batch: list[Entry[Any]]) -> None:
        try:
            self._transact(lambda connection, moment: self._run_all(connection, batch, moment), lambda: accept(batch))
        except (psycopg.Error, HoldfastError) as error:
            refuse([entry for entry in batch if not entry.done], self._reason(error))
        except BaseException:
            refuse([entry for entry in batch if not entry.done], self._interrupted())
            raise

    def _commit_statement(self, alone: Alone[Any]) -> bool:
        """A statement by itself is a transaction. False: it wrote nothing, and the whole operation is to be run."""
        patience, doubtful, kept = Patience(), False, False
        while True:
            sent = notifying = notified = False
            try:
                connection = self._open()
                if kept:
                    connection.sync()
                    return True
                connection.wakes = None
                for step in ("begin", "commit"):
                    self._store.tell(step)
                sent = True
                notifying = connection.brings_work(alone.statement) and self._store.take_over_notification()
                written, notified = connection.run_alone(alone.statement, notifying)
                break
            except errors.UniqueViolation as error:
                if not doubtful:
                    raise
                if error.diag.constraint_name != _ID_CONSTRAINT:
                    raise unknown_outcome(self._store.path) from error  # it says nothing about the first try
                kept = True  # by the try before this one, which did not wait until it was safe
            except psycopg.Error as error:
                if notifying:
                    self._store.notify("workers")  # what was taken over stood also for other commits
                doubtful = doubtful or (sent and self._is_lost(error))
                if self._again(error, patience):
                    continue
                if doubtful:
                    raise unknown_outcome(self._store.path) from error
                raise
            except BaseException:
                self._drop()
                raise
        self._after_statement(connection, written, notified)
        return written

    def _after_statement(self, connection: Connection, written: bool, notified: bool) -> None:
        if written and connection.wakes is not None and not notified:
            self._store.notify(connection.wakes)
        if written:
            self._store.tell("committed")
        self._look_at_clock(connection)

    def _look_at_clock(self, connection: Connection) -> None:
        """Now and then, after the work: a process that only sends single statements begins no transaction that would show it."""
        clock = self._store.clock
        if isinstance(clock, ServerClock) and clock.is_stale():
            try:
                connection.read_clock(clock)
            except psycopg.Error:
                self._drop()

    def _transact(self, run: Callable[[Connection, Moment], T], kept: Callable[[], None]) -> T:
        """Begin, run, commit. `kept` is called as soon as it is known that nothing can undo it."""
        patience = Patience()
        while True:
            try:
                return self._try(run, kept)
            except psycopg.Error as error:
                if not self._again(error, patience):
                    raise

    def _try(self, run: Callable[[Connection, Moment], T], kept: Callable[[], None]) -> T:
        store, committing = self._store, False
        connection = self._open()
        try:
            store.tell("begin")
            if connection.in_transaction:
                connection.command("ROLLBACK")  # an interrupt can leave one behind that was begun for nobody
            connection.begin(store.clock)
            with connection.piped():
                value = run(connection, store.moment())
                store.tell("commit")
                committing = True
                connection.commit()
        except BaseException as error:
            if not (committing and (not isinstance(error, Exception) or self._is_lost(error))):
                self._undo(connection, keep=isinstance(error, Exception))
                raise
            self._find_out(connection, error, kept)
            return value
        kept()
        if connection.wakes is not None:
            store.notify(connection.wakes)
        store.tell("committed")
        return value

    def _find_out(self, connection: Connection, error: BaseException, kept: Callable[[], None]) -> None:
        """A commit was sent and not answered. Returns if it was kept; an interrupt is raised in any case."""
        self._drop()
        if isinstance(error, Timeout):
            self._store.distrust_older()
        fate = self._fate(connection)
        if fate == "committed":
            kept()
        if not isinstance(error, Exception):
            raise error
        if fate == "aborted":
            raise NotKept(str(error)) from error
        if fate != "committed":
            raise unknown_outcome(self._store.path) from error

    def _run_all(self, connection: Connection, batch: list[Entry[Any]], moment: Moment) -> None:
        for entry in batch:
            entry.value = entry.error = None  # of a try before this one
        for share in shares(batch):
            self._run(connection, share, moment, alone=len(share.entries) == len(batch))

    def _run(self, connection: Connection, share: Share, moment: Moment, alone: bool) -> None:
        """If it fails, only that is undone; an error of the server itself undoes the whole batch."""
        if not alone:
            connection.command("SAVEPOINT holdfast")
        try:
            value = drive(share.operation(moment), connection)
            connection.flush()
            share.answer(value)
        except Exception as error:
            if isinstance(error, psycopg.Error) and (is_stale_plan(error) or not isinstance(error, _REFUSED)):
                raise
            share.fail(self._reason(error))
            if alone:
                connection.rollback()
            else:
                connection.command("ROLLBACK TO holdfast")
        if not alone:
            connection.command("RELEASE holdfast")

    # When something is wrong

    def _again(self, error: psycopg.Error, patience: Patience) -> bool:
        """Whether nothing was kept and another try may go better; it is then time for it."""
        if isinstance(error, Timeout):
            self._store.distrust_older()
        if is_stale_plan(error):
            if is_mixed_up(error):
                self._store.distrust_plans()
            self._drop()
        elif self._is_lost(error):
            if self._connection is None and not self._store.knows_server():
                return False
            self._drop()
        elif not isinstance(error, (NotKept, *_CONTENDED)):
            return False
        return patience.pause()

    def _fate(self, connection: Connection) -> str | None:
        """What became of the transaction of a connection that is gone; None if that cannot be found out."""
        patience = Patience(IDLE_SECONDS + PATIENCE_SECONDS)  # until the server has given it up
        while connection.transaction is not None:
            try:
                asked = self._open()
                if connection.timeline is None or asked.timeline != connection.timeline:
                    return None  # another server has taken over: it may have given the number to another transaction
                fate = asked.fate(connection.transaction)
                if connection.epoch is None or asked.epoch != connection.epoch:
                    # It crashed meanwhile. If ours was lost, its number may be another's now; so only a bad end is certain.
                    return None if fate == "committed" else "aborted"
                if fate == "committed":
                    asked.sync()
                if fate != "in progress":
                    return fate
            except (psycopg.Error, StoreUnavailable):
                self._drop()
            if not patience.pause():
                break
        return None

    def _is_lost(self, error: BaseException) -> bool:
        """The connection is gone, or was never made."""
        connection = self._connection
        return is_lost(error) and (connection is None or connection.raw.closed or getattr(error, "sqlstate", None) is not None)

    def _open(self) -> Connection:
        if self._connection is not None and self._store.is_distrusted(self._connection):
            self._drop()
        if self._connection is None:
            self._connection = self._store.open_writer()
        return self._connection

    def _undo(self, connection: Connection, keep: bool) -> None:
        """Nothing of what was begun stays; after an interrupt, which can come anywhere, the connection goes too."""
        try:
            if keep and not connection.raw.closed:
                if connection.in_transaction:
                    connection.command("ROLLBACK")
                return
        except psycopg.Error:
            pass
        if self._connection is connection:
            self._drop()
        else:
            connection.close()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _reason(self, error: Exception) -> Exception:
        return explain(error, self._store.path) if isinstance(error, psycopg.Error) else error

    def _interrupted(self) -> StoreUnavailable:
        return StoreUnavailable(f"{self._store.path}: the write was interrupted; look whether the work is there and try again")
