"""Operations are generators of statements; these two functions drive them.

An operation yields a `Statement` and is sent its rows; it does no I/O and knows no driver. So one source serves sync and
async code, a transaction that the caller owns, and tests that crash at every statement.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]


class Statement(NamedTuple):
    """A verb (the name of a `.sql` file) and its parameters, or many rows of them in the file's order."""

    verb: str
    parameters: Mapping[str, Any] = {}
    rows: Sequence[Row] | None = None


Op = Generator[Statement, list[Row], T]

TOGETHER: Final = "together"
"""The verb of several statements that do not wait for each other's answers; each row has the rows of one of them."""


class Moment(NamedTuple):
    """The time of an operation: wall clock and lease clock in microseconds, and the boot that the latter counts from."""

    now: int
    tick: int
    boot: str


Make = Callable[[Moment], Op[T]]
"""An operation that is told the time when its transaction has begun, not when its caller began to wait for it."""


class Single(Generic[T]):
    """An operation of one statement, which is a transaction by itself. Its caller finds out what a lost answer has left behind.

    tells  Whether followers of jobs care for what it did.
    """

    def __init__(self, make: Make[T], tells: Callable[[T], bool]) -> None:
        self._make, self.tells = make, tells

    def __call__(self, moment: Moment) -> Op[T]:
        return self._make(moment)


def together(*ops: Op[Any]) -> Op[list[Any]]:
    """Operations side by side, a statement of each in turn: where statements have far to go, these travel together."""
    values: list[Any] = [None] * len(ops)
    going: dict[int, Statement] = {}

    def go_on(index: int, rows: list[Row] | None) -> None:
        try:
            going[index] = next(ops[index]) if rows is None else ops[index].send(rows)
        except StopIteration as end:
            going.pop(index, None)
            values[index] = end.value

    for index in range(len(ops)):
        go_on(index, None)
    while going:
        answers = yield Statement(TOGETHER, {"statements": tuple(going.values())})
        for index, (rows,) in zip(list(going), answers, strict=True):
            go_on(index, rows)
    return values


class Connection(Protocol):
    def run(self, statement: Statement) -> list[Row]: ...


class AsyncConnection(Protocol):
    def run(self, statement: Statement) -> Awaitable[list[Row]]: ...


def drive(op: Op[T], connection: Connection) -> T:
    try:
        statement = next(op)
        while True:
            statement = op.send(connection.run(statement))
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        op.close()


async def adrive(op: Op[T], connection: AsyncConnection) -> T:
    try:
        statement = next(op)
        while True:
            statement = op.send(await connection.run(statement))
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        op.close()
