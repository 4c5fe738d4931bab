"""The libraries that speak PostgreSQL: how each runs a statement on the caller's connection."""

from __future__ import annotations

import asyncio
import re
import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Final

from psycopg import AsyncCursor, Cursor
from psycopg.rows import tuple_row

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
from holdfast.store.op import Op, Row, Statement
from holdfast.store.postgres.notifier import CHANNELS
from holdfast.store.postgres.schema import verbs
from holdfast.store.postgres.url import SEARCH_PATH
from holdfast.store.sql import Sql, Values, Wakes, in_schema
from holdfast.store.store import Database

SUPPORTED: Final = (
    "an open connection of psycopg or asyncpg, SQLAlchemy's Connection, Session, AsyncConnection or AsyncSession, "
    "or django.db.connection"
)
DRIVERS: Final = ("psycopg", "psycopg_async", "asyncpg")
LEAVE: Final = "leave"
MARK, BACK, KEEP = Statement("mark"), Statement("back"), Statement("keep")
BEGIN, COMMIT, ARRIVE, CLOCK = Statement("begin"), Statement("commit"), Statement("arrive"), Statement("clock")
_CONTROL: Final = {
    "begin": "BEGIN",
    "commit": "COMMIT",
    "mark": "SAVEPOINT holdfast_on",
    "back": "ROLLBACK TO SAVEPOINT holdfast_on",
    "keep": "RELEASE SAVEPOINT holdfast_on",
    "arrive": """
SELECT pg_catalog.current_setting('search_path'), pg_catalog.set_config('search_path', '{path}', true),
       (SELECT pg_catalog.max(version) FROM {schema}.migration),
       (SELECT pg_catalog.json_agg(mark)::pg_catalog.text FROM {schema}.identity),
       pg_catalog.current_setting('transaction_isolation')
""".replace("{path}", SEARCH_PATH),
    "clock": "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
}
_JSON: Final = re.compile(r"(\$\d+)::(?=jsonb?\b)")
_CAST: Final = re.compile(r"(%\(\w+\)s)(?=::)")


class Dialect:
    """How a driver takes parameters: `%(name)s` and a dict, or `$1` and a tuple."""

    def __init__(self, schema: str, numbered: bool) -> None:
        self._schema, self._numbered, self._verbs = schema, numbered, _verbs(schema, numbered)
        self._wakes: Wakes | None = None
        """Which processes wait for what was written since the last notification."""

    def prepared(self, statement: Statement) -> tuple[str, Any]:
        if statement.verb == LEAVE:
            return self._leave(statement.parameters["path"])
        control = _CONTROL.get(statement.verb)
        if control is not None:
            return in_schema(control, self._schema), None
        text, values, wakes = self._verbs[statement.verb]
        self._wakes = wakes if self._wakes is None or wakes == "workers" else self._wakes
        return text, values(statement.parameters) if self._numbered else dict(statement.parameters)

    def _leave(self, path: str) -> tuple[str, Any]:
        """Give the caller's names back, and notify of what was written; that is sent when the caller commits."""
        wakes, self._wakes = self._wakes, None
        notify = "" if wakes is None else f", pg_catalog.pg_notify('{CHANNELS[wakes]}', '')"
        text = f"SELECT pg_catalog.set_config('search_path', {'$1' if self._numbered else '%(path)s'}, true){notify}"
        return text, (path,) if self._numbered else {"path": path}


@cache
def _verbs(schema: str, numbered: bool) -> dict[str, tuple[str, Values, Wakes | None]]:
    written = _numbered if numbered else _named
    return {verb: (written(sql), sql.values, sql.wakes) for verb, sql in verbs(schema).items()}


def _numbered(sql: Sql) -> str:
    """A program may have told asyncpg to encode what it passes as JSON; what we pass is JSON already, so it travels as text."""
    return _JSON.sub(r"\1::text::", sql.positional)


def _named(sql: Sql) -> str:
    """Where the client writes the values into the text, as in Django, `-1::bigint` would cast first and negate then."""
    return _CAST.sub(r"(\1)", sql.named)


def link_to(on: Any, schema: str) -> ServerLink | AsyncServerLink:
    """The link that fits."""
    psycopg = class_of(on, "psycopg", "Connection", "AsyncConnection")
    if psycopg is not None:
        return Psycopg(on, Dialect(schema, False)) if psycopg == "Connection" else AsyncPsycopg(on, Dialect(schema, False))
    if class_of(on, "asyncpg", "Connection", "PoolConnectionProxy"):
        return Asyncpg(on, Dialect(schema, True))
    if class_of(on, "django", "ConnectionProxy", "BaseDatabaseWrapper") and hasattr(on, "vendor"):
        _check_dialect(on.vendor, "django", ("django",))
        return Django(on, Dialect(schema, False))
    alchemy = class_of(on, "sqlalchemy", *ALCHEMY_SYNC, *ALCHEMY_ASYNC)
    if alchemy is None:
        raise refused(on, SUPPORTED)
    spoken = alchemy_dialect(on)
    _check_dialect(spoken.name, spoken.driver, DRIVERS)
    dialect, session = Dialect(schema, spoken.driver == "asyncpg"), is_session(alchemy)
    return Alchemy(on, dialect, session) if alchemy in ALCHEMY_SYNC else AsyncAlchemy(on, dialect, session)


