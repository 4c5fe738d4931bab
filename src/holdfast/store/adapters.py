"""The connections we can speak through: what a caller may pass as `on=`.

The caller's transaction stays the caller's: nothing is committed here. Each operation runs inside a savepoint, so that one
that fails leaves nothing half-written in it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast.errors import SettingError, StoreUnavailable
from holdfast.store.op import Make, Moment, Row, Statement, adrive, drive
from holdfast.store.sql import Sql, load, values
from holdfast.store.sqlite.place import explain

T = TypeVar("T")
SUPPORTED = "sqlite3, aiosqlite, or SQLAlchemy's Connection, Session, AsyncConnection or AsyncSession"

Execute = Callable[[str, Any], Any]
"""Runs SQL with a tuple of values, or with a list of tuples."""


class Borrowed:
    """A caller's connection, sync: `write` and `read` run inside the caller's transaction."""

    def __init__(self, execute: Callable[[str, Any], list[Row]], in_transaction: Callable[[], bool], autocommit: bool) -> None:
        self._execute = execute
        self._in_transaction = in_transaction
        self._autocommit = autocommit
        self._sql = load("holdfast.store.sqlite")

    def run(self, statement: Statement) -> list[Row]:
        return self._execute(*prepared(self._sql[statement.verb], statement))

    def write(self, make: Make[T], moment: Moment) -> T:
        try:
            if not self._in_transaction():
                check_transaction(self._autocommit)
                self._execute("BEGIN IMMEDIATE", ())
            self._execute("SAVEPOINT holdfast_on", ())
            try:
                value = drive(make(moment), self)
            except BaseException:
                if self._in_transaction():
                    self._execute("ROLLBACK TO holdfast_on", ())
                    self._execute("RELEASE holdfast_on", ())
                raise
            self._execute("RELEASE holdfast_on", ())
            return value
        except Exception as error:
            raise translated(error) from error

    def read(self, make: Make[T], moment: Moment) -> T:
        try:
            return drive(make(moment), self)
        except Exception as error:
            raise translated(error) from error


class AsyncBorrowed:
    """A caller's connection, async."""

    def __init__(
        self, execute: Callable[[str, Any], Awaitable[list[Row]]], in_transaction: Callable[[], Awaitable[bool]], autocommit: bool
    ) -> None:
        self._execute = execute
        self._in_transaction = in_transaction
        self._autocommit = autocommit
        self._sql = load("holdfast.store.sqlite")

    async def run(self, statement: Statement) -> list[Row]:
        return await self._execute(*prepared(self._sql[statement.verb], statement))

    async def write(self, make: Make[T], moment: Moment) -> T:
        try:
            if not await self._in_transaction():
                check_transaction(self._autocommit)
                await self._execute("BEGIN IMMEDIATE", ())
            await self._execute("SAVEPOINT holdfast_on", ())
            try:
                value = await adrive(make(moment), self)
            except BaseException:
                if await self._in_transaction():
                    await self._execute("ROLLBACK TO holdfast_on", ())
                    await self._execute("RELEASE holdfast_on", ())
                raise
            await self._execute("RELEASE holdfast_on", ())
            return value
        except Exception as error:
            raise translated(error) from error

    async def read(self, make: Make[T], moment: Moment) -> T:
        try:
            return await adrive(make(moment), self)
        except Exception as error:
            raise translated(error) from error


def borrow(on: object) -> Borrowed | AsyncBorrowed:
    """Our side of a caller's connection or session, whatever library it comes from."""
    if isinstance(on, sqlite3.Connection):
        return _sqlite3(on)
    for cls in type(on).__mro__:
        library = cls.__module__.partition(".")[0]
        if library == "aiosqlite" and cls.__name__ == "Connection":
            return _aiosqlite(on)
        if library == "sqlalchemy" and cls.__name__ in _SQLALCHEMY:
            return _SQLALCHEMY[cls.__name__](on)
    raise SettingError(f"on={on!r} is a {type(on).__module__}.{type(on).__qualname__}; pass {SUPPORTED}")


def prepared(sql: Sql, statement: Statement) -> tuple[str, Any]:
    if statement.rows is not None:
        return sql.numbered, list(statement.rows)
    return sql.numbered, values(sql, statement.parameters)


def check_transaction(autocommit: bool) -> None:
    if autocommit:
        raise SettingError("on= is a connection in autocommit mode with no transaction begun; execute BEGIN IMMEDIATE first")


def translated(error: Exception) -> Exception:
    """A database error as ours; anything else as it is."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, sqlite3.Error):
            if "no such table: holdfast_" in str(cause):
                return StoreUnavailable("the database of on= has no Holdfast tables; run `holdfast migrate` on it first")
            return explain(cause, "the database of on=")
        cause = getattr(cause, "orig", None) or cause.__cause__
    return error


def _sqlite3(connection: sqlite3.Connection) -> Borrowed:
    def execute(sql: str, parameters: Any) -> list[Row]:
        cursor = connection.cursor()
        cursor.row_factory = None
        run = cursor.executemany if isinstance(parameters, list) else cursor.execute
        return [tuple(row) for row in run(sql, parameters).fetchall()]

    return Borrowed(execute, lambda: connection.in_transaction, connection.isolation_level is None)


def _aiosqlite(connection: Any) -> AsyncBorrowed:
    async def execute(sql: str, parameters: Any) -> list[Row]:
        run = connection.executemany if isinstance(parameters, list) else connection.execute
        async with run(sql, parameters) as cursor:
            return [tuple(row) for row in await cursor.fetchall()]

    async def in_transaction() -> bool:
        return bool(connection.in_transaction)

    return AsyncBorrowed(execute, in_transaction, connection.isolation_level is None)


def _rows(result: Any) -> list[Row]:
    return [tuple(row) for row in result.fetchall()] if result.returns_rows else []


def _check_dialect(connection: Any) -> None:
    name = connection.dialect.name
    if name != "sqlite":
        raise SettingError(f"on= is a SQLAlchemy connection to {name}; this app's store is SQLite")


def _alchemy(connection_of: Callable[[], Any]) -> Borrowed:
    _check_dialect(connection_of())

    def execute(sql: str, parameters: Any) -> list[Row]:
        return _rows(connection_of().exec_driver_sql(sql, parameters))

    def in_transaction() -> bool:
        return bool(connection_of().connection.dbapi_connection.in_transaction)

    return Borrowed(execute, in_transaction, autocommit=False)


def _async_alchemy(connection_of: Callable[[], Awaitable[Any]]) -> AsyncBorrowed:
    async def execute(sql: str, parameters: Any) -> list[Row]:
        return _rows(await (await connection_of()).exec_driver_sql(sql, parameters))

    async def in_transaction() -> bool:
        connection = await connection_of()
        _check_dialect(connection)
        raw = await connection.get_raw_connection()
        return bool(raw.driver_connection.in_transaction)

    return AsyncBorrowed(execute, in_transaction, autocommit=False)


def _async_connection(on: Any) -> AsyncBorrowed:
    async def itself() -> Any:
        return on

    return _async_alchemy(itself)


_SQLALCHEMY: dict[str, Callable[[Any], Borrowed | AsyncBorrowed]] = {
    "Connection": lambda on: _alchemy(lambda: on),
    "Session": lambda on: _alchemy(on.connection),
    "scoped_session": lambda on: _alchemy(on.connection),
    "AsyncConnection": _async_connection,
    "AsyncSession": lambda on: _async_alchemy(on.connection),
    "async_scoped_session": lambda on: _async_alchemy(on.connection),
}
