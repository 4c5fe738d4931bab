"""All that one database remembers, brought to another: jobs, events, history and keys, under their own numbers.

Nobody may write to the source meanwhile, and no job may be running. Both sides are read in the order of their keys and the
target is made equal, a batch at a time: so a move that was cut off is begun again and goes on, and one that is done and
begun again finds nothing to do. At the end both are read once more and compared by count and checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from holdfast.errors import Conflict, StoreUnavailable
from holdfast.store.op import Row
from holdfast.store.sqlite import transfer as sqlite
from holdfast.store.sqlite.driver import SqliteStore
from holdfast.store.store import Store
from holdfast.store.tables import TABLES, Table, table_named

BATCH: Final = 1_000
ALIVE_SECONDS: Final = 60


COPIED: Final = tuple(table for table in TABLES if table.transferred)


class Endpoint(Protocol):
    """One of the two databases, as a transfer needs it."""

    shown: str

    def origin(self) -> str:
        """Tells this database from every other, whatever it is called."""

    def frozen(self) -> AbstractContextManager[None]:
        """Within it no other connection can write to this database."""

    def busy(self, alive_since: int) -> tuple[int, list[str]]:
        """How many jobs are running, and which workers have given a sign of life since then."""

    def clock(self) -> int: ...

    def count(self, table: Table) -> int: ...

    def rows(self, table: Table, after: Row | None, limit: int, upto: Row | None = None) -> list[Row]:
        """In the order of the key; those behind `after`, and no further than `upto`."""

    def begun(self) -> str | None:
        """The origin of the move into this one that has not ended yet."""

    def begin(self, origin: str) -> None: ...

    def write(self, table: Table, upsert: Sequence[Row], delete: Sequence[Row]) -> None:
        """In one transaction."""

    def end(self, last_seq: int, last_lane: int) -> None:
        """New jobs get numbers above these from now on, and the move is over."""


class Transferred(NamedTuple):
    counts: dict[str, int]
    written: int
    checksum: str


Tell = Callable[[str, int, int], None]
"""Called with a table, how many of its rows are equal now, and how many there are."""


def transfer(source: Endpoint, target: Endpoint, tell: Tell | None = None) -> Transferred:
    with source.frozen():
        _check(source, target)
        origin = source.origin()
        target.begin(origin)
        counts = {table.name: source.count(table) for table in COPIED}
        written = 0
        for table in COPIED:
            for done, changed in _level(source, target, table):
                written += changed
                if tell is not None:
                    tell(table.name, done, counts[table.name])
        sums = checksum(source), checksum(target)
        if sums[0] != sums[1]:
            raise StoreUnavailable(
                f"{target.shown} is not equal to {source.shown} after the move ({_first_difference(source, target)}); "
                "the source is as it was: run the move again"
            )
        target.end(_last(source, "job_spec"), _last(source, "lane"))
    return Transferred(counts, written, sums[0])


def checksum(side: Endpoint) -> str:
    """Over every row that is moved, in order."""
    whole = hashlib.sha256()
    for table in COPIED:
        whole.update(table.name.encode())
        for batch in _batches(side, table):
            whole.update(_encode(batch))
    return whole.hexdigest()


def _check(source: Endpoint, target: Endpoint) -> None:
    if source.origin() == target.origin():
        raise Conflict(f"{source.shown} and {target.shown} are the same database; name two")
    running, workers = source.busy(source.clock() - ALIVE_SECONDS * 1_000_000)
    if running:
        raise Conflict(f"{running} job(s) of {source.shown} are running; stop its workers, which hand them back, and try again")
    if workers:
        raise Conflict(
            f"worker {workers[0]} of {source.shown} was alive within the last {ALIVE_SECONDS} seconds; "
            "stop all workers, and try again"
        )
    begun = target.begun()
    if begun is not None and begun != source.origin():
        raise Conflict(
            f"{target.shown} holds part of another database that is being moved there; end that move, or use an empty one"
        )
    if begun is None and (jobs := target.count(table_named("job_spec"))):
        raise Conflict(f"{target.shown} has {jobs:,} job(s) already; a move needs an empty database")


def _level(source: Endpoint, target: Endpoint, table: Table) -> Iterator[tuple[int, int]]:
    """Make the target's table equal; after each batch: how many rows are equal, and how many of them had to be written."""
    after: Row | None = None
    done = 0
    while True:
        wanted = source.rows(table, after, BATCH)
        upto = table.key_of(wanted[-1]) if len(wanted) == BATCH else None
        changed = 0
        while True:
            # The target may have more rows up to there than the source: some at a time.
            found = target.rows(table, after, BATCH, upto)
            reached = table.key_of(found[-1]) if len(found) == BATCH else upto
            part = [row for row in wanted if reached is None or table.key_of(row) <= reached]
            changed += _equal(target, table, part, found)
            wanted, done, after = wanted[len(part) :], done + len(part), reached
            if reached == upto:
                break
        yield done, changed
        if upto is None:
            return


def _equal(target: Endpoint, table: Table, wanted: Sequence[Row], found: Sequence[Row]) -> int:
    have = {table.key_of(row): row for row in found}
    upsert = [row for row in wanted if have.pop(table.key_of(row), None) != row]
    if upsert or have:
        target.write(table, upsert, list(have))
    return len(upsert) + len(have)


def _batches(side: Endpoint, table: Table) -> Iterator[list[Row]]:
    after: Row | None = None
    while batch := side.rows(table, after, BATCH):
        yield batch
        after = table.key_of(batch[-1])


def _first_difference(source: Endpoint, target: Endpoint) -> str:
    for table in COPIED:
        counts = source.count(table), target.count(table)
        if counts[0] != counts[1]:
            return f"{table.name}: {counts[0]:,} rows there, {counts[1]:,} here"
    return "the same number of rows, but not the same rows"


def _last(side: Endpoint, name: str) -> int:
    last = 0
    for batch in _batches(side, table_named(name)):
        last = max(last, batch[-1][0])
    return last


def _encode(batch: list[Row]) -> bytes:
    values: list[Any] = [list(row) for row in batch]
    return msgspec.json.encode(values)


def endpoint_of(store: Store) -> AbstractContextManager[Endpoint]:
    if isinstance(store, SqliteStore):
        return sqlite.opened(store)
    from holdfast.store.postgres import transfer as postgres
    from holdfast.store.postgres.driver import PostgresStore

    assert isinstance(store, PostgresStore)
    return postgres.opened(store)
