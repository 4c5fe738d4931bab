"""`doctor` for a PostgreSQL server: what slows a queue down there, and what to do about it.

The worst is quiet: a transaction that is left open keeps every row that died since, and a queue leaves many dead rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg

from holdfast.app import Holdfast
from holdfast.cli import doctor_postgres_sql as sql
from holdfast.cli.checks import Check, Surroundings, size
from holdfast.cli.doctor_vacuum import hidden_sessions, holders, vacuum_checks
from holdfast.cli.screen import Column
from holdfast.cli.times import span
from holdfast.store.postgres.connection import connect_through
from holdfast.store.postgres.driver import PostgresStore
from holdfast.store.postgres.errors import explain
from holdfast.store.postgres.schema import Raw
from holdfast.store.postgres.url import Location
from holdfast.store.sql import in_schema

WAL_BYTES_MAX: Final = 1024 * 1024 * 1024
DEAD_ROWS_MAX: Final = 100_000
UNVACUUMED_SECONDS: Final = 600.0
SKEW_SECONDS: Final = 1.0
CONNECTIONS_SHARE_MAX: Final = 0.8
HEARING_SECONDS: Final = 2.0
_COLUMNS: Final = (
    Column("TABLE"),
    Column("ROWS", right=True),
    Column("DEAD", right=True),
    Column("SIZE", right=True),
    Column("INDEXES", right=True),
    Column("AUTOVACUUM", right=True),
)


class Table(NamedTuple):
    name: str
    rows: int
    dead: int
    bytes: int
    index_bytes: int
    autovacuum_seconds: float | None
    vacuum_seconds: float | None
    """Since the last one of either kind."""


class Hearing(NamedTuple):
    """Whether a NOTIFY arrives, and after how long."""

    hears: bool
    seconds: float
    why_not: str | None


def examine(store: Holdfast, current: bool) -> Surroundings:
    """`current`: its layout is this version's. Else the store is not used, for it would migrate."""
    with _asking(store) as (raw, location):
        server, stuck = list(_server(raw, location)), list(_waits_for_standby(raw))
        skew, trip = _skew(raw)
        held = holders(raw)
        checks = [*server, *stuck, _clock(skew, trip), *vacuum_checks(held, hidden_sessions(raw), raw.info.user), *_wal(raw)]
        tables = [Table(*row) for row in raw.execute(sql.TABLES, (location.schema,))]
        checks += [*_dead(tables), _sizes(tables)]
        connections, used = _connections(raw)
        hearing = _hear(store) if current and not stuck else None
    facts = {
        "clock_skew_seconds": skew,
        "held_back": [each._asdict() for each in held],
        "tables": [table._asdict() for table in tables],
        "connections": used,
        "listener": None if hearing is None else hearing._asdict(),
    }
    checks += [connections, *([] if hearing is None else [_listener(hearing, location)])]
    return Surroundings(checks, facts, _COLUMNS, [_row(table) for table in tables])


def integrity(store: Holdfast) -> Check:
    """Ours, not the server's: every job is where its state says, and nowhere else."""
    with _asking(store) as (raw, location):
        try:
            [[astray]] = raw.execute(in_schema(sql.ASTRAY, location.schema))
        except psycopg.errors.QueryCanceled:
            return Check("integrity", "warning", "too many jobs to look at all of them in time; try when it is quiet")
    if astray:
        return Check("integrity", "failed", f"{astray:,} jobs are not where their state says; restore a backup, and report it")
    return Check("integrity", "ok", "every job is where its state says; for pages and indexes there is pg_amcheck")


@contextmanager
def _asking(store: Holdfast) -> Iterator[tuple[Raw, Location]]:
    """A connection of its own, so that nothing is counted that the doctor itself did."""
    assert isinstance(store.store, PostgresStore)
    location = store.store.location
    try:
        raw, location = connect_through(location, prepares=False)
        try:
            with raw.settled():
                yield raw, location
        finally:
            raw.close()
    except psycopg.Error as error:
        raise explain(error, location.shown) from error


# The server


def _server(raw: Raw, location: Location) -> Iterator[Check]:
    [[version, user, standby, synced, whole, waits, vacuums]] = raw.execute(sql.SERVER)
    name = f"PostgreSQL {version} at {location.shown}, as {user}, schema {location.schema}"
    if standby:
        yield Check("server", "warning", f"{name}: a standby, where jobs can only be looked at; workers need the primary")
    else:
        yield Check("server", "ok", name)
    unsafe = [
        *([] if synced else ["fsync = off"]),
        *([] if whole else ["full_page_writes = off"]),
        *([] if waits else ["synchronous_commit = off"]),
    ]
    if unsafe:
        yield Check("durability", "warning", f"{', '.join(unsafe)}: a crash of the server may lose accepted jobs; turn it on")
    else:
        yield Check("durability", "ok", "a commit is on disk before it is acknowledged")
    if not vacuums:
        yield Check(
            "autovacuum", "warning", "it is off: dead rows pile up and claims get slow; turn autovacuum and track_counts on"
        )


