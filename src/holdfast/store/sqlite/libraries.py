"""The libraries that speak SQLite: how each runs a statement on the caller's connection, and how its transaction stands."""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Final, NamedTuple

from holdfast.errors import SettingError
from holdfast.store.caller import (
    ALCHEMY_ASYNC,
    ALCHEMY_SYNC,
    AsyncLink,
    SyncLink,
    alchemy_dialect,
    alchemy_rows,
    class_of,
    is_session,
    refused,
)
from holdfast.store.op import Row, Statement, adrive, drive
from holdfast.store.sql import load
from holdfast.store.sqlite.schema import PACKAGE
from holdfast.store.sqlite.steps import STEPS

SUPPORTED: Final = (
    "an open connection of sqlite3 or aiosqlite, or SQLAlchemy's Connection, Session, AsyncConnection or AsyncSession"
)
STATE: Final = Statement("state")
_CONTROL: Final = {
    "begin": "BEGIN IMMEDIATE",
    "mark": "SAVEPOINT holdfast_on",
    "back": "ROLLBACK TO holdfast_on",
    "keep": "RELEASE holdfast_on",
    "undo": "ROLLBACK",
}


class State(NamedTuple):
    """How the caller's connection stands."""

    in_transaction: bool
    autocommit: bool


class FileLink(SyncLink):
    def run(self, statement: Statement) -> list[Row]:
        if statement is STATE:
            return [self.state()]
        steps = STEPS.get(statement.verb)
        if steps is not None:
            return drive(steps(statement.parameters), self)
        return self.execute(*prepared(statement))

    @abstractmethod
    def execute(self, sql: str, parameters: tuple[Any, ...]) -> list[Row]: ...
    @abstractmethod
    def state(self) -> State: ...


class AsyncFileLink(AsyncLink):
    async def run(self, statement: Statement) -> list[Row]:
        if statement is STATE:
            return [await self.state()]
        steps = STEPS.get(statement.verb)
        if steps is not None:
            return await adrive(steps(statement.parameters), self)
        return await self.execute(*prepared(statement))

    @abstractmethod
    async def execute(self, sql: str, parameters: Any) -> list[Row]: ...
    @abstractmethod
    async def state(self) -> State: ...


def link_to(on: object) -> FileLink | AsyncFileLink:
    """The link that fits."""
    if isinstance(on, sqlite3.Connection):
        return Sqlite3(on)
    if class_of(on, "aiosqlite", "Connection"):
        return Aiosqlite(on)
    alchemy = class_of(on, "sqlalchemy", *ALCHEMY_SYNC, *ALCHEMY_ASYNC)
    if alchemy is None:
        raise refused(on, SUPPORTED)
    _check_dialect(on)
    return Alchemy(on, is_session(alchemy)) if alchemy in ALCHEMY_SYNC else AsyncAlchemy(on, is_session(alchemy))


def in_autocommit(raw: sqlite3.Connection) -> bool:
    """Python 3.12 has a second way to say it; where that is in use, `isolation_level` means nothing."""
    autocommit = getattr(raw, "autocommit", None)
    return autocommit if isinstance(autocommit, bool) else raw.isolation_level is None


class Sqlite3(FileLink):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: tuple[Any, ...]) -> list[Row]:
        connection = self._connection
        cursor, text_factory = connection.cursor(), connection.text_factory
        cursor.row_factory, connection.text_factory = None, str
        try:
            return cursor.execute(sql, parameters).fetchall()
        finally:
            connection.text_factory = text_factory

    def state(self) -> State:
        return State(self._connection.in_transaction, in_autocommit(self._connection))


class Aiosqlite(AsyncFileLink):
    """All in the thread that aiosqlite keeps for the connection: even to ask how it stands is refused elsewhere."""

    _locks: ClassVar[weakref.WeakKeyDictionary[Any, asyncio.Lock]] = weakref.WeakKeyDictionary()

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def execute(self, sql: str, parameters: Any) -> list[Row]:
        rows: list[Row] = await self._connection._execute(Sqlite3(self._raw()).execute, sql, parameters)
        return rows

    async def state(self) -> State:
        state: State = await self._connection._execute(Sqlite3(self._raw()).state)
        return state

    def _raw(self) -> sqlite3.Connection:
        try:
            raw: sqlite3.Connection = self._connection._conn
        except ValueError:
            raise SettingError("on= is an aiosqlite connection that is not open; pass `await aiosqlite.connect(...)`") from None
        return raw

    def exclusively(self) -> AbstractAsyncContextManager[Any]:
        """Tasks may share an aiosqlite connection."""
        return self._locks.setdefault(self._connection, asyncio.Lock())


class Alchemy(FileLink):
    def __init__(self, on: Any, session: bool) -> None:
        self._connection: Callable[[], Any] = on.connection if session else lambda: on

    def execute(self, sql: str, parameters: tuple[Any, ...]) -> list[Row]:
        return alchemy_rows(self._connection().exec_driver_sql(sql, parameters))

    def state(self) -> State:
        connection = self._connection()
        if not connection.in_transaction():
            connection.exec_driver_sql("SELECT 1")  # any statement makes it begin, as its own listeners want it begun
        raw = connection.connection.dbapi_connection
        return State(raw.in_transaction, in_autocommit(raw))


class AsyncAlchemy(AsyncFileLink):
    def __init__(self, on: Any, session: bool) -> None:
        self._on, self._session = on, session

    async def _connection(self) -> Any:
        return await self._on.connection() if self._session else self._on

    async def execute(self, sql: str, parameters: Any) -> list[Row]:
        return alchemy_rows(await (await self._connection()).exec_driver_sql(sql, parameters))

    async def state(self) -> State:
        connection = await self._connection()
        if not connection.in_transaction():
            await connection.exec_driver_sql("SELECT 1")
        return await Aiosqlite((await connection.get_raw_connection()).driver_connection).state()


def prepared(statement: Statement) -> tuple[str, tuple[Any, ...]]:
    control = _CONTROL.get(statement.verb)
    if control is not None:
        return control, ()
    sql = load(PACKAGE)[statement.verb]
    return sql.positional, sql.values(statement.parameters)


def _check_dialect(on: Any) -> None:
    dialect = alchemy_dialect(on)
    if dialect.name != "sqlite" or not dialect.driver.startswith(("pysqlite", "aiosqlite")):
        raise SettingError(
            f"on= speaks {dialect.name}+{dialect.driver}, and this app's store is SQLite; use sqlite+pysqlite or sqlite+aiosqlite"
        )
