"""A connection to the server, set up as every one of ours must be, that runs our statements and waits for none for ever."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, Literal, Protocol, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8Dumper
from psycopg.waiting import Ready, Wait

from holdfast.errors import StoreUnavailable
from holdfast.store.clock import Clock
from holdfast.store.op import TOGETHER, Row, Statement
from holdfast.store.postgres.clock import ServerClock, own_micros
from holdfast.store.postgres.pipe import Pipe
from holdfast.store.postgres.place import CALL_SECONDS, CHANNEL, SERVER_OLDEST, SETTINGS_LOCAL, Place, options_of
from holdfast.store.postgres.schema import Raw, verbs
from holdfast.store.sql import Sql, in_schema
from holdfast.store.store import Probe

PREPARE_AFTER: Final = 5
PREPARED_MAX: Final = 400
MARGIN_SECONDS: Final = 2.0  # the server's own timeout comes first: it leaves the connection usable

_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_CLOCK: Final = f"SELECT {_NOW}"
_TIMELINE: Final = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"
_STARTED: Final = f"SELECT pg_current_xact_id()::text, {_NOW}"
_FATE: Final = "SELECT pg_xact_status($1::text::xid8)"
_SYNC: Final = "SELECT pg_logical_emit_message(true, 'holdfast', '')"
_LIFE: Final = "SELECT json_agg(mark ORDER BY mark)::text FROM holdfast.life"
_BORN: Final = "INSERT INTO holdfast.life (mark) SELECT gen_random_uuid()::text WHERE NOT EXISTS (SELECT 1 FROM holdfast.life)"

_TELL: Final = (  # need not be on the disk; and others who tell at the same time are not waited for: then the bell is rung
    f"SELECT set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '20ms', true), pg_notify('{CHANNEL}', '')"
)

LOUD: Final = frozenset({
    "add_job", "add_many", "add_ready", "add_scheduled", "ready_jobs", "schedule_jobs", "restart_job", "promote_jobs",
    "add_notices",
})  # fmt: skip
"""Verbs that bring something to do for a worker, now or later."""
TOLD: Final = frozenset({
    "claim_jobs", "pick_up", "move_jobs", "finish_jobs", "record_events", "count_events", "set_progress", "delete_jobs",
    "end_leases",
})  # fmt: skip
"""Verbs that only those who follow jobs care for: these move, or say something."""


_MAIN: Final = re.compile(r"^(SELECT|INSERT|UPDATE|DELETE)\b", re.MULTILINE)
"""Where a verb's own statement begins: what stands in front of it, in WITH, is indented."""


class Timeout(psycopg.OperationalError):
    """The server did not answer at all. Whether it did what it was asked is not known."""


class Bounded(psycopg.Connection[tuple[Any, ...]]):
    """psycopg's, but no answer is waited for longer than so many seconds: then the connection is closed."""

    bound_seconds = CALL_SECONDS + MARGIN_SECONDS

    def wait(self, gen: Any, *rest: Any, **options: Any) -> Any:
        try:
            return super().wait(_bounded(_sent(gen, self.pgconn), self.bound_seconds), *rest, **options)
        except Timeout:
            self.close()
            raise


