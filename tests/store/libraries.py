"""The libraries whose connections may be passed as `on=`, behind one face: the tests say once what each must do."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiosqlite
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast import Client, Holdfast, Task

NOTE = "INSERT INTO note VALUES ('mine')"
NOTES = "SELECT count(*) FROM note"


class Library:
    """One open connection or session of one library. `ask` calls a client method, by whichever twin fits."""

    is_async = False

    def __init__(self, connection: Any, begins: bool = False) -> None:
        self.connection = connection
        self.begins = begins
        """Whether a transaction is begun in the database before we are asked for anything."""

    async def ask(self, client: Client, method: str, *args: Any, **kwargs: Any) -> Any:
        bound = client.on(self.connection)
        if self.is_async:
            return await getattr(bound, f"a{method}")(*args, **kwargs)
        return getattr(bound, method)(*args, **kwargs)

    async def enqueue(self, task: Task[Any], *args: Any, **using: Any) -> Any:
        chosen = task.using(on=self.connection, **using)
        return await chosen.aenqueue(*args) if self.is_async else chosen.enqueue(*args)

    async def write_note(self) -> None:
        self.connection.execute(NOTE)

    async def count_notes(self) -> int:
        return int(self.connection.execute(NOTES).fetchone()[0])

    async def commit(self) -> None:
        self.connection.commit()

    async def rollback(self) -> None:
        self.connection.rollback()


class Aiosqlite(Library):
    is_async = True

    async def write_note(self) -> None:
        await self.connection.execute(NOTE)

    async def count_notes(self) -> int:
        async with self.connection.execute(NOTES) as cursor:
            row = await cursor.fetchone()
        return int(next(iter(row.values() if isinstance(row, dict) else row)))

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()


class Manual(Library):
    """`isolation_level=None`: the caller says BEGIN, COMMIT and ROLLBACK."""

    async def ask(self, client: Client, method: str, *args: Any, **kwargs: Any) -> Any:
        self._begin()
        return await super().ask(client, method, *args, **kwargs)

    async def enqueue(self, task: Task[Any], *args: Any, **using: Any) -> Any:
        self._begin()
        return await super().enqueue(task, *args, **using)

    async def write_note(self) -> None:
        self._begin()
        await super().write_note()

    async def commit(self) -> None:
        self.connection.execute("COMMIT")

    async def rollback(self) -> None:
        self.connection.execute("ROLLBACK")

    def _begin(self) -> None:
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN")


class Alchemy(Library):
    async def write_note(self) -> None:
        self.connection.execute(sa.text(NOTE))

    async def count_notes(self) -> int:
        return int(self.connection.execute(sa.text(NOTES)).scalar_one())


class AsyncAlchemy(Library):
    is_async = True

    async def write_note(self) -> None:
        await self.connection.execute(sa.text(NOTE))

    async def count_notes(self) -> int:
        return int((await self.connection.execute(sa.text(NOTES))).scalar_one())

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()


def as_dict(cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> dict[str, Any]:
    return {column[0]: value for column, value in zip(cursor.description, row, strict=True)}


@asynccontextmanager
async def plain(path: str, **options: Any) -> AsyncIterator[Library]:
    connection = sqlite3.connect(path, **options)
    manual = options.get("isolation_level", "") is None
    try:
        yield Manual(connection, begins=True) if manual else Library(connection, begins="autocommit" in options)
    finally:
        connection.close()


@asynccontextmanager
async def odd(path: str) -> AsyncIterator[Library]:
    """Rows that are no tuples and text that is no text: what a program may have set for itself."""
    connection = sqlite3.connect(path)
    connection.row_factory, connection.text_factory = sqlite3.Row, bytes
    try:
        yield Library(connection)
    finally:
        connection.close()


@asynccontextmanager
async def aio(path: str, row_factory: Any = None, **options: Any) -> AsyncIterator[Library]:
    async with aiosqlite.connect(path, **options) as connection:
        connection.row_factory = row_factory
        yield Aiosqlite(connection, begins="autocommit" in options)


def engine_of(path: str, begin: bool = False) -> sa.Engine:
    """With `begin`, as SQLAlchemy's manual tells those who want real transactions to set it up."""
    engine = sa.create_engine(f"sqlite:///{path}")
    if begin:
        event.listen(engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


@asynccontextmanager
async def alchemy(path: str, of: Callable[[sa.Engine], Any], begin: bool = False) -> AsyncIterator[Library]:
    engine = engine_of(path, begin)
    connection = of(engine)
    try:
        yield Alchemy(connection, begins=begin)
    finally:
        connection.close()
        engine.dispose()


@asynccontextmanager
async def async_alchemy(path: str, of: Callable[[Any], Any]) -> AsyncIterator[Library]:
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    connection = of(engine)
    try:
        if isinstance(connection, AsyncConnection):
            await connection.start()
        yield AsyncAlchemy(connection)
    finally:
        await connection.close()
        await engine.dispose()


LIBRARIES: dict[str, Callable[[str], Any]] = {
    "sqlite3": plain,
    "sqlite3-immediate": lambda path: plain(path, isolation_level="IMMEDIATE"),
    "sqlite3-exclusive": lambda path: plain(path, isolation_level="EXCLUSIVE"),
    "sqlite3-manual": lambda path: plain(path, isolation_level=None),
    "sqlite3-odd": odd,
    "aiosqlite": aio,
    "aiosqlite-dict": lambda path: aio(path, row_factory=as_dict),
    "sqlalchemy-connection": lambda path: alchemy(path, lambda engine: engine.connect()),
    "sqlalchemy-begin": lambda path: alchemy(path, lambda engine: engine.connect(), begin=True),
    "sqlalchemy-session": lambda path: alchemy(path, Session),
    "sqlalchemy-scoped": lambda path: alchemy(path, lambda engine: scoped_session(sessionmaker(engine))),
    "sqlalchemy-async-connection": lambda path: async_alchemy(path, lambda engine: engine.connect()),
    "sqlalchemy-async-session": lambda path: async_alchemy(path, AsyncSession),
    "sqlalchemy-async-scoped": lambda path: async_alchemy(
        path, lambda engine: async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: None)
    ),
}
if sys.version_info >= (3, 12):
    LIBRARIES["sqlite3-autocommit-off"] = lambda path: plain(path, autocommit=False)
    LIBRARIES["aiosqlite-autocommit-off"] = lambda path: aio(path, autocommit=False)


def app_at(path: str) -> Holdfast:
    """An app whose file also holds a table of the caller's own."""
    app = Holdfast(f"sqlite:///{path}")
    app.migrate()
    own = sqlite3.connect(path)
    own.execute("CREATE TABLE note (text TEXT)")
    own.commit()
    own.close()
    return app
