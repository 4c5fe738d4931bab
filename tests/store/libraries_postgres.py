"""The libraries whose connections to PostgreSQL may be passed as `on=`."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import sqlalchemy as sa
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from holdfast import Client, Task
from tests.store.libraries import NOTE, NOTES, Alchemy, AsyncAlchemy, Library


class Psycopg(Library):
    async def count_notes(self) -> int:
        with psycopg.Cursor(self.connection) as cursor:
            row: Any = cursor.execute(NOTES).fetchone()
        return int(next(iter(row.values() if isinstance(row, dict) else row)))


class AsyncPsycopg(Library):
    is_async = True

    async def write_note(self) -> None:
        await self.connection.execute(NOTE)

    async def count_notes(self) -> int:
        return int((await (await self.connection.execute(NOTES)).fetchone())[0])

    async def commit(self) -> None:
        await self.connection.commit()

    async def rollback(self) -> None:
        await self.connection.rollback()


class Begun(Library):
    """The caller has to say when a transaction begins: it is begun before the first thing that is asked."""

    async def ask(self, client: Client, method: str, *args: Any, **kwargs: Any) -> Any:
        await self.begin()
        return await super().ask(client, method, *args, **kwargs)

    async def enqueue(self, task: Task[Any], *args: Any, **using: Any) -> Any:
        await self.begin()
        return await super().enqueue(task, *args, **using)

    async def write_note(self) -> None:
        await self.begin()
        await super().write_note()

    async def begin(self) -> None:
        raise NotImplementedError


class AutocommitPsycopg(Begun, Psycopg):
    async def begin(self) -> None:
        if self.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            self.connection.execute("BEGIN")


class Asyncpg(Begun):
    is_async = True

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.transaction: Any = None

    async def begin(self) -> None:
        if self.transaction is None:
            self.transaction = self.connection.transaction()
            await self.transaction.start()

    async def write_note(self) -> None:
        await self.begin()
        await self.connection.execute(NOTE)

    async def count_notes(self) -> int:
        return int(await self.connection.fetchval(NOTES))

    async def commit(self) -> None:
        transaction, self.transaction = self.transaction, None
        await transaction.commit()

    async def rollback(self) -> None:
        transaction, self.transaction = self.transaction, None
        await transaction.rollback()


class Django(Begun):
    """In `transaction.atomic()`, left as the caller wants it."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.atomic: Any = None

    async def begin(self) -> None:
        from django.db import transaction

        if self.atomic is None:
            self.atomic = transaction.atomic()
            self.atomic.__enter__()

    async def write_note(self) -> None:
        await self.begin()
        with self.connection.cursor() as cursor:
            cursor.execute(NOTE)

    async def count_notes(self) -> int:
        with self.connection.cursor() as cursor:
            cursor.execute(NOTES)
            return int(cursor.fetchone()[0])

    async def commit(self) -> None:
        atomic, self.atomic = self.atomic, None
        atomic.__exit__(None, None, None)

    async def rollback(self) -> None:
        self.connection.set_rollback(True)
        await self.commit()


@asynccontextmanager
async def plain(url: str, **options: Any) -> AsyncIterator[Library]:
    connection = psycopg.connect(url, **options)
    try:
        yield AutocommitPsycopg(connection) if options.get("autocommit") else Psycopg(connection)
    finally:
        connection.close()