def _bounded(steps: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """The same steps; psycopg comes by every tenth of a second, with 0 if there was nothing to read or write."""
    deadline = time.monotonic() + seconds
    try:
        ready = yield next(steps)
        while True:
            if not ready and time.monotonic() > deadline:
                raise Timeout(f"no answer for {seconds:g} seconds")
            ready = yield steps.send(ready)
    except StopIteration as end:
        return end.value


def _sent(steps: Generator[Any, Any, Any], server: PGconn) -> Generator[Any, Any, Any]:
    """The same steps, but what we have to say is said before its answer is waited for.

    In a pipeline psycopg (3.3) goes on to listen when the socket is full, with the rest of a long statement unsent: the server
    waits for that, and we for the server.
    """
    try:
        wanted = next(steps)
        while True:
            if wanted == Wait.R and server.flush():
                ready = yield Wait.RW
                if not ready & Ready.R:
                    continue
                ready = Ready.R
            else:
                ready = yield wanted
            wanted = steps.send(ready)
    except StopIteration as end:
        return end.value


def _as_text(value: str | int | None) -> bytes | None:
    if value is None:
        return None
    text = str(value).encode()
    if b"\0" in text:  # where it would be cut off
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return text


@cache
def answers(text: str) -> bool:
    """Whether a statement gives back rows."""
    main = _MAIN.search(text)
    return main is not None and (main.group(1) == "SELECT" or "RETURNING" in text[main.start() :])


class Probed(Protocol):
    """Who may want to be told of statements."""

    probe: Probe | None


class Connection:
    """A psycopg connection in autocommit that runs our statements. For one thread at a time.

    Where statements go through the pipe, psycopg is never let prepare any: with a ROLLBACK it would clear away all that is
    prepared, ours too.
    """

    def __init__(self, raw: Raw, place: Place, probed: Probed, timeline: str | None) -> None:
        self.raw, self.timeline = raw, timeline
        self.opened_at = time.monotonic()
        self._probed = probed
        self._sql = verbs(place.schema)
        self._cursor = psycopg.RawCursor(raw)
        self._begin = f"{_BEGIN}; {SETTINGS_LOCAL + '; ' if place.pooled else ''}{_STARTED}"
        self.identity: str | None = None
        self.life: str | None = None
        self.transaction: str | None = None
        self.loud = self.told = False
        self._pipes = not place.pooled and psycopg.Pipeline.is_supported()
        self._pipe = Pipe(raw)
        self._piping: Literal["on", "begun"] | None = None
        """Whether statements are put into the pipe; `begun`: and the first answers are to the beginning of a transaction."""
        self._awaited = 0
        """How many answers there will be to what was put."""
        self._begins = False
        """A transaction begins with the next statement."""

    def run(self, statement: Statement) -> list[Row]:
        if statement.verb == TOGETHER:
            return [(rows,) for rows in self._run_all(statement.parameters["statements"])]
        return self._run_all((statement,))[0]

    def _run_all(self, statements: Sequence[Statement]) -> list[list[Row]]:
        """In a pipe all answers are waited for at once, and if none is needed they are left for the next time."""
        if not self._piping:
            return [self._run_by_cursor(statement) for statement in statements]
        places = [self._put(statement) for statement in statements]
        if all(place is None for place in places):
            return [[] for _ in places]
        results = self._collect()
        return [[] if place is None else self._pipe.rows(results[place]) for place in places]

    def _run_by_cursor(self, statement: Statement) -> list[Row]:
        sql = self._heard(statement.verb)
        if not sql.text:
            return []  # another verb does this one's work here
        self._begin_now()
        if statement.rows is not None:
            self._cursor.executemany(sql.numbered, statement.rows)
            return []
        self._cursor.execute(sql.numbered, sql.values(statement.parameters))
        return self._cursor.fetchall() if answers(sql.text) else []

    def _put(self, statement: Statement) -> int | None:
        """The place of its answer among those that come next; None if it has none of interest."""
        steps = self._steps(statement)
        for step in steps:
            self._pipe.put(*step)
        self._awaited += len(steps)
        return self._awaited - 1 if steps and statement.rows is None and answers(steps[0][1]) else None

    def _steps(self, statement: Statement) -> list[tuple[str, str, list[bytes | None]]]:
        """Its name, its text and its values, as often as it is to be run."""
        sql = self._heard(statement.verb)
        if not sql.text:
            return []
        given = (sql.values(statement.parameters),) if statement.rows is None else statement.rows
        return [(statement.verb, sql.numbered, [_as_text(value) for value in values]) for values in given]

    def _heard(self, verb: str) -> Sql:
        if self._probed.probe is not None:
            self._probed.probe(verb)
        if verb in LOUD:
            self.loud = True
        elif verb in TOLD:
            self.told = True
        return self._sql[verb]

    def _collect(self) -> list[PGresult]:
        """All answers to what was put since the last time."""
        self._pipe.sync()
        self._awaited = 0
        results = self._pipe.answers()[0].check()
        if self._piping == "begun":
            self.transaction, self._piping = self._pipe.rows(results[1])[0][0], "on"
        return results

    def run_alone(
        self, *statements: Statement, telling: bool = False, sent: Callable[[], None] | None = None
    ) -> tuple[list[Row], bool]:
        """A statement that is a transaction by itself; its rows. Or a few.

        telling  All who listen are sent a word right behind it, as a transaction of its own: they hear it a round trip earlier.
                 Whether that went well is told, too: if not, it is no fault of the statement.
        sent     Called when all of it is on its way.
        """
        if not self.goes_alone:
            (statement,) = statements
            return self.run(statement), False
        pipe, steps = self._pipe, [step for statement in statements for step in self._steps(statement)]
        with pipe.opened():
            for step in steps:
                pipe.put(*step)
            pipe.sync()
            if telling:
                pipe.put("tell", _TELL)
                pipe.sync()
            said, *word = pipe.answers(sent)
        return pipe.rows(said.check()[-1]), telling and word[0].error is None

    @property
    def goes_alone(self) -> bool:
        """Whether `run_alone` does what it says: not behind a pooler, or where one mixes up what was prepared."""
        return self._pipes and self.raw.prepare_threshold is not None

    @contextmanager
    def piped(self) -> Iterator[None]:
        """Inside, a statement of which no answer is needed is sent along with the next. What failed is raised at the next answer,
        or at the end of this."""
        if not self.goes_alone:
            yield
            return
        with self._pipe.opened():
            self._awaited, self._piping = 0, "on"
            try:
                if self._begins:
                    self._begins, self._piping = False, "begun"
                    for name, text in (("begin", _BEGIN), ("started", _STARTED)):
                        self._pipe.put(name, text)
                        self._awaited += 1
                yield
                if self._pipe.unsynced:
                    self._collect()
            finally:
                self._piping = None

    def look(self, verb: str) -> list[Row]:
        """A verb without parameters, of which nobody is told: it is no part of an operation."""
        return self._cursor.execute(self._sql[verb].numbered, prepare=False).fetchall()

    def begin(self, clock: Clock) -> None:
        """A transaction, its number, by which its fate can be asked for later, and the server's time if that is to be learned.

        All of it travels with the first statement, where that can be.
        """
        self.transaction, self.loud, self.told, self._begins = None, False, False, True
        if isinstance(clock, ServerClock) and clock.is_stale():
            asked_at = own_micros()
            clock.learn(self._begin_now(), asked_at, own_micros())
        elif not self.goes_alone:
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
        self._cursor.execute("COMMIT", prepare=False)
        if self._cursor.statusmessage != "COMMIT":
            raise psycopg.OperationalError(f"the transaction was rolled back ({self._cursor.statusmessage})")

    def command(self, text: str) -> None:
        self._begin_now()
        self._cursor.execute(text, prepare=False)

    @property
    def in_transaction(self) -> bool:
        return self.raw.info.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN)

    def fate(self, transaction: str) -> str | None:
        """What became of a transaction: committed, aborted, in progress; None if the server does not know any more."""
        try:
            found = self._cursor.execute(_FATE, (transaction,), prepare=False).fetchone()
        except psycopg.errors.InvalidParameterValue:
            return "aborted"  # a number of the future: the server crashed before it wrote anything of that transaction
        return None if found is None else found[0]

    def sync(self) -> None:
        """What is committed by now is on disk and on the standby, too: a commit that was cut off did not wait for that."""
        self._cursor.execute(_SYNC, prepare=False)

    def learn_life(self, schema: str) -> None:
        """Which life of the server this is; None where one may not ask, as on a standby or with a right to read only."""
        try:
            for statement in (_LIFE, _BORN, _LIFE):
                cursor = self._cursor.execute(in_schema(statement, schema), prepare=False)
                found = cursor.fetchone() if cursor.description is not None else None
                if found is not None and found[0] is not None:
                    self.life = found[0]
                    return
        except psycopg.Error:
            if self.raw.closed:
                raise

    def look_at_clock(self, clock: ServerClock) -> None:
        asked_at = own_micros()
        found = cast(tuple[int], self._cursor.execute(_CLOCK, prepare=False).fetchone())
        clock.learn(found[0], asked_at, own_micros())

    def close(self) -> None:
        self.raw.close()


