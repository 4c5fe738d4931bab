"""The connections we can speak through: what a caller may pass as `on=`.

The caller's transaction stays the caller's: nothing is committed here. Each operation takes the write lock and runs inside a
savepoint, so that one that fails leaves nothing of its own behind, and all that the caller wrote before. `inside` says how,
once, for sync and async; what differs from library to library is in `links`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from holdfast.errors import SettingError, StoreUnavailable
from holdfast.store.links import Alchemy, AsyncLink, Link, Sqlite3, link_to
from holdfast.store.migrate import pending
from holdfast.store.op import Make, Moment, Op, Row, Statement
from holdfast.store.sql import load
from holdfast.store.sqlite.place import explain
from holdfast.store.sqlite.schema import PACKAGE

T = TypeVar("T")
_STATE: Final = Statement("state")
_CONTROL: Final = {
    "begin": "BEGIN IMMEDIATE",
    "mark": "SAVEPOINT holdfast_on",
    "back": "ROLLBACK TO holdfast_on",
    "keep": "RELEASE holdfast_on",
    "undo": "ROLLBACK",
}


class Borrowed:
    """A caller's connection, sync: `write` and `read` run inside the caller's transaction."""

    def __init__(self, link: Link, store_path: str | None) -> None:
        self._link, self._store_path = link, store_path

    def write(self, make: Make[T], moment: Moment) -> T:
        return self._drive(inside(make, moment, self._store_path))

    def read(self, make: Make[T], moment: Moment) -> T:
        return self._drive(looking(make, moment, self._store_path))

    def _run(self, statement: Statement) -> list[Row]:
        return [self._link.state()] if statement is _STATE else self._link.execute(*prepared(statement))

    def _drive(self, op: Op[T]) -> T:
        """As `op.drive`, but an error is thrown into the operation, which then undoes what it did."""
        with translating():
            try:
                statement = next(op)
                while True:
                    try:
                        rows = self._run(statement)
                    except BaseException as error:
                        statement = op.throw(error)
                    else:
                        statement = op.send(rows)
            except StopIteration as end:
                value: T = end.value
                return value


class AsyncBorrowed:
    """A caller's connection, async."""

    def __init__(self, link: AsyncLink, store_path: str | None) -> None:
        self._link, self._store_path = link, store_path

    async def write(self, make: Make[T], moment: Moment) -> T:
        async with self._link.alone():
            return await self._drive(inside(make, moment, self._store_path))

    async def read(self, make: Make[T], moment: Moment) -> T:
        return await self._drive(looking(make, moment, self._store_path))

    async def _run(self, statement: Statement) -> list[Row]:
        return [await self._link.state()] if statement is _STATE else await self._link.execute(*prepared(statement))

    async def _drive(self, op: Op[T]) -> T:
        with translating():
            try:
                statement = next(op)
                while True:
                    try:
                        rows = await self._run(statement)
                    except BaseException as error:
                        statement = op.throw(error)
                    else:
                        statement = op.send(rows)
            except StopIteration as end:
                value: T = end.value
                return value


def borrow(on: object, store_path: str | None = None) -> Borrowed | AsyncBorrowed:
    """Our side of a caller's connection or session, whatever library it comes from. Nothing is opened yet."""
    link = link_to(on)
    return Borrowed(link, store_path) if isinstance(link, Sqlite3 | Alchemy) else AsyncBorrowed(link, store_path)


def inside(make: Make[T], moment: Moment, store_path: str | None) -> Op[T]:
    """An operation in the caller's transaction, which is begun if the library has not done so yet."""
    (state,) = yield _STATE
    begun = not state[0]
    if begun:
        _check_manual(*state)
        yield Statement("begin")
    yield Statement("mark")
    try:
        # A transaction that only reads so far must get the write lock before it reads for us: what it read may be old.
        yield Statement("lock")
        yield from _check_place(store_path)
        value = yield from make(moment)
        yield Statement("keep")
        return value
    except BaseException:
        yield from _undo(begun)
        raise


def looking(make: Make[T], moment: Moment, store_path: str | None) -> Op[T]:
    yield from _check_place(store_path)
    return (yield from make(moment))


def _undo(begun: bool) -> Op[None]:
    """Back to where the caller was; a transaction that SQLite has given up by itself cannot be gone back in."""
    try:
        (state,) = yield _STATE
        if state[0] and begun:
            yield Statement("undo")
        elif state[0]:
            yield Statement("back")
            yield Statement("keep")
    except Exception:
        return  # the connection is beyond use, and what made it so is the error that the caller must see


def _check_manual(_: bool, autocommit: bool) -> None:
    if autocommit:
        raise SettingError(
            "on= is a connection in autocommit mode with no transaction; execute BEGIN IMMEDIATE first, or leave on= out"
        )


def _check_place(store_path: str | None) -> Op[None]:
    """That the caller's database is the app's, and of this version."""
    ((version, files),) = yield Statement("whereabouts")
    opened: list[str] = [file for file in json.loads(files) if file]
    if store_path is not None and not any(_same(file, store_path) for file in opened):
        where = opened[0] if opened else "memory only"
        raise SettingError(f"on= is a connection to {where}, but this app's jobs are in {store_path}; use one database for both")
    if pending(PACKAGE, version or 0, "the database of on="):
        raise StoreUnavailable(f"the database of on= is at schema version {version or 0}; {_MIGRATE}")


def _same(file: str, store_path: str) -> bool:
    try:
        return os.path.samefile(file, store_path)
    except OSError:
        return False


def prepared(statement: Statement) -> tuple[str, Any]:
    control = _CONTROL.get(statement.verb)
    if control is not None:
        return control, ()
    sql = load(PACKAGE)[statement.verb]
    return sql.numbered, sql.values(statement.parameters) if statement.rows is None else list(statement.rows)


_MIGRATE: Final = "call app.migrate() when your program starts, or run `holdfast migrate`"


@contextmanager
def translating() -> Any:
    """A database error comes out as ours; anything else as it is."""
    try:
        yield
    except Exception as error:
        told = translated(error)
        if told is error:
            raise
        raise told from error


def translated(error: Exception) -> Exception:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, sqlite3.Error):
        cause = getattr(cause, "orig", None) or cause.__cause__
    if cause is None:
        return error
    if "no such table: holdfast_" in str(cause):
        return StoreUnavailable(f"the database of on= has no Holdfast tables; {_MIGRATE}")
    if "closed database" in str(cause):
        return SettingError("on= is a connection that is closed; pass one that is open")
    if "created in a thread" in str(cause):
        return SettingError("on= is a connection of another thread; open one in this thread, or with check_same_thread=False")
    return explain(cause, "the database of on=")
