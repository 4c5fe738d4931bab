"""The connections we can speak through: what a caller may pass as `on=`.

The caller's transaction stays the caller's: nothing is committed here. Each operation runs inside a savepoint, so that one that
fails leaves nothing of its own behind, and all that the caller wrote before. How that is done, once for sync and async, is the
database's `Rules`; how a statement is run is the library's link. Both are beside the database's driver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from typing import Any, Final, Protocol, TypeVar

from holdfast.errors import SettingError
from holdfast.store.op import Make, Moment, Op, Row, Statement

T = TypeVar("T")
MIGRATE: Final = "call app.migrate() when your program starts, or run `holdfast migrate`"


class Rules(Protocol):
    """How an operation runs inside somebody else's transaction, on one kind of database."""

    def inside(self, make: Make[T], moment: Moment) -> Op[T]:
        """An operation that writes, undone by itself if it fails."""

    def looking(self, make: Make[T], moment: Moment) -> Op[T]:
        """An operation that only reads."""

    def translated(self, error: Exception) -> Exception:
        """A database error as one of ours; anything else as it is."""


class Link(Protocol):
    """A library's connection, sync."""

    def run(self, statement: Statement) -> list[Row]: ...
    def alone(self) -> AbstractContextManager[Any]:
        """Held while one operation writes: those who share a connection must not mix their savepoints."""


class AsyncLink(Protocol):
    """A library's connection, async."""

    def run(self, statement: Statement) -> Awaitable[list[Row]]: ...
    def alone(self) -> AbstractAsyncContextManager[Any]: ...


class Borrowed:
    """A caller's connection, sync: `write` and `read` run inside the caller's transaction."""

    def __init__(self, link: Link, rules: Rules) -> None:
        self._link, self._rules = link, rules

    def write(self, make: Make[T], moment: Moment) -> T:
        with self._link.alone():
            return self._drive(self._rules.inside(make, moment))

    def read(self, make: Make[T], moment: Moment) -> T:
        return self._drive(self._rules.looking(make, moment))

    def _drive(self, op: Op[T]) -> T:
        """As `op.drive`, but an error is thrown into the operation, which then undoes what it did."""
        with _translating(self._rules):
            try:
                statement = next(op)
                while True:
                    try:
                        rows = self._link.run(statement)
                    except BaseException as error:
                        statement = op.throw(error)
                    else:
                        statement = op.send(rows)
            except StopIteration as end:
                value: T = end.value
                return value


class AsyncBorrowed:
    """A caller's connection, async."""

    def __init__(self, link: AsyncLink, rules: Rules) -> None:
        self._link, self._rules = link, rules

    async def write(self, make: Make[T], moment: Moment) -> T:
        async with self._link.alone():
            return await self._drive(self._rules.inside(make, moment))

    async def read(self, make: Make[T], moment: Moment) -> T:
        return await self._drive(self._rules.looking(make, moment))

    async def _drive(self, op: Op[T]) -> T:
        with _translating(self._rules):
            try:
                statement = next(op)
                while True:
                    try:
                        rows = await self._link.run(statement)
                    except BaseException as error:
                        statement = op.throw(error)
                    else:
                        statement = op.send(rows)
            except StopIteration as end:
                value: T = end.value
                return value


@contextmanager
def _translating(rules: Rules) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        told = rules.translated(error)
        if told is error:
            raise
        raise told from error


# What an object is, told by the names of its classes: no library is imported to find out

ALCHEMY_SYNC: Final = ("Connection", "Session", "scoped_session")
ALCHEMY_ASYNC: Final = ("AsyncConnection", "AsyncSession", "async_scoped_session")


def class_of(on: object, library: str, *names: str) -> str | None:
    """The first of these classes of a library that the object is of."""
    for cls in type(on).__mro__:
        if cls.__name__ in names and cls.__module__.partition(".")[0] == library:
            return cls.__name__
    return None


def is_session(name: str) -> bool:
    return name.lower().endswith("session")


def refused(on: object, supported: str) -> SettingError:
    return SettingError(f"on= cannot be a {type(on).__module__}.{type(on).__qualname__}; pass {supported}")


def alchemy_dialect(on: Any) -> Any:
    try:
        return (on.get_bind() if hasattr(on, "get_bind") else on).dialect
    except Exception as error:
        line = str(error).partition("\n")[0]
        raise SettingError(f"on= is a session without one database of its own ({line}); pass session.connection(...)") from error


def alchemy_rows(result: Any) -> list[Row]:
    return [tuple(row) for row in result.fetchall()] if result.returns_rows else []
