"""The libraries whose connections we can speak through: how each runs a statement, and how its transaction stands."""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from holdfast.errors import SettingError
from holdfast.store.op import Row

SUPPORTED: Final = (
    "an open connection of sqlite3 or aiosqlite, or SQLAlchemy's Connection, Session, AsyncConnection or AsyncSession"
)


class State(NamedTuple):
    """How the caller's connection stands."""

    in_transaction: bool
    autocommit: bool


class Link(Protocol):
    """A library's connection, sync. `parameters` are a tuple, or a list of tuples for as many executions."""

    def execute(self, sql: str, parameters: Any) -> list[Row]: ...
    def state(self) -> State: ...


class AsyncLink(Protocol):
    def execute(self, sql: str, parameters: Any) -> Awaitable[list[Row]]: ...
    def state(self) -> Awaitable[State]: ...
    def alone(self) -> AbstractAsyncContextManager[Any]: ...


def link_to(on: object) -> Sqlite3 | Alchemy | Aiosqlite | AsyncAlchemy:
    """The link that fits, told by the names of the object's classes: no library is imported to find out."""
    if isinstance(on, sqlite3.Connection):
        return Sqlite3(on)
    for cls in type(on).__mro__:
        library = cls.__module__.partition(".")[0]
        if library == "aiosqlite" and cls.__name__ == "Connection":
            return Aiosqlite(on)
        if library == "sqlalchemy" and cls.__name__ in _ALCHEMY:
            _check_dialect(on)
            return _ALCHEMY[cls.__name__](on, cls.__name__.lower().endswith("session"))
    raise SettingError(f"on= cannot be a {type(on).__module__}.{type(on).__qualname__}; pass {SUPPORTED}")


def in_autocommit(raw: sqlite3.Connection) -> bool:
    """Python 3.12 has a second way to say it; where that is in use, `isolation_level` means nothing."""
    autocommit = getattr(raw, "autocommit", None)
    return autocommit if isinstance(autocommit, bool) else raw.isolation_level is None


class Sqlite3:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, sql: str, parameters: Any) -> list[Row]:
        connection = self._connection
        cursor, text_factory = connection.cursor(), connection.text_factory
        cursor.row_factory, connection.text_factory = None, str
        try:
            run = cursor.executemany if isinstance(parameters, list) else cursor.execute
            return run(sql, parameters).fetchall()
        finally:
            connection.text_factory = text_factory

    def state(self) -> State:
        return State(self._connection.in_transaction, in_autocommit(self._connection))


class Aiosqlite:
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

    def alone(self) -> AbstractAsyncContextManager[Any]:
        """Tasks may share an aiosqlite connection: their savepoints must not interleave."""
        return self._locks.setdefault(self._connection, asyncio.Lock())


class Alchemy:
    def __init__(self, on: Any, is_session: bool) -> None:
        self._connection: Callable[[], Any] = on.connection if is_session else lambda: on

    def execute(self, sql: str, parameters: Any) -> list[Row]:
        return _rows(self._connection().exec_driver_sql(sql, parameters))

    def state(self) -> State:
        connection = self._connection()
        if not connection.in_transaction():
            connection.exec_driver_sql("SELECT 1")  # any statement makes it begin, as its own listeners want it begun
        raw = connection.connection.dbapi_connection
        return State(raw.in_transaction, in_autocommit(raw))


class AsyncAlchemy:
    def __init__(self, on: Any, is_session: bool) -> None:
        self._on, self._is_session = on, is_session

    async def _connection(self) -> Any:
        return await self._on.connection() if self._is_session else self._on

    async def execute(self, sql: str, parameters: Any) -> list[Row]:
        return _rows(await (await self._connection()).exec_driver_sql(sql, parameters))

    async def state(self) -> State:
        connection = await self._connection()
        if not connection.in_transaction():
            await connection.exec_driver_sql("SELECT 1")
        return await Aiosqlite((await connection.get_raw_connection()).driver_connection).state()

    def alone(self) -> AbstractAsyncContextManager[Any]:
        return nullcontext()


_ALCHEMY: Final[dict[str, Callable[[Any, bool], Alchemy | AsyncAlchemy]]] = {
    "Connection": Alchemy,
    "Session": Alchemy,
    "scoped_session": Alchemy,
    "AsyncConnection": AsyncAlchemy,
    "AsyncSession": AsyncAlchemy,
    "async_scoped_session": AsyncAlchemy,
}


def _rows(result: Any) -> list[Row]:
    return [tuple(row) for row in result.fetchall()] if result.returns_rows else []


def _check_dialect(on: Any) -> None:
    try:
        dialect = (on.get_bind() if hasattr(on, "get_bind") else on).dialect
    except Exception as error:
        raise SettingError(
            f"on= is a session without one database of its own ({_line(error)}); pass session.connection(...)"
        ) from error
    if dialect.name != "sqlite" or not dialect.driver.startswith(("pysqlite", "aiosqlite")):
        raise SettingError(
            f"on= speaks {dialect.name}+{dialect.driver}, and this app's store is SQLite; use sqlite+pysqlite or sqlite+aiosqlite"
        )


def _line(error: Exception) -> str:
    return str(error).partition("\n")[0]