def _waits_for_standby(raw: Raw) -> Iterator[Check]:
    [[names, there]] = raw.execute(sql.SYNCHRONOUS)
    if names and not there:
        remedy = "start it, or take it out of synchronous_standby_names"
        yield Check("standby", "failed", f"every commit waits for {names}, which is not there; {remedy}")


def _skew(raw: Raw) -> tuple[float, float]:
    """How far the server's clock is before ours, and the round trip in which that was learned: the shortest of three."""
    readings: list[tuple[float, float]] = []
    for _ in range(3):
        asked = time.perf_counter()
        [[there]] = raw.execute(sql.CLOCK)
        trip = time.perf_counter() - asked
        readings.append((trip, there - (_own_clock() - trip / 2)))
    trip, skew = min(readings)
    return skew, trip


def _own_clock() -> float:
    return time.time()


def _clock(skew: float, trip: float) -> Check:
    far = f"{span(abs(skew))} {'ahead of' if skew > 0 else 'behind'} this machine's"
    if abs(skew) - trip / 2 > SKEW_SECONDS:
        return Check("clock", "warning", f"the server's is {far}, and it decides when jobs are due; run NTP on both machines")
    return Check("clock", "ok", f"the server's is {far}, a round trip takes {span(trip)}")


def _connections(raw: Raw) -> tuple[Check, dict[str, int]]:
    [[used, ours, most, reserved]] = raw.execute(sql.CONNECTIONS)
    text = f"{used} of {most - reserved} in use ({reserved} more for superusers), {ours} of them Holdfast's"
    facts = {"used": used, "holdfast": ours, "max": most, "reserved": reserved}
    if used > CONNECTIONS_SHARE_MAX * (most - reserved):
        return Check("connections", "warning", f"{text}; put a pooler before the server, or raise max_connections"), facts
    return Check("connections", "ok", text), facts


def _wal(raw: Raw) -> Iterator[Check]:
    for name, active, _, kept in raw.execute(sql.SLOTS):
        if not active and (kept or 0) > WAL_BYTES_MAX:
            remedy = f"start who reads it, or: SELECT pg_drop_replication_slot('{name}')"
            yield Check("log", "warning", f"the inactive replication slot {name} keeps {size(kept)} of it on disk; {remedy}")


# The tables


def _dead(tables: list[Table]) -> Iterator[Check]:
    bad = [table for table in tables if _is_neglected(table)]
    for table in bad:
        when = "never" if table.vacuum_seconds is None else f"{span(table.vacuum_seconds)} ago"
        remedy = f"see what holds it back, look for autovacuum in the server's log, and: VACUUM {table.name}"
        yield Check("dead rows", "warning", f"{table.dead:,} in {table.name}, last vacuumed {when}; {remedy}")
    if not bad:
        most = max(tables, key=lambda table: table.dead, default=None)
        where = f", most of them in {most.name}" if most is not None and most.dead else ""
        yield Check("dead rows", "ok", f"{sum(table.dead for table in tables):,}{where}")


def _is_neglected(table: Table) -> bool:
    """A busy table has many for a moment; it is bad if nobody comes for them."""
    late = table.vacuum_seconds is None or table.vacuum_seconds > UNVACUUMED_SECONDS
    return table.dead > DEAD_ROWS_MAX and (late or table.dead > 10 * max(table.rows, DEAD_ROWS_MAX))


def _sizes(tables: list[Table]) -> Check:
    both = size(sum(table.bytes for table in tables)), size(sum(table.index_bytes for table in tables))
    return Check("size", "ok", f"tables {both[0]}, indexes {both[1]}")


def _row(table: Table) -> list[str]:
    vacuumed = "-" if table.autovacuum_seconds is None else f"{span(table.autovacuum_seconds)} ago"
    return [table.name, f"{table.rows:,}", f"{table.dead:,}", size(table.bytes), size(table.index_bytes), vacuumed]


# The wake-up


def _hear(store: Holdfast) -> Hearing:
    """As a worker does it: a line of its own, and a word sent to it through another one."""
    began = time.monotonic()
    with _warnings_kept() as said:
        watcher: Any = store.store.watcher()
        try:
            while not watcher.hears and time.monotonic() - began < HEARING_SECONDS and not said:
                watcher.wait(0.05)
            hears = bool(watcher.hears)
        finally:
            watcher.close()
    return Hearing(hears, time.monotonic() - began, said[0] if said else None)


def _listener(hearing: Hearing, location: Location) -> Check:
    if hearing.hears:
        return Check("listener", "ok", f"NOTIFY arrives; to connect, listen and hear it took {span(hearing.seconds)}")
    slow = "NOTIFY does not arrive, so workers look every second"
    if hearing.why_not is not None:
        return Check("listener", "warning", f"{slow}: {hearing.why_not}")
    pooler = "behind a pooler in transaction mode that is so" if location.pooled else "there may be a pooler in between"
    remedy = "give a listen_url ($HOLDFAST_LISTEN_URL) that leads to the server itself"
    return Check("listener", "warning", f"{slow}; {pooler}: {remedy}")


@contextmanager
def _warnings_kept() -> Iterator[list[str]]:
    """What the listener has to say goes into the check, not beside it."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    log = logging.getLogger("holdfast.store")
    passes, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield said
    finally:
        log.removeHandler(handler)
        log.propagate = passes
