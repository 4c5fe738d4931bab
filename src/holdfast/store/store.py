"""What a database must be able to do. SQLite is one folder that does it; another is whatever passes the same tests."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from holdfast.store.caller import AsyncCallerTransaction, CallerTransaction
from holdfast.store.clock import Clock
from holdfast.store.migrate import Migration
from holdfast.store.op import Operation, Probe

T = TypeVar("T")


class Database(Protocol):
    """Runs operations: through our own connections, or through the caller's."""

    def write(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction; returns when it is committed and synced, if the transaction is ours."""

    async def awrite(self, operation: Operation[T]) -> T: ...

    def read(self, operation: Operation[T]) -> T:
        """Run an operation that only reads."""

    async def aread(self, operation: Operation[T]) -> T: ...


class Watcher(Protocol):
    """Waits for commits, of other processes too. For one waiting thread; `nudge` may be called from any."""

    notified: bool
    """Whether the last wait ended because of a commit, and not only because it was time to look."""

    def wait(self, timeout_seconds: float) -> bool:
        """True as soon as another connection committed, or `nudge` was called; False when the time is up."""

    def nudge(self) -> None:
        """End the wait that is going on, or the next one."""

    def close(self) -> None: ...


class Store(Database, Protocol):
    """Opened on first use; safe to share between threads and across fork."""

    clock: Clock
    probe: Probe | None
    generation: int
    """Counts how often the database was found to be another one: restored, replaced, or failed over to a copy that is behind."""

    @property
    def dialect(self) -> str:
        """What kind of database it is, as in its URL."""

    @property
    def is_remote(self) -> bool:
        """Whether every statement is a round trip to a server."""

    @property
    def path(self) -> str:
        """Where it is, as errors show it."""

    def read(self, operation: Operation[T], *, urgent: bool = False) -> T:
        """Run an operation that only reads. An `urgent` one does not queue behind others: a worker's beat depends on it."""

    def watcher(self, follows: bool = False) -> Watcher:
        """For a worker. One that `follows` jobs is also notified of commits that bring no work."""

    def answer_within(self, seconds: float) -> None:
        """No write may wait longer than this for a sign of life from the server, where there is one."""

    def caller(self, connection: Any) -> CallerTransaction | AsyncCallerTransaction:
        """Runs operations in the transaction of a caller's connection to the same database. Nothing is opened yet."""

    def version(self) -> int:
        """The version of its layout; 0 before the first migration."""

    def migrate(self) -> list[Migration]:
        """Bring it to this version's layout; what was applied."""

    def close(self) -> None:
        """Close all connections; it can be used again afterwards."""
