"""The connections we can speak through: what a caller may pass as `on=`.

The caller's transaction stays the caller's: nothing is committed here. Each operation takes the write lock and runs inside a
savepoint, so that one that fails leaves nothing of its own behind, and all that the caller wrote before. `inside` says how,
once, for sync and async; a link is the little that differs from library to library.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import weakref
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

from holdfast.errors import SettingError, StoreUnavailable
from holdfast.store.migrate import pending
from holdfast.store.op import Make, Moment, Op, Row, Statement
from holdfast.store.sql import load, values
from holdfast.store.sqlite.place import explain

T = TypeVar("T")
PACKAGE: Final = "holdfast.store.sqlite"
SUPPORTED: Final = (
    "an open connection of sqlite3 or aiosqlite, or SQLAlchemy's Connection, Session, AsyncConnection or AsyncSession"
)
_STATE: Final = Statement("state")
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


class Link(Protocol):
    """A library's connection, sync. `parameters` are a tuple, or a list of tuples for as many executions."""

    def execute(self, sql: str, parameters: Any) -> list[Row]: ...
    def state(self) -> State: ...


class AsyncLink(Protocol):
    def execute(self, sql: str, parameters: Any) -> Awaitable[list[Row]]: ...
    def state(self) -> Awaitable[State]: ...
    def alone(self) -> AbstractAsyncContextManager[Any]: ...


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
    return sql.numbered, values(sql, statement.parameters) if statement.rows is None else list(statement.rows)


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


# The libraries


def borrow(on: object, store_path: str | None = None) -> Borrowed | AsyncBorrowed:
    """Our side of a caller's connection or session, whatever library it comes from. Nothing is opened yet."""
    if isinstance(on, sqlite3.Connection):
        return Borrowed(_Sqlite3(on), store_path)
    for cls in type(on).__mro__:
        library = cls.__module__.partition(".")[0]
        if library == "aiosqlite" and cls.__name__ == "Connection":
            return AsyncBorrowed(_Aiosqlite(on), store_path)
        if library == "sqlalchemy" and cls.__name__ in _ALCHEMY:
            _check_dialect(on)
            is_session = cls.__name__.lower().endswith("session")
            link = _ALCHEMY[cls.__name__](on, is_session)
            return Borrowed(link, store_path) if isinstance(link, _Alchemy) else AsyncBorrowed(link, store_path)
    raise SettingError(f"on= cannot be a {type(on).__module__}.{type(on).__qualname__}; pass {SUPPORTED}")


def in_autocommit(raw: sqlite3.Connection) -> bool:
    """Python 3.12 has a second way to say it; where that is in use, `isolation_level` means nothing."""
    autocommit = getattr(raw, "autocommit", None)
    return autocommit if isinstance(autocommit, bool) else raw.isolation_level is None


class _Sqlite3:
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


class _Aiosqlite:
    _locks: ClassVar[weakref.WeakKeyDictionary[Any, asyncio.Lock]] = weakref.WeakKeyDictionary()

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def execute(self, sql: str, parameters: Any) -> list[Row]:
        await self.state()
        text_factory, self._connection.text_factory = self._connection.text_factory, str
        try:
            async with self._connection.cursor() as cursor:
                cursor.row_factory = None
                await (cursor.executemany if isinstance(parameters, list) else cursor.execute)(sql, parameters)
                return [tuple(row) for row in await cursor.fetchall()]
        finally:
            self._connection.text_factory = text_factory

    async def state(self) -> State:
        try:
            raw: sqlite3.Connection = self._connection._conn
        except ValueError:
            raise SettingError("on= is an aiosqlite connection that is not open; pass `await aiosqlite.connect(...)`") from None
        return State(raw.in_transaction, in_autocommit(raw))

    def alone(self) -> AbstractAsyncContextManager[Any]:
        """Tasks may share an aiosqlite connection: their savepoints must not interleave."""
        return self._locks.setdefault(self._connection, asyncio.Lock())


class _Alchemy:
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


class _AsyncAlchemy:
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
        return await _Aiosqlite((await connection.get_raw_connection()).driver_connection).state()

    def alone(self) -> AbstractAsyncContextManager[Any]:
        return nullcontext()


_ALCHEMY: Final[dict[str, Callable[[Any, bool], _Alchemy | _AsyncAlchemy]]] = {
    "Connection": _Alchemy,
    "Session": _Alchemy,
    "scoped_session": _Alchemy,
    "AsyncConnection": _AsyncAlchemy,
    "AsyncSession": _AsyncAlchemy,
    "async_scoped_session": _AsyncAlchemy,
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
