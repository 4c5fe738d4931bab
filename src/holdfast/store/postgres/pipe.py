"""Statements that are sent without waiting for each other's answers, past psycopg's cursors.

That takes a third of the steps that psycopg takes, and one wait for all: every wait is a chance for busy threads to keep the
interpreter for 5 ms. A statement is prepared on its first use, under its name, and keeps that as long as the connection lasts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from holdfast.store.op import Row
from holdfast.store.postgres.schema import Raw

_RUN: Final = ""


class Answers(NamedTuple):
    """To all that was put up to a sync, or up to the first that went wrong."""

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
        """Up to each sync, what the answers will be to: the name that a statement is given, or that it should run."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """What was put inside comes to its end there, whatever happens: then the connection can be used as ever, or is closed."""
        self._raw.pgconn.enter_pipeline_mode()
        try:
            yield
        except Exception:
            self._drain()
            raise
        except BaseException:
            self._raw.close()  # in the middle of it, it is of no use to anybody
            raise
        self._drain()

    def put(self, name: str, text: str, values: Sequence[bytes | None] = ()) -> None:
        server, known_as, asked = self._raw.pgconn, f"holdfast_{name}".encode(), self._asked[-1]
        if name not in self._names and name not in asked:
            server.send_prepare(known_as, text.encode())
            asked.append(name)
        server.send_query_prepared(known_as, values)
        asked.append(_RUN)

    @property
    def unsynced(self) -> bool:
        """Whether something was put of which the server does not know that it is to be answered now."""
        return bool(self._asked[-1])

    def sync(self) -> None:
        """What was put up to here is answered, however the rest goes. Without it the server waits for more, with all locks."""
        self._raw.pgconn.pipeline_sync()
        self._asked.append([])

    def answers(self, sent: Callable[[], None] | None = None) -> list[Answers]:
        """Up to each sync. `sent` is called when all of it is on its way."""
        *asked, rest = self._asked
        self._asked = [rest]
        found: list[list[PGresult]] = self._raw.wait(_answers(self._raw.pgconn, len(asked), sent))
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
                self._names.add(name)  # it stays, even if the transaction that it was given in does not
        return Answers(runs, None)

    def _drain(self) -> None:
        try:
            if not self._raw.closed and self.unsynced:
                self.sync()
            if not self._raw.closed and len(self._asked) > 1:
                self.answers()
            if not self._raw.closed:
                self._raw.pgconn.exit_pipeline_mode()
        except psycopg.Error:
            self._raw.close()
        self._asked = [[]]


def _answers(server: PGconn, syncs: int, sent: Callable[[], None] | None) -> Generator[Any, Any, list[list[PGresult]]]:
    """What the server says to all that was sent up to each of so many syncs."""
    answers: list[list[PGresult]] = []
    results: list[PGresult] = []
    while len(answers) < syncs:
        wanted = Wait.RW if server.flush() else Wait.R
        if sent is not None and wanted == Wait.R:
            sent()
            sent = None
        ready = yield wanted
        if ready & Ready.R:
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