def connect(place: Place, prepares: bool = True) -> Bounded:
    raw = Bounded.connect(
        place.conninfo,
        autocommit=True,
        prepare_threshold=PREPARE_AFTER if prepares and not place.pooled else None,
        row_factory=tuple_row,
        cursor_factory=psycopg.RawCursor,
        **options_of(place),  # type: ignore[arg-type]
    )
    try:
        raw.prepared_max = PREPARED_MAX
        raw.adapters.register_dumper(int, Int8Dumper)  # else every size of a number is a statement of its own
        if raw.info.server_version < SERVER_OLDEST:
            version = raw.info.server_version // 10_000
            raise StoreUnavailable(f"{place.shown} is PostgreSQL {version}; Holdfast needs 14 or newer")
        encoding = raw.info.parameter_status("server_encoding")
        if encoding not in ("UTF8", None):
            raise StoreUnavailable(f"{place.shown} stores text as {encoding}; create the database with ENCODING 'UTF8'")
        return raw
    except BaseException:
        raw.close()
        raise


def opened(raw: Raw, place: Place, probed: Probed, clock: Clock) -> Connection:
    """Ready for use: it is known which database this is, what time it is there, and which line of its history it is on."""
    connection = Connection(raw, place, probed, _timeline(raw))
    connection.identity = connection.look("whereabouts")[0][1]
    connection.learn_life(place.schema)
    if isinstance(clock, ServerClock):
        connection.look_at_clock(clock)
    return connection


def _timeline(raw: Raw) -> str | None:
    """Changes when another server takes over, whose transaction numbers may mean others; None where one cannot ask."""
    try:
        found = raw.execute(_TIMELINE).fetchone()
    except (psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.InternalError):
        return None
    except psycopg.OperationalError:
        if raw.closed:
            raise
        return None
    return None if found is None else found[0]
