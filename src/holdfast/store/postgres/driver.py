"""One PostgreSQL database for many threads, processes and machines.

A few connections write, each with a group of callers that share its transactions; a few read, and one notifies of commits. Quick
operations, which wait for no lock, have a writer of their own: an operation that waits for a row holds up none of them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import psycopg

from holdfast.errors import StoreUnavailable
from holdfast.store.caller import AsyncCallerTransaction, CallerTransaction
from holdfast.store.clock import Clock
from holdfast.store.commits import Commits
from holdfast.store.fork import ForkAware
from holdfast.store.migrate import Migration, pending
from holdfast.store.op import Moment, Operation, Probe, drive, shortcut
from holdfast.store.pool import Pool, Threads
from holdfast.store.postgres.bounded import MARGIN_SECONDS, Bounded, Timeout
from holdfast.store.postgres.caller import caller_transaction
from holdfast.store.postgres.clock import ServerClock
from holdfast.store.postgres.connection import Connection, connect_through, opened
from holdfast.store.postgres.errors import explain, is_lost, is_mixed_up, is_stale_plan
from holdfast.store.postgres.listen import Listener
from holdfast.store.postgres.notifier import CHANNEL, Notifier
from holdfast.store.postgres.schema import PACKAGE, adopt_history, apply_pending, is_restored, version_of
from holdfast.store.postgres.url import CALL_SECONDS, LOCK_SECONDS, location_of
from holdfast.store.postgres.writer import Patience, Writer
from holdfast.store.sql import Wakes

log = logging.getLogger("holdfast.store")

T = TypeVar("T")
WRITERS: Final = 4
READERS_MAX: Final = 8


class PostgresStore(ForkAware):
    """The store behind a `postgresql://` URL. Opened on first use; safe to share between threads and across fork."""

    dialect: Final = "postgresql"
    is_remote: Final = True

    def __init__(self, url: str, *, clock: Clock | None = None, listen_url: str | None = None, writers: int = WRITERS) -> None:
        self.location = location_of(url)
        self._listen_location = None if listen_url is None else location_of(listen_url)
        self.path = self.location.shown
        self.clock: Clock = clock or ServerClock()
        self.probe: Probe | None = None
        self.generation = 0
        self._threads = Threads(writers + READERS_MAX)
        self._writers = [Writer(self, self._threads.submit) for _ in range(writers)]
        self._readers = Pool(self.open, READERS_MAX, (psycopg.Error,), self._is_usable)
        self._notifier = Notifier(self._connect)
        self._inherited: list[Any] = []
        self._prepares = True
        self._silent_at = -math.inf
        self._answer_seconds = LOCK_SECONDS + MARGIN_SECONDS  # what waits for a row is told by the server first
        self._reset()
        super().__init__()

    def _reset(self) -> None:
        self._opening = threading.Lock()
        self._prepared = self._reached = False
        self._identity: str | None = None

    def after_fork_in_child(self) -> None:
        """The parent's connections are kept, unused and unclosed, for to close one would end it there too."""
        kept = [writer.forget() for writer in self._writers]
        self._inherited.append((kept, self._notifier.forget(), self._readers.forget(), self._threads.forget()))
        self._reset()

    @property
    def commits(self) -> Commits:
        """Those who wait for the first of the writers."""
        return self._writers[0].commits

    # Writing

    def write(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction; returns when it is committed and synced."""
        return self._writer_for(operation).commits.write(operation)

    async def awrite(self, operation: Operation[T]) -> T:
        return await self._writer_for(operation).commits.awrite(operation)

    def _writer_for(self, operation: Operation[Any]) -> Writer:
        first, *others = self._writers
        short = shortcut(operation)
        if not others or (short is not None and short.is_quick):
            return first
        idle = next((writer for writer in others if writer.is_idle()), None)
        return idle or min(others, key=lambda writer: len(writer.commits.waiting))

    # Reading

    def read(self, operation: Operation[T], *, urgent: bool = False) -> T:
        """Run an operation that only reads; again, if its connection was lost."""
        most = None if urgent else READERS_MAX
        try:
            with self._explained():
                return self._patiently(lambda connection: drive(operation(self.moment()), connection), most)
        except TimeoutError:
            raise StoreUnavailable(f"{self.path}: {READERS_MAX} others read, and none of them ended in time; try again") from None

    def _patiently(self, act: Callable[[Connection], T], most: int | None = None) -> T:
        patience = Patience()
        while True:
            try:
                return self._with_reader(act, most)
            except psycopg.Error as error:
                if is_mixed_up(error):
                    self.distrust_plans()
                if isinstance(error, Timeout):
                    self.distrust_older()
                again = is_stale_plan(error) or (is_lost(error) and self._reached)
                if not (again and patience.pause()):
                    raise

    def _with_reader(self, act: Callable[[Connection], T], most: int | None) -> T:
        with self._readers.lent(most, CALL_SECONDS) as connection:
            if isinstance(self.clock, ServerClock) and self.clock.is_stale():
                connection.read_clock(self.clock)
            with connection.raw.settled():
                return act(connection)

    def _is_usable(self, connection: Connection) -> bool:
        return not (connection.raw.closed or self.is_distrusted(connection))

    async def aread(self, operation: Operation[T]) -> T:
        return await asyncio.wrap_future(self._threads.submit(lambda: self.read(operation)))

    def watcher(self, follows: bool = False) -> Listener:
        """Waits for commits of other processes and of this one; unless it `follows`, not for those that bring no work."""
        return Listener(self._connect_to_listen, self._ask, follows)

    def _ask(self, word: str) -> None:
        """Through a connection that others use: a word that comes back proves that theirs would."""
        self._patiently(lambda connection: connection.raw.execute("SELECT pg_catalog.pg_notify($1, $2)", (CHANNEL, word)))

    def caller(self, connection: Any) -> CallerTransaction | AsyncCallerTransaction:
        """Runs operations in the transaction of a caller's connection to the same database. Nothing is opened yet."""
        return caller_transaction(connection, self.location, self.clock, self._identity, self)

    # Opening

    def version(self) -> int:
        """The version of its layout; 0 before the first migration."""
        with self._explained():
            raw = self._connect()
            try:
                with raw.settled():
                    return version_of(raw, self.location.schema)
            finally:
                raw.close()

    def migrate(self) -> list[Migration]:
        """Bring it to this version's layout; what was applied."""
        with self._opening, self._explained():
            return self._prepare()

    def close(self) -> None:
        """Waits for the commits that go on. Reads that go on close their connections when they end."""
        for writer in self._writers:
            writer.close()
        self._notifier.close()
        self._readers.close()
        self._threads.close()
        self._prepared, self._identity = False, None

    def open(self, answer_seconds: float | None = None) -> Connection:
        """A new connection to a database that is known to be of this version's layout."""
        with self._opening:
            if not self._prepared:
                self._prepare()
                self._prepared = True
        raw = self._connect()
        try:
            connection = opened(raw, self.location, self, self.clock)
            raw.bound_seconds = answer_seconds or Bounded.bound_seconds
            self._identity = connection.identity
            return connection
        except BaseException:
            raw.close()
            raise

    def _prepare(self) -> list[Migration]:
        raw = self._connect()
        try:
            with raw.settled():
                version = version_of(raw, self.location.schema)
                restored = version > 0 and is_restored(raw, self.location.schema)
            if restored:
                self._adopt_history(raw)
            if not pending(PACKAGE, version, self.path):
                return []
            return apply_pending(raw, self.location.schema, self.path, self.clock.now(), self.tell)
        finally:
            raw.close()

    def _adopt_history(self, raw: Bounded) -> None:
        try:
            adopt_history(raw, self.location.schema)
        except psycopg.errors.InsufficientPrivilege:
            log.warning(
                "%s was restored from a dump of another server, and its feed lacks what happened there; "
                "run `holdfast migrate` as the owner of the tables",
                self.path,
            )

    def _connect(self) -> Bounded:
        raw, self.location = connect_through(self.location, self._prepares)
        self._reached = True
        raw.bound_seconds = self._answer_seconds
        return raw

    def _connect_to_listen(self) -> Bounded:
        if self._listen_location is None:
            raw, self.location = connect_through(self.location, prepares=False)
        else:
            raw, self._listen_location = connect_through(self._listen_location, prepares=False)
        return raw

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise explain(error, self.path) from error

    # What its writers ask of it

    def moment(self) -> Moment:
        return Moment(self.clock.now(), self.clock.tick(), self.clock.boot())

    def tell(self, what: str) -> None:
        if self.probe is not None:
            self.probe(what)

    def take_over_notification(self) -> bool:
        """Whether the caller must notify workers itself, in the packet of its statement."""
        return self._notifier.take_over()

    def notify(self, wakes: Wakes) -> None:
        self._notifier.request(wakes)

    def knows_server(self) -> bool:
        """Whether it was reached before, so that it is worth waiting for it to come back."""
        return self._reached

    def distrust_plans(self) -> None:
        """There is a pooler in between that mixes up sessions: do without prepared statements and settings of the session."""
        self._prepares = False
        self.location = self.location._replace(pooled=True)
        self.distrust_older()

    def distrust_older(self) -> None:
        """A connection went silent: those that were opened before it may have, too. Each would cost as long again."""
        self._silent_at = time.monotonic()

    def is_distrusted(self, connection: Connection) -> bool:
        return connection.opened_at < self._silent_at

    def answer_within(self, seconds: float) -> None:
        """No write waits longer than this for any sign of the server; the shortest that anybody asked for counts."""
        self._answer_seconds = min(self._answer_seconds, seconds)

    def open_writer(self) -> Connection:
        return self.open(self._answer_seconds)
