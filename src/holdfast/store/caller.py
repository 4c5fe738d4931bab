"""Operations inside a transaction that the caller owns: what `on=` takes.

Nothing is committed here. Each operation runs inside a savepoint, so that one that fails leaves nothing of its own behind, and
all that the caller wrote before. How that is done, once for sync and async, is the database's `Rules`; how a statement is run is
the library's link. Both are beside the database's driver, in `caller` and `libraries`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol, TypeVar

from holdfast.errors import SettingError
from holdfast.store.op import Moment, Op, Operation, Row, Statement, adrive, drive

T = TypeVar("T")
MIGRATE: Final = "call app.migrate() when your program starts, or run `holdfast migrate`"


class Rules(Protocol):
    """How an operation runs inside a transaction that is not ours, on one kind of database."""

    def writing(self, operation: Operation[T], moment: Moment) -> Op[T]:
        """An operation that writes, undone by itself if it fails."""

    def reading(self, operation: Operation[T], moment: Moment) -> Op[T]: ...

    def translated(self, error: Exception) -> Exception:
        """A database error as one of ours; anything else as it is."""


class SyncLink(ABC):
    """A library's connection, sync."""

    @abstractmethod
    def run(self, statement: Statement) -> list[Row]: ...

    def run_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return [self.run(statement) for statement in statements]

    def exclusively(self) -> AbstractContextManager[Any]:
        """Held while one operation runs: threads that share a connection must not mix their savepoints. Most do not share."""
        return nullcontext()


class AsyncLink(ABC):
    """A library's connection, async."""

    @abstractmethod
    async def run(self, statement: Statement) -> list[Row]: ...

    async def run_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return [await self.run(statement) for statement in statements]

    def exclusively(self) -> AbstractAsyncContextManager[Any]:
        return nullcontext()


class CallerTransaction:
    """A caller's connection, sync: `write` and `read` run inside the caller's transaction."""

    def __init__(self, link: SyncLink, rules: Rules) -> None:
        self._link, self._rules = link, rules

    def write(self, operation: Operation[T], moment: Moment) -> T:
        with self._link.exclusively(), _translating(self._rules):
            return drive(self._rules.writing(operation, moment), self._link)

    def read(self, operation: Operation[T], moment: Moment) -> T:
        with self._link.exclusively(), _translating(self._rules):
            return drive(self._rules.reading(operation, moment), self._link)


class AsyncCallerTransaction:
    """A caller's connection, async."""

    def __init__(self, link: AsyncLink, rules: Rules) -> None:
        self._link, self._rules = link, rules

    async def write(self, operation: Operation[T], moment: Moment) -> T:
        async with self._link.exclusively():
            with _translating(self._rules):
                return await adrive(self._rules.writing(operation, moment), self._link)

    async def read(self, operation: Operation[T], moment: Moment) -> T:
        async with self._link.exclusively():
            with _translating(self._rules):
                return await adrive(self._rules.reading(operation, moment), self._link)


@contextmanager
def _translating(rules: Rules) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        translated = rules.translated(error)
        if translated is error:
            raise
        raise translated from error


# What an object is, by the names of its classes: no library is imported to find out

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