@asynccontextmanager
async def plain_async(url: str) -> AsyncIterator[Library]:
    connection = await psycopg.AsyncConnection.connect(url)
    try:
        yield AsyncPsycopg(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def own_protocol(url: str, codecs: bool = False, **options: Any) -> AsyncIterator[Library]:
    """With codecs, as many programs set them: JSON comes and goes as Python values."""
    connection = await asyncpg.connect(url, **options)
    try:
        for kind in ("json", "jsonb") if codecs else ():
            await connection.set_type_codec(kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        yield Asyncpg(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def pooled(url: str) -> AsyncIterator[Library]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        yield Asyncpg(connection)


@asynccontextmanager
async def alchemy(url: str, of: Callable[[sa.Engine], Any]) -> AsyncIterator[Library]:
    engine = sa.create_engine(of_alchemy(url, "psycopg"))
    connection = of(engine)
    try:
        yield Alchemy(connection)
    finally:
        connection.close()
        engine.dispose()


@asynccontextmanager
async def async_alchemy(url: str, driver: str, of: Callable[[Any], Any]) -> AsyncIterator[Library]:
    engine = create_async_engine(of_alchemy(url, driver))
    connection = of(engine)
    try:
        if isinstance(connection, AsyncConnection):
            await connection.start()
        yield AsyncAlchemy(connection)
    finally:
        await connection.close()
        await engine.dispose()


@asynccontextmanager
async def in_django(url: str, proxy: bool = True, server_side_binding: bool = False) -> AsyncIterator[Library]:
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"  # the test's own loop has nothing else to do
    connection = django_connection(url, server_side_binding)
    try:
        yield Django(connection if proxy else connection._connections[connection._alias])
    finally:
        connection.close()
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


def django_connection(url: str, server_side_binding: bool = False) -> Any:
    """`django.db.connection`, led to this database."""
    import django
    from django.conf import settings

    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres"}}, USE_TZ=True)
        django.setup()
    from django.db import connection

    connection.close()
    parts = psycopg.conninfo.conninfo_to_dict(url)
    for setting, part in (("NAME", "dbname"), ("HOST", "host"), ("PORT", "port"), ("USER", "user"), ("PASSWORD", "password")):
        connection.settings_dict[setting] = str(parts.get(part) or "")
    connection.settings_dict["OPTIONS"] = {"server_side_binding": server_side_binding}
    return connection


def of_alchemy(url: str, driver: str) -> sa.URL:
    """The same database, through that driver."""
    parts = psycopg.conninfo.conninfo_to_dict(url)
    port = parts.get("port")
    return sa.URL.create(
        f"postgresql+{driver}",
        username=str(parts["user"]),
        password=str(parts["password"]) if parts.get("password") else None,
        database=str(parts["dbname"]),
        query={"host": str(parts["host"]), **({"port": str(port)} if port else {})},
    )


def scope() -> None:
    return None


POSTGRES_LIBRARIES: dict[str, Callable[[str], AbstractAsyncContextManager[Library]]] = {
    "psycopg": plain,
    "psycopg-dict": lambda url: plain(url, row_factory=dict_row),
    "psycopg-autocommit": lambda url: plain(url, autocommit=True),
    "psycopg-client-cursor": lambda url: plain(url, cursor_factory=psycopg.ClientCursor),
    "psycopg-async": plain_async,
    "asyncpg": own_protocol,
    "asyncpg-codecs": lambda url: own_protocol(url, codecs=True),
    "asyncpg-no-cache": lambda url: own_protocol(url, statement_cache_size=0),
    "asyncpg-pool": pooled,
    "sqlalchemy-connection": lambda url: alchemy(url, lambda engine: engine.connect()),
    "sqlalchemy-session": lambda url: alchemy(url, Session),
    "sqlalchemy-scoped": lambda url: alchemy(url, lambda engine: scoped_session(sessionmaker(engine))),
    "sqlalchemy-psycopg-async-connection": lambda url: async_alchemy(url, "psycopg", lambda engine: engine.connect()),
    "sqlalchemy-psycopg-async-session": lambda url: async_alchemy(url, "psycopg", AsyncSession),
    "sqlalchemy-asyncpg-connection": lambda url: async_alchemy(url, "asyncpg", lambda engine: engine.connect()),
    "sqlalchemy-asyncpg-session": lambda url: async_alchemy(url, "asyncpg", AsyncSession),
    "sqlalchemy-asyncpg-scoped": lambda url: async_alchemy(
        url, "asyncpg", lambda engine: async_scoped_session(async_sessionmaker(engine), scopefunc=scope)
    ),
    "django": in_django,
    "django-wrapper": lambda url: in_django(url, proxy=False),
    "django-server-side": lambda url: in_django(url, server_side_binding=True),
}
