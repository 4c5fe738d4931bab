"""What a database must be able to do. SQLite is one folder that does it; another is whatever passes the same tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from holdfast.store.adapters import AsyncBorrowed, Borrowed
from holdfast.store.clock import Clock
from holdfast.store.migrate import Migration
from holdfast.store.op import Make

T = TypeVar("T")

Probe = Callable[[str], None]
"""Told of every statement before it runs ("begin", the verb, "commit") and after the commit ("committed")."""


class Door(Protocol):
    """How operations reach a database: through our own connections, or through the caller's."""

    @property
    def lanes(self) -> dict[tuple[str, str], int]:
        """Lanes that are known to be committed; to be added to by whoever has committed one."""

    @property
    def abreast(self) -> bool:
        """Whether more than one can write at a time."""

    def write(self, make: Make[T]) -> T:
        """Run an operation in a transaction; returns when it is committed and synced, if the transaction is ours."""

    async def awrite(self, make: Make[T]) -> T: ...

    def read(self, make: Make[T]) -> T:
        """Run an operation that only reads."""

    async def aread(self, make: Make[T]) -> T: ...


class Watcher(Protocol):
    """Waits for commits, of other processes too. For one waiting thread; `nudge` may be called from any."""

    heard: bool
    """Whether the last wait ended because somebody committed, and not only because it was time to look."""

    def wait(self, timeout_seconds: float) -> bool:
        """True as soon as somebody else committed, or `nudge` was called; False when the time is up."""

    def nudge(self) -> None:
        """End the wait that is going on, or the next one."""

    def close(self) -> None: ...


class Store(Door, Protocol):
    """Opened on first use; safe to share between threads and across fork."""

    clock: Clock
    probe: Probe | None

    @property
    def dialect(self) -> str:
        """What kind of database it is, as in its URL."""

    @property
    def far(self) -> bool:
        """Whether every statement is a round trip, so that one is better than a few."""

    @property
    def path(self) -> str:
        """Where it is, as errors say it."""

    def read(self, make: Make[T], *, urgent: bool = False) -> T:
        """Run an operation that only reads; if it is `urgent`, not behind others: who holds leases has to come back in time."""

    def watcher(self, follows: bool = False) -> Watcher:
        """For a worker; one that `follows` jobs is also told of commits that bring no work."""

    def answer_within(self, seconds: float) -> None:
        """No write may wait longer than this for a sign of life from the server; where there is one."""

    def borrow(self, connection: Any) -> Borrowed | AsyncBorrowed:
        """Our side of a caller's connection to the same database. Nothing is opened yet."""

    def version(self) -> int:
        """The version of its layout; 0 before the first migration."""

    def migrate(self) -> list[Migration]:
        """Bring it to this version's layout; what was applied."""

    def close(self) -> None:
        """Close all connections; it can be used again afterwards."""
