"""An operation inside the caller's own transaction on PostgreSQL, between a savepoint and its release.

An error there aborts a whole transaction unless it is gone back in, so reads have a savepoint too. A transaction must be open, or
one that the library opens by itself at the first statement: what is committed at once cannot be undone by the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar, cast

import psycopg

from holdfast.errors import SettingError, StoreUnavailable
from holdfast.store.adapters import MIGRATE, AsyncBorrowed, Borrowed
from holdfast.store.clock import Clock
from holdfast.store.migrate import pending
from holdfast.store.op import Make, Moment, Op, Row, Statement
from holdfast.store.postgres.clock import ServerClock, own_micros
from holdfast.store.postgres.connection import LOUD, TOLD
from holdfast.store.postgres.links import BACK, CLOCK, KEEP, MARK, TELL, TELL_FOLLOWERS, AsyncLink, SyncLink, link_to
from holdfast.store.postgres.place import Place, explain
from holdfast.store.postgres.schema import PACKAGE
from holdfast.store.store import Door

T = TypeVar("T")
_WHERE: Final = "the database of on="
_ADD_LANE: Final = "add_lane"
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


def borrow(
    on: object, place: Place, clock: Clock, identity: str | None = None, door: Door | None = None
) -> Borrowed | AsyncBorrowed:
    """Our side of a caller's connection or session, whatever library it comes from. Nothing is opened yet.

    identity  what `whereabouts` told the store's own connection, if it has had one; the caller's must be told the same.
    door      the store itself, for what must not wait for the caller's commit.
    """
    link, rules = link_to(on, place.schema), PostgresRules(place, clock, identity)
    if isinstance(link, SyncLink):
        return Borrowed(link if door is None else LanesApart(link, door), rules)
    return AsyncBorrowed(link if door is None else AsyncLanesApart(link, door), rules)


class LanesApart:
    """A new lane is committed at once: all who enqueue the same task would have to wait for the caller's transaction to end."""

    def __init__(self, link: SyncLink, door: Door) -> None:
        self._link, self._door, self.alone = link, door, link.alone

    def run(self, statement: Statement) -> list[Row]:
        return self._door.write(lambda _: _only(statement)) if statement.verb == _ADD_LANE else self._link.run(statement)


class AsyncLanesApart:
    def __init__(self, link: AsyncLink, door: Door) -> None:
        self._link, self._door, self.alone = link, door, link.alone

    async def run(self, statement: Statement) -> list[Row]:
        if statement.verb == _ADD_LANE:
            return await self._door.awrite(lambda _: _only(statement))
        return await self._link.run(statement)


def _only(statement: Statement) -> Op[list[Row]]:
    return (yield statement)


class PostgresRules:
    def __init__(self, place: Place, clock: Clock, identity: str | None) -> None:
        self._place, self._clock, self._identity = place, clock, identity

    def inside(self, make: Make[T], moment: Moment) -> Op[T]:
        yield MARK
        try:
            said: set[str] = set()
            value = yield from _noting(make((yield from self._arrive(moment))), said)
            if said & (LOUD | TOLD):
                yield TELL if said & LOUD else TELL_FOLLOWERS  # heard when the caller commits
            yield KEEP
            return value
        except BaseException:
            yield from _undo()
            raise

    def looking(self, make: Make[T], moment: Moment) -> Op[T]:
        protected = yield from _mark_if_begun()
        try:
            value = yield from make((yield from self._arrive(moment)))
        except BaseException:
            if protected:
                yield from _undo()
            raise
        if protected:
            yield KEEP
        return value

    def _arrive(self, moment: Moment) -> Op[Moment]:
        """That the caller's database is the app's, and of this version; and the time there, if it is not known yet."""
        ((version, identity),) = yield Statement("whereabouts")
        if self._identity is not None and identity != self._identity:
            raise SettingError(
                f"on= is a connection to another database than {self._place.shown}, where this app's jobs are; use one for both"
            )
        if pending(PACKAGE, version or 0, _WHERE):
            raise StoreUnavailable(f"{_WHERE} is at schema version {version or 0}; {MIGRATE}")
        clock = self._clock
        if not isinstance(clock, ServerClock) or not clock.is_stale():
            return moment
        asked_at = own_micros()
        ((now,),) = yield CLOCK
        clock.learn(now, asked_at, own_micros())
        return Moment(clock.now(), clock.tick(), clock.boot())

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


def _mark_if_begun() -> Op[bool]:
    """A statement that commits by itself has nothing to protect."""
    try:
        yield MARK
    except Exception as error:
        if any(getattr(cause, "sqlstate", None) == _NO_TRANSACTION for cause in _causes(error)):
            return False
        raise
    return True


def _noting(op: Op[T], said: set[str]) -> Op[T]:
    """The same operation; its verbs are written down."""
    try:
        statement = next(op)
        while True:
            said.add(statement.verb)
            try:
                rows = yield statement
            except BaseException as error:
                statement = op.throw(error)
            else:
                statement = op.send(rows)
    except StopIteration as end:
        value: T = end.value
        return value


def _undo() -> Op[None]:
    """Back to where the caller was."""
    try:
        yield BACK
        yield KEEP
    except Exception:
        return  # the connection is beyond use, and what made it so is the error that the caller must see
