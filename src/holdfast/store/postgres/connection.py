"""A connection to the server, set up as every one of ours must be, that runs our statements.

Inside `piped`, statements travel through the pipe: those that return no rows are sent along with the next that does, BEGIN goes
with the first, and COMMIT with the last. Behind a pooler, where nothing can be prepared, they go one by one through a cursor.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8Dumper

from holdfast.errors import StoreUnavailable
from holdfast.store.clock import Clock
from holdfast.store.op import Probed, Row, Statement
from holdfast.store.postgres.bounded import Bounded
from holdfast.store.postgres.clock import ServerClock, own_micros
from holdfast.store.postgres.errors import IGNORED, is_refused_by_pooler
from holdfast.store.postgres.notifier import CHANNEL
from holdfast.store.postgres.pipe import Pipe
from holdfast.store.postgres.schema import verbs
from holdfast.store.postgres.url import SEARCH_PATH, SERVER_OLDEST, Location, options_of, settings_local
from holdfast.store.sql import Sql, Wakes, in_schema

PREPARE_AFTER: Final = 5
PREPARED_MAX: Final = 400

_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_CLOCK: Final = f"SELECT {_NOW}"
_TIMELINE: Final = (
    "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || ' ' || oid FROM pg_database WHERE datname = current_database()"
)
_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
_STARTED: Final = f"SELECT pg_current_xact_id()::text, {_NOW}"
_FATE: Final = "SELECT pg_xact_status($1::text::xid8)"
_SYNC: Final = "SELECT pg_logical_emit_message(true, 'holdfast', '')"
_EPOCH: Final = "SELECT json_agg(mark ORDER BY mark)::text FROM {schema}.server_epoch"
_NEW_EPOCH: Final = (
    "INSERT INTO {schema}.server_epoch (mark) "
    "SELECT gen_random_uuid()::text WHERE NOT EXISTS (SELECT 1 FROM {schema}.server_epoch)"
)
_NOTIFY: Final = (  # need not be on the disk, and does not wait for others that notify: then the notifier does it
    f"SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '20ms', true), pg_notify('{CHANNEL}', '')"
)


def _as_text(value: str | int | None) -> bytes | None:
    if value is None:
        return None
    text = str(value).encode()
    if b"\0" in text:  # libpq would cut it off there
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return text


class Connection:
    """A psycopg connection in autocommit that runs our statements. For one thread at a time.

    Where statements go through the pipe, psycopg itself never prepares any: with a ROLLBACK it would drop all prepared
    statements, ours too.
    """

    def __init__(self, raw: Bounded, location: Location, probed: Probed, timeline: str | None) -> None:
        self.raw, self.timeline = raw, timeline
        self.opened_at = time.monotonic()
        self._probed = probed
        self._sql = verbs(location.schema)
        self._cursor = psycopg.RawCursor(raw)
        self._begin = "; ".join(part for part in (_BEGIN, raw.settings_local, _STARTED) if part)
        self.identity: str | None = None
        self.epoch: str | None = None
        self.transaction: str | None = None
        self.wakes: Wakes | None = None
        """Which processes wait for what the transaction wrote so far."""
        self._pipes = not location.pooled and psycopg.Pipeline.is_supported()
        self._pipe = Pipe(raw)
        self._is_piping = False
        self._awaited = 0
        """How many answers there will be to what was put."""
        self._begins = False
        """A transaction begins with the next statement."""
        self._number_at: int | None = None
        """Which of the awaited answers is the number of the transaction."""

    # Statements

    def run(self, statement: Statement) -> list[Row]:
        return self.run_many((statement,))[0]

    def run_many(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """All answers are waited for at once, and if no statement returns rows they are left for the next time."""
        if not self._is_piping:
            return [self._run_by_cursor(statement) for statement in statements]
        places = [self._put(statement) for statement in statements]
        if all(place is None for place in places):
            return [[] for _ in places]
        results = self._collect()
        return [[] if place is None else self._pipe.rows(results[place]) for place in places]

    def _run_by_cursor(self, statement: Statement) -> list[Row]:
        sql = self._sql_of(statement.verb)
        self._begin_now()
        self._cursor.execute(sql.positional, sql.values(statement.parameters))
        return self._cursor.fetchall() if sql.answers else []

    def _put(self, statement: Statement) -> int | None:
        """Which of the awaited answers is its own; None if it returns no rows."""
        sql = self._sql_of(statement.verb)
        values = [_as_text(value) for value in sql.values(statement.parameters)]
        self._put_begin()
        place = self._put_text(statement.verb, sql.positional, values)
        return place if sql.answers else None

    def _put_begin(self) -> None:
        if self._begins:
            self._begins = False
            self._put_text("begin", _BEGIN)
            self._number_at = self._put_text("started", _STARTED)

    def _put_text(self, name: str, text: str, values: Sequence[bytes | None] = ()) -> int:
        self._pipe.put(name, text, values)
        self._awaited += 1
        return self._awaited - 1

    def _sql_of(self, verb: str) -> Sql:
        if self._probed.probe is not None:
            self._probed.probe(verb)
        sql = self._sql[verb]
        if sql.wakes is not None and self.wakes != "workers":
            self.wakes = sql.wakes
        return sql

    def _collect(self) -> list[PGresult]:
        """All answers to what was put since the last time."""
        self._pipe.sync()
        self._awaited = 0
        results = self._pipe.answers()[0].check()
        if self._number_at is not None:
            self.transaction, self._number_at = self._pipe.rows(results[self._number_at])[0][0], None
        return results

    @contextmanager
    def piped(self) -> Iterator[None]:
        """Inside, statements go through the pipe. An error of one that returns no rows is raised at the next that does, or at the
        end of this."""
        if not self.pipes:
            yield
            return
        with self._pipe.opened():
            self._awaited, self._number_at, self._is_piping = 0, None, True
            try:
                yield
                self.flush()
            finally:
                self._is_piping = False

    def flush(self) -> None:
        """Wait for the answers to all statements that were sent, so that the errors among them are raised here."""
        if self._is_piping and self._pipe.is_unsynced:
            self._collect()

    @property
    def pipes(self) -> bool:
        """Not behind a pooler, or where one mixes up what was prepared."""
        return self._pipes and self.raw.prepare_threshold is not None

    def run_alone(self, statement: Statement, notify: bool) -> tuple[bool, bool]:
        """A statement that is a transaction of its own: whether it wrote anything, and whether workers were notified of it.

        notify  Workers are notified right behind it, by a second transaction in the same packet: a round trip earlier. That this
                failed is no fault of the statement.
        """
        if not self.pipes:
            with self.raw.settled():
                self.run(statement)
                written = self._cursor.rowcount > 0
            return written, False
        with self._pipe.opened():
            self._awaited, self._begins = 0, False
            self._put(statement)
            self._pipe.sync()
            if notify:
                self._put_text("notify", _NOTIFY)
                self._pipe.sync()
            answer, *notified = self._pipe.answers()
        return (answer.check()[-1].command_tuples or 0) > 0, notify and notified[0].error is None

    def brings_work(self, statement: Statement) -> bool:
        """Whether workers can be notified of it in its own packet."""
        return self.pipes and self._sql[statement.verb].wakes == "workers"

    def look_up(self, verb: str) -> list[Row]:
        """A verb without parameters that is part of no operation, and of which no probe is told."""
        with self.raw.settled():
            return self._cursor.execute(self._sql[verb].positional, prepare=False).fetchall()

    # Transactions

    def begin(self, clock: Clock) -> None:
        """A transaction, its number, by which its fate can be looked up later, and the server's time if that is to be learned.

        Where statements are piped, all of it travels with the first of them.
        """
        self.transaction, self.wakes, self._begins = None, None, True
        if isinstance(clock, ServerClock) and clock.is_stale():
            asked_at = own_micros()
            clock.learn(self._begin_now(), asked_at, own_micros())
        elif not self.pipes:
            self._begin_now()

    def _begin_now(self) -> int:
        """If that was put off; the server's time."""
        if not self._begins:
            return 0
        self._begins = False
        self._cursor.execute(self._begin, prepare=False)
        while self._cursor.nextset():
            pass
        self.transaction, now = cast(tuple[str, int], self._cursor.fetchone())
        return now

    def commit(self) -> None:
        """A transaction in which a statement failed ends as if nothing was wrong, but it was rolled back."""
        if self._begins:
            self._begins = False
            return  # it never began
        if self._is_piping:
            if self._number_at is not None:
                self.flush()  # the number first: without it the fate of a commit that is not answered cannot be looked up
            self._put_text("commit", "COMMIT")
            status = (self._collect()[-1].command_status or b"").decode()
        else:
            status = self._cursor.execute("COMMIT", prepare=False).statusmessage or ""
        if status != "COMMIT":
            raise psycopg.OperationalError(f"the transaction was rolled back ({status})")

    def rollback(self) -> None:
        """Nothing that the transaction wrote is kept; if anything follows, it is in another one."""
        if not self._begins:
            self.command("ROLLBACK")
            self.flush()
        self.wakes, self._begins = None, True

    def command(self, text: str) -> None:
        """SAVEPOINT and the like; inside a pipe it is sent with what follows."""
        if self._is_piping:
            self._put_begin()
            self._put_text(text.lower().replace(" ", "_"), text)
        else:
            self._begin_now()
            self._cursor.execute(text, prepare=False)

    @property
    def in_transaction(self) -> bool:
        return self.raw.info.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def fate(self, transaction: str) -> str | None:
        """What became of a transaction: committed, aborted, in progress; None if the server does not know any more."""
        try:
            found = self._ask(_FATE, transaction)
        except psycopg.errors.InvalidParameterValue:
            return "aborted"  # a number of the future: the server crashed before it wrote anything of that transaction
        return None if found is None else found[0]

    def sync(self) -> None:
        """What is committed by now is on disk and on the standby, too: a commit that was cut off did not wait for that."""
        self._ask(_SYNC)

    # The server

    def learn_epoch(self, schema: str) -> None:
        """Whether the server crashed since; None where that cannot be asked, as on a standby or with a right to read only."""
        try:
            for statement in (_EPOCH, _NEW_EPOCH, _EPOCH):
                found = self._ask(in_schema(statement, schema))
                if found is not None and found[0] is not None:
                    self.epoch = found[0]
                    return
        except psycopg.Error:
            if self.raw.closed:
                raise

    def read_clock(self, clock: ServerClock) -> None:
        asked_at = own_micros()
        clock.learn(cast(tuple[int], self._ask(_CLOCK))[0], asked_at, own_micros())

    def _ask(self, text: str, *values: str) -> Row | None:
        """A statement outside of operations; its first row."""
        with self.raw.settled():
            cursor = self._cursor.execute(text, values or None, prepare=False)
            return None if cursor.description is None else cursor.fetchone()

    def close(self) -> None:
        self.raw.close()


