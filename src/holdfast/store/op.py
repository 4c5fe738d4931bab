"""Operations are generators of statements; `drive` and `adrive` run them.

An operation yields a `Statement` and is sent its rows, or yields a list of statements that do not need each other's rows and
is sent a list with the rows of each. It does no I/O, knows no driver, and changes nothing outside itself: it may be run again
from the start. So one source serves sync and async code, a transaction that the caller owns, and tests that crash at every
statement. An error of a statement is thrown into the operation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from holdfast.errors import StoreUnavailable

T = TypeVar("T")
Row = tuple[Any, ...]


class Refused(StoreUnavailable):
    """The database works, but not for this write: it would refuse the same write again."""


class Statement(NamedTuple):
    """A verb (the name of a `.sql` file) and its parameters by name."""

    verb: str
    parameters: Mapping[str, Any] = {}


_encode = msgspec.json.Encoder().encode


def json_of(value: Any) -> str:
    """Many values as one parameter of a statement."""
    return _encode(value).decode()


Asked = Statement | list[Statement]
Op = Generator[Asked, Any, T]


class Moment(NamedTuple):
    """The time of an operation: wall clock and lease clock in microseconds, and the boot that the lease clock counts from."""

    now: int
    tick: int
    boot: str

    @property
    def clocks(self) -> dict[str, int | str]:
        """What statements about leases are given; `booted`: when this boot began, by the wall clock."""
        return {"now": self.now, "tick": self.tick, "boot": self.boot, "booted": self.now - self.tick}


Operation = Callable[[Moment], Op[T]]
"""An operation before it runs: it is given the time when its transaction has begun."""


class Alone(NamedTuple, Generic[T]):
    """An operation as a single statement, which is a transaction of its own. To run it twice must do no harm.

    If it wrote nothing, the whole operation is run instead. If it was run twice, because the first reply was lost, a unique
    violation means that the first run was committed.
    """

    statement: Statement
    value: T


class Shortcut(Generic[T]):
    """The base of operations that can be run more cheaply than in a transaction of their own."""

    is_quick = False
    """It writes little, and waits for no lock that another transaction may hold."""

    def __call__(self, moment: Moment) -> Op[T]:
        raise NotImplementedError

    def alone(self, moment: Moment) -> Alone[T] | None:
        """None: it needs a transaction."""
        return None

    @property
    def joins(self) -> bool:
        """Whether operations of this class can be run as one, because none of them can fail by itself."""
        return False

    def joined(self, others: Sequence[Any]) -> Operation[list[T]]:
        """This operation and the others as one; it returns what each of them would return."""
        raise NotImplementedError


def shortcut(operation: Operation[T]) -> Shortcut[T] | None:
    return operation if isinstance(operation, Shortcut) else None


def together(*ops: Op[Any]) -> Op[list[Any]]:
    """Operations side by side, a statement of each at a time: on a remote database their statements share round trips."""
    values: list[Any] = [None] * len(ops)
    asked: dict[int, Asked] = {}

    def advance(index: int, rows: Any) -> None:
        try:
            asked[index] = next(ops[index]) if rows is None else ops[index].send(rows)
        except StopIteration as end:
            asked.pop(index, None)
            values[index] = end.value

    for index in range(len(ops)):
        advance(index, None)
    while asked:
        groups = {index: [each] if isinstance(each, Statement) else each for index, each in asked.items()}
        answers = iter((yield [statement for group in groups.values() for statement in group]))
        for index, group in groups.items():
            rows = [next(answers) for _ in group]
            advance(index, rows[0] if isinstance(asked[index], Statement) else rows)
    return values


Probe = Callable[[str], None]
"""Where tests look into a store: called before every statement ("begin", the verb, "commit") and after the commit."""


class Probed(Protocol):
    probe: Probe | None


class Connection(Protocol):
    def run(self, statement: Statement) -> list[Row]: ...

    def run_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """Statements that do not need each other's rows; on a remote database they share a round trip."""


class AsyncConnection(Protocol):
    def run(self, statement: Statement) -> Awaitable[list[Row]]: ...
    def run_many(self, statements: Sequence[Statement]) -> Awaitable[list[list[Row]]]: ...


def drive(op: Op[T], connection: Connection) -> T:
    try:
        asked = next(op)
        while True:
            try:
                rows: Any = connection.run(asked) if isinstance(asked, Statement) else connection.run_many(asked)
            except BaseException as error:
                asked = op.throw(error)
            else:
                asked = op.send(rows)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        op.close()


async def adrive(op: Op[T], connection: AsyncConnection) -> T:
    try:
        asked = next(op)
        while True:
            try:
                rows: Any = await (connection.run(asked) if isinstance(asked, Statement) else connection.run_many(asked))
            except BaseException as error:
                asked = op.throw(error)
            else:
                asked = op.send(rows)
    except StopIteration as end:
        value: T = end.value
        return value
    finally:
        op.close()
