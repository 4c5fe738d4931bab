"""Statements that are sent without waiting for each other's answers, through libpq's pipeline mode.

The protocol: `put` queues a statement, by its name; on its first use it is prepared under that name, which lasts as long as the
connection. `sync` ends a group: the server answers everything up to there, or up to the first error, and skips the rest of the
group. Without a sync the server waits for more, with all locks. `answers` sends what is queued and reads the groups. `opened`
brackets all of it: behind it the connection can be used through psycopg again, or is closed.

It goes past psycopg's cursors, which take three times as many steps, and past its pipeline, whose waits are one per statement:
every wait is a chance for busy threads to keep the interpreter for 5 ms. It depends on psycopg's internals (`pq`, `Transformer`,
`error_from_result`); pyproject has the versions.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from holdfast.store.op import Row
from holdfast.store.postgres.schema import Raw

_RUN: Final = ""
_LEFT_MAX: Final = 100
"""How many answers may be left to be read on a connection that was closed."""


class Answers(NamedTuple):
    """To one group, or to what of it came before the first error."""

    results: list[PGresult]
    error: psycopg.Error | None

    def check(self) -> list[PGresult]:
        if self.error is not None:
            raise self.error
        return self.results


class Pipe:
    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self._names: set[str] = set()
        self._asked: list[list[str]] = [[]]
        """For each group, what the answers will be to: the name that a statement is prepared under, or a run of it."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        self._raw.pgconn.enter_pipeline_mode()
        try:
            yield
        except Exception:
            self._drain()
            raise
        except BaseException:
            self._raw.close()  # interrupted in the middle of it, the connection is of no use
            raise
        self._drain()

    def put(self, name: str, text: str, values: Sequence[bytes | None] = ()) -> None:
        server, known_as, asked = self._raw.pgconn, f"holdfast_{name}".encode(), self._asked[-1]
        with _explained(server):
            if name not in self._names and name not in asked:
                server.send_prepare(known_as, text.encode())
                asked.append(name)
            server.send_query_prepared(known_as, list(values))  # older psycopg takes no other sequence
        asked.append(_RUN)

    @property
    def is_unsynced(self) -> bool:
        """Whether something was put behind the last sync."""
        return bool(self._asked[-1])

    def sync(self) -> None:
        with _explained(self._raw.pgconn):
            self._raw.pgconn.pipeline_sync()
        self._asked.append([])

    def answers(self) -> list[Answers]:
        """To each group that was ended by a sync."""
        *asked, rest = self._asked
        self._asked = [rest]
        found: list[list[PGresult]] = self._raw.wait(_answers(self._raw.pgconn, len(asked)))
        return [self._understood(names, results) for names, results in zip(asked, found, strict=True)]

    def rows(self, result: PGresult) -> list[Row]:
        if result.status != ExecStatus.TUPLES_OK:
            return []
        loader = Transformer(self._raw)
        loader.set_pgresult(result)
        return loader.load_rows(0, result.ntuples, tuple)

    def _understood(self, names: list[str], results: list[PGresult]) -> Answers:
        runs: list[PGresult] = []
        for name, result in zip(names, results, strict=False):
            if result.status == ExecStatus.FATAL_ERROR:
                return Answers(runs, psycopg.errors.error_from_result(result))
            if name == _RUN:
                runs.append(result)
            else:
                self._names.add(name)  # it lasts, even if the transaction that it was prepared in does not
        return Answers(runs, None)

    def _drain(self) -> None:
        try:
            if not self._raw.closed and self.is_unsynced:
                self.sync()
            if not self._raw.closed and len(self._asked) > 1:
                self.answers()
            if not self._raw.closed:
                self._raw.pgconn.exit_pipeline_mode()
        except psycopg.Error:
            self._raw.close()
        self._asked = [[]]


def _answers(server: PGconn, syncs: int) -> Generator[Any, Any, list[list[PGresult]]]:
    """What the server answers up to each of so many syncs, in psycopg's own way to wait."""
    answers: list[list[PGresult]] = []
    results: list[PGresult] = []
    while len(answers) < syncs:
        with _explained(server, results):
            unsent = server.flush()
        ready = yield Wait.RW if unsent else Wait.R
        if ready & Ready.R:
            with _explained(server, results):
                server.consume_input()
        while len(answers) < syncs and not server.is_busy():
            result = server.get_result()
            if result is None:  # that was all for one of the statements
                if server.status == ConnStatus.BAD:
                    raise psycopg.OperationalError("the connection was lost")
            elif result.status == ExecStatus.PIPELINE_SYNC:
                answers.append(results)
                results = []
            else:
                results.append(result)
    return answers


@contextmanager
def _explained(server: PGconn, read: Sequence[PGresult] = ()) -> Iterator[None]:
    """Where the connection is lost, libpq tells how it noticed ("not in pipeline mode"): the server's last words are the reason.

    read  Answers that came before, and belong to no group yet.
    """
    try:
        yield
    except psycopg.OperationalError as error:
        raise next(map(psycopg.errors.error_from_result, filter(_is_farewell, [*read, *_unread(server)])), error) from None


def _unread(server: PGconn) -> list[PGresult]:
    tries = _LEFT_MAX if server.status == ConnStatus.BAD else 0
    return [result for _ in range(tries) if (result := server.get_result()) is not None]


def _is_farewell(result: PGresult) -> bool:
    return result.error_field(DiagnosticField.SEVERITY_NONLOCALIZED) in (b"FATAL", b"PANIC")