def _check_dialect(name: str, driver: str, drivers: tuple[str, ...]) -> None:
    if name != "postgresql" or driver not in drivers:
        raise SettingError(
            f"on= speaks {name}+{driver}, and this app's store is PostgreSQL; use postgresql+psycopg or postgresql+asyncpg"
        )


class ServerLink(SyncLink):
    def __init__(self, on: Any, dialect: Dialect) -> None:
        self._on, self._dialect = on, dialect
        self.lanes: Database | None = None
        """Where a new lane is committed at once; None: it is part of the caller's transaction."""

    def run(self, statement: Statement) -> list[Row]:
        if self.lanes is not None and statement.verb == "add_lane":
            return self.lanes.write(lambda _: _only(statement))
        return self.execute(*self._dialect.prepared(statement))

    @abstractmethod
    def execute(self, sql: str, parameters: Any) -> list[Row]: ...


class AsyncServerLink(AsyncLink):
    def __init__(self, on: Any, dialect: Dialect) -> None:
        self._on, self._dialect = on, dialect
        self.lanes: Database | None = None

    async def run(self, statement: Statement) -> list[Row]:
        if self.lanes is not None and statement.verb == "add_lane":
            return await self.lanes.awrite(lambda _: _only(statement))
        return await self.execute(*self._dialect.prepared(statement))

    @abstractmethod
    async def execute(self, sql: str, parameters: Any) -> list[Row]: ...


def _only(statement: Statement) -> Op[list[Row]]:
    rows: list[Row] = yield statement
    return rows


_locks: Final[weakref.WeakKeyDictionary[Any, Any]] = weakref.WeakKeyDictionary()
"""One for each connection that threads, or tasks, may share."""


def _check_answers(connection: Any) -> None:
    """In a pipeline nothing is answered, and no error told, before the caller asks for it."""
    if connection.pgconn.pipeline_status:
        raise SettingError("on= is a connection in pipeline mode; use it after the `with connection.pipeline():` block")


class Psycopg(ServerLink):
    """Through a cursor of our own: the connection's may give rows that are no tuples."""

    def execute(self, sql: str, parameters: Any) -> list[Row]:
        _check_answers(self._on)
        with Cursor(self._on, row_factory=tuple_row) as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description is not None else []

    def exclusively(self) -> AbstractContextManager[Any]:
        lock: AbstractContextManager[Any] = _locks.setdefault(self._on, threading.RLock())
        return lock


class AsyncPsycopg(AsyncServerLink):
    async def execute(self, sql: str, parameters: Any) -> list[Row]:
        _check_answers(self._on)
        async with AsyncCursor(self._on, row_factory=tuple_row) as cursor:
            await cursor.execute(sql, parameters)
            return await cursor.fetchall() if cursor.description is not None else []

    def exclusively(self) -> AbstractAsyncContextManager[Any]:
        lock: AbstractAsyncContextManager[Any] = _locks.setdefault(self._on, asyncio.Lock())
        return lock


class Asyncpg(AsyncServerLink):
    async def execute(self, sql: str, parameters: Any) -> list[Row]:
        return [tuple(row) for row in await self._on.fetch(sql, *(parameters or ()))]

    def exclusively(self) -> AbstractAsyncContextManager[Any]:
        """What a pool gives is a stand-in for the connection; one that was given back stands for nothing."""
        connection = getattr(self._on, "_con", self._on)
        lock: AbstractAsyncContextManager[Any] = nullcontext()
        return lock if connection is None else _locks.setdefault(connection, asyncio.Lock())


class Django(ServerLink):
    def execute(self, sql: str, parameters: Any) -> list[Row]:
        with self._on.cursor() as cursor:
            cursor.execute(sql, parameters)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description is not None else []


class Alchemy(ServerLink):
    def __init__(self, on: Any, dialect: Dialect, session: bool) -> None:
        super().__init__(on, dialect)
        self._connection: Callable[[], Any] = on.connection if session else lambda: on

    def execute(self, sql: str, parameters: Any) -> list[Row]:
        return alchemy_rows(self._connection().exec_driver_sql(sql, parameters))


class AsyncAlchemy(AsyncServerLink):
    def __init__(self, on: Any, dialect: Dialect, session: bool) -> None:
        super().__init__(on, dialect)
        self._session = session

    async def execute(self, sql: str, parameters: Any) -> list[Row]:
        connection = await self._on.connection() if self._session else self._on
        return alchemy_rows(await connection.exec_driver_sql(sql, parameters))