def connect(location: Location, prepares: bool = True) -> Bounded:
    raw = Bounded.connect(
        location.conninfo,
        autocommit=True,
        prepare_threshold=PREPARE_AFTER if prepares and not location.pooled else None,
        row_factory=tuple_row,
        cursor_factory=psycopg.RawCursor,
        **options_of(location),  # type: ignore[arg-type]
    )
    try:
        raw.prepared_max = PREPARED_MAX
        raw.settings_local = settings_local(location)
        raw.adapters.register_dumper(int, Int8Dumper)  # else every size of a number is a statement of its own
        _check_server(raw, location)
        return raw
    except BaseException:
        raw.close()
        raise


def connect_through(location: Location, prepares: bool = True) -> tuple[Bounded, Location]:
    """The same; a pooler that does not pass on our settings is recognised by that, and the location that is returned says so."""
    try:
        return connect(location, prepares), location
    except psycopg.OperationalError as error:
        if location.pooled or not is_refused_by_pooler(error):
            raise
    location = location._replace(pooled=True)
    return connect(location, prepares), location


def _check_server(raw: Bounded, location: Location) -> None:
    if raw.info.server_version < SERVER_OLDEST:
        version = raw.info.server_version // 10_000
        raise StoreUnavailable(f"{location.shown} is PostgreSQL {version}; Holdfast needs 14 or newer")
    encoding = raw.info.parameter_status("server_encoding")
    if encoding not in ("UTF8", None):
        raise StoreUnavailable(f"{location.shown} stores text as {encoding}; create the database with ENCODING 'UTF8'")
    found = None if location.pooled else raw.execute("SHOW search_path", prepare=False).fetchone()
    if found is not None and found[0].replace(" ", "") != SEARCH_PATH:
        raise psycopg.OperationalError(f"{IGNORED}: search_path is {found[0]}")


def opened(raw: Bounded, location: Location, probed: Probed, clock: Clock) -> Connection:
    """Ready for use: it is known which database this is, what time it is there, and which timeline of its history it is on."""
    connection = Connection(raw, location, probed, _timeline(raw))
    connection.identity = connection.look_up("identity")[0][1]
    connection.learn_epoch(location.schema)
    if isinstance(clock, ServerClock):
        connection.read_clock(clock)
    return connection


def _timeline(raw: Bounded) -> str | None:
    """Changes when another server takes over, whose transaction numbers may mean others, or when another database takes the name
    of this one; None where that cannot be asked."""
    try:
        with raw.settled():
            found = raw.execute(_TIMELINE).fetchone()
    except (psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.InternalError):
        return None
    except psycopg.OperationalError:
        if raw.closed:
            raise
        return None
    return None if found is None else found[0]
