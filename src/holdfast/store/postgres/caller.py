"""An operation inside the caller's own transaction on PostgreSQL, between a savepoint and its release.

An error there aborts a whole transaction unless it is gone back in, so reads have a savepoint too. A transaction must be open, or
one that the library opens by itself at the first statement: what is committed at once cannot be undone by the caller. A read
without one gets one of its own.

The names in our statements must not find what others have created in a schema of the caller's `search_path` (CVE-2018-1058). So
`arrive` sets that to ours, for the transaction, and `leave` sets it back; a savepoint that is gone back to does, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar, cast

import psycopg

from holdfast.errors import SettingError, StoreUnavailable
from holdfast.store.caller import MIGRATE, AsyncCallerTransaction, CallerTransaction
from holdfast.store.clock import Clock
from holdfast.store.migrate import pending
from holdfast.store.op import Moment, Op, Operation, Statement
from holdfast.store.postgres.clock import ServerClock, own_micros
from holdfast.store.postgres.errors import explain
from holdfast.store.postgres.libraries import (
    ARRIVE,
    BACK,
    BEGIN,
    CLOCK,
    COMMIT,
    KEEP,
    LEAVE,
    MARK,
    AsyncServerLink,
    ServerLink,
    link_to,
)
from holdfast.store.postgres.schema import PACKAGE
from holdfast.store.postgres.url import Location
from holdfast.store.store import Database

T = TypeVar("T")
_WHERE: Final = "the database of on="
_NO_TRANSACTION: Final = "25P01"
_FOR_THE_CALLER: Final = {
    _NO_TRANSACTION: "on= is a connection in autocommit mode with no transaction; begin one first, or leave on= out",
    "25P02": "on= is in a transaction that an earlier error has aborted; roll it back first",
}
_FOR_THE_CALLER_BY_NAME: Final = {
    "PendingRollbackError": _FOR_THE_CALLER["25P02"],  # SQLAlchemy
    "TransactionManagementError": _FOR_THE_CALLER["25P02"],  # Django
}
_NO_TABLES: Final = ("3F000", "42P01")
_AGAIN: Final = ("40001", "40P01")
_CLOSED: Final = ("connection is closed", "released back to the pool", "connection already closed")


def caller_transaction(
    on: object, location: Location, clock: Clock, identity: str | None = None, database: Database | None = None
) -> CallerTransaction | AsyncCallerTransaction:
    """Runs operations on a caller's connection or session, whatever library it comes from. Nothing is opened yet.

    identity  What the verb `identity` returned on the store's own connection, if it has one; on the caller's it must be the same.
    database  The store itself, for what must not wait for the caller's commit.
    """
    link = link_to(on, location.schema)
    rules = PostgresRules(link, location, clock, identity, database)
    return CallerTransaction(link, rules) if isinstance(link, ServerLink) else AsyncCallerTransaction(link, rules)


class PostgresRules:
    def __init__(
        self,
        link: ServerLink | AsyncServerLink,
        location: Location,
        clock: Clock,
        identity: str | None,
        database: Database | None,
    ) -> None:
        self._link, self._database = link, database
        self._location, self._clock, self._identity = location, clock, identity

    def writing(self, operation: Operation[T], moment: Moment) -> Op[T]:
        yield MARK
        try:
            path, moment = yield from self._arrive(moment)
            value = yield from operation(moment)
            yield Statement(LEAVE, {"path": path})
            yield KEEP
            return value
        except BaseException:
            yield from _quietly(BACK, KEEP)
            raise

    def reading(self, operation: Operation[T], moment: Moment) -> Op[T]:
        begun = yield from _begin_or_mark()
        try:
            path, moment = yield from self._arrive(moment)
            value = yield from operation(moment)
            if not begun:
                yield Statement(LEAVE, {"path": path})
            yield COMMIT if begun else KEEP
            return value
        except BaseException:
            yield from _quietly(*(COMMIT,) if begun else (BACK, KEEP))  # nothing was written; and an error is rolled back
            raise

    def _arrive(self, moment: Moment) -> Op[tuple[str, Moment]]:
        """That the caller's database is the app's, and of this version. What `leave` is given, and the time there."""
        ((path, _, version, identity, isolation),) = yield ARRIVE
        # Else all that enqueue the same task would wait for the caller to commit. But a snapshot would not see such a lane.
        self._link.lanes = self._database if isolation == "read committed" else None
        if self._identity is not None and identity != self._identity:
            raise SettingError(
                f"on= is a connection to another database than {self._location.shown}, where this app's jobs are; "
                "use one for both"
            )
        if pending(PACKAGE, version or 0, _WHERE):
            raise StoreUnavailable(f"{_WHERE} is at schema version {version or 0}; {MIGRATE}")
        clock = self._clock
        if not isinstance(clock, ServerClock) or not clock.is_stale():
            return path, moment
        asked_at = own_micros()
        ((now,),) = yield CLOCK
        clock.learn(now, asked_at, own_micros())
        return path, Moment(clock.now(), clock.tick(), clock.boot())

    def translated(self, error: Exception) -> Exception:
        for cause in _causes(error):
            told = _FOR_THE_CALLER_BY_NAME.get(type(cause).__name__)
            if told is not None:
                return SettingError(told)
            if type(cause).__module__.partition(".")[0] in ("psycopg", "asyncpg"):
                return _told(cause)
        return error


def _told(error: BaseException) -> Exception:
    state = getattr(error, "sqlstate", None)
    if state in _FOR_THE_CALLER:
        return SettingError(_FOR_THE_CALLER[state])
    if state in _NO_TABLES:
        return StoreUnavailable(f"{_WHERE} has no Holdfast tables; {MIGRATE}")
    if state in _AGAIN:
        return StoreUnavailable(
            f"{_WHERE} changed under this transaction ({type(error).__name__} {state}); roll it back and do it again"
        )
    if any(closed in str(error) for closed in _CLOSED):
        return SettingError("on= is a connection that is closed; pass one that is open")
    return explain(cast(psycopg.Error, error), _WHERE)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """A library's error, and the driver's that it came from."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = getattr(cause, "orig", None) or cause.__cause__


def _begin_or_mark() -> Op[bool]:
    """Whether there was no transaction, and one was begun."""
    try:
        yield MARK
    except Exception as error:
        if any(getattr(cause, "sqlstate", None) == _NO_TRANSACTION for cause in _causes(error)):
            yield BEGIN
            return True
        raise
    return False


def _quietly(*steps: Statement) -> Op[None]:
    """Back to where the caller was."""
    try:
        yield from steps
    except Exception:
        return  # the connection is beyond use, and what made it so is the error that the caller must see
