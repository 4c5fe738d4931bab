"""What must be true of any database of ours at any moment, whatever happened to it: read by SQL, not through the engine."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg

from holdfast.domain.states import EVENTS, FINAL, MOVES, State
from tests.servers import plain

Rows = Callable[[str], list[tuple[Any, ...]]]
VERBS = {kind: verb for verb, kind in EVENTS.items()}
FREE = frozenset({"release", "snooze"})
"""The verbs that give an attempt back."""


def sqlite_rows(path: str) -> Rows:
    """Runs a query through a connection of its own, as an onlooker would."""

    def rows(query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            return connection.execute(query).fetchall()

    return rows


class PostgresRows:
    """The same on a PostgreSQL server, where `holdfast_job` is `holdfast.job`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None

    def __call__(self, query: str) -> list[tuple[Any, ...]]:
        if self._connection is None:
            self._connection = psycopg.connect(plain(self._url), autocommit=True, prepare_threshold=None)
        return self._connection.execute(query.replace("holdfast_", "holdfast.").encode()).fetchall()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def steady_rows(connection: sqlite3.Connection) -> Rows:
    """The same through a connection that stays open."""
    return lambda query: connection.execute(query).fetchall()


def check(rows: Rows) -> None:
    """All invariants; an AssertionError names what is wrong."""
    broken = [*narrow_tables(rows), *logs(rows), *orphans(rows)]
    assert not broken, "\n".join(broken)


def check_file(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows = steady_rows(connection)
        assert rows("PRAGMA integrity_check") == [("ok",)]
        check(rows)


def narrow_tables(rows: Rows) -> Iterator[str]:
    """Each job is in the one narrow table of its state, with the same facts as in its own row."""
    jobs = rows("SELECT seq, lane, state, priority, token, run_after, finished_at FROM holdfast_job")
    expected: dict[str, set[tuple[Any, ...]]] = {"ready": set(), "scheduled": set(), "running": set(), "finished": set()}
    for seq, lane, state, priority, token, run_after, finished_at in jobs:
        if state in FINAL:
            expected["finished"].add((seq, lane, state, finished_at))
        elif state == State.READY:
            expected["ready"].add((seq, lane, priority))
        elif state == State.SCHEDULED:
            expected["scheduled"].add((seq, lane, run_after))
        elif state == State.RUNNING:
            expected["running"].add((seq, lane, token))
    found = {
        "ready": rows("SELECT seq, lane, priority FROM holdfast_ready"),
        "scheduled": rows("SELECT seq, lane, run_after FROM holdfast_scheduled"),
        "running": rows("SELECT seq, lane, token FROM holdfast_running"),
        "finished": rows("SELECT seq, lane, state, finished_at FROM holdfast_finished"),
    }
    for table, listed in found.items():
        if sorted(map(repr, listed)) != sorted(map(repr, expected[table])):
            yield f"{table}: has {sorted(listed)}, its jobs are {sorted(expected[table])}"


def logs(rows: Rows) -> Iterator[str]:
    """Events are numbered 1..n, make a legal walk that ends in the job's state, and account for attempt and token."""
    log: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for job, scheduled_for in rows("SELECT seq, scheduled_for FROM holdfast_job_spec"):
        log[job].append((1, EVENTS["enqueue" if scheduled_for is None else "schedule"]))
    for job, number, kind in rows("SELECT job, number, kind FROM holdfast_event ORDER BY job, number"):
        log[job].append((number, kind))
    facts = "SELECT seq, state, attempt, attempts_max, token, event_count FROM holdfast_job ORDER BY seq"
    for seq, state, attempt, attempts_max, token, event_count in rows(facts):
        events = log.pop(seq, [])
        if [number for number, _ in events] != list(range(1, event_count + 1)):
            yield f"job {seq}: events are numbered {[number for number, _ in events]}, counted {event_count}"
        kinds = [kind for _, kind in events]
        walked, attempts, tokens, illegal = walk(kinds)
        if illegal:
            yield f"job {seq}: {illegal}"
        elif (walked, attempts, tokens) != (state, attempt, token):
            yield f"job {seq}: the log leads to {(walked, attempts, tokens)}, the row says {(state, attempt, token)}: {kinds}"
        if attempt > attempts_max:
            yield f"job {seq}: attempt {attempt} of {attempts_max}"
    if log:
        yield f"events of jobs that do not exist: {sorted(log)}"


def walk(kinds: list[str]) -> tuple[State | None, int, int, str]:
    """The state, the attempt and the token that a log leads to; and the first illegal move, if there is one."""
    state: State | None = None
    attempt = token = 0
    for position, kind in enumerate(kinds, 1):
        verb = VERBS.get(kind)
        if verb is None:
            continue  # progress, or the task's own word
        if (state, verb) not in MOVES:
            return state, attempt, token, f"event {position} {kind!r} is no legal move of a job that is {state}: {kinds}"
        state = MOVES[state, verb]
        if verb == "claim":
            attempt, token = attempt + 1, token + 1
        attempt = 0 if verb == "retry" else attempt - (verb in FREE)
    return state, attempt, token, ""


def orphans(rows: Rows) -> Iterator[str]:
    """Nothing is left of a job that is gone, and nothing of a job that was half written."""
    for table, column in (("event", "job"), ("error", "job"), ("tag", "seq"), ("job_state", "seq"), ("ready", "seq")):
        left = rows(f"SELECT {column} FROM holdfast_{table} WHERE {column} NOT IN (SELECT seq FROM holdfast_job_spec)")
        if left:
            yield f"{table}: rows of jobs that do not exist: {left}"
    for query, what in (
        ("SELECT seq FROM holdfast_running WHERE worker NOT IN (SELECT id FROM holdfast_worker)", "leases without a worker"),
        (
            "SELECT key FROM holdfast_key WHERE ended IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast_job_spec AS spec"
            " WHERE spec.seq = holdfast_key.seq AND spec.id = holdfast_key.id AND spec.key = holdfast_key.key)",
            "keys without their job",
        ),
    ):
        left = rows(query)
        if left:
            yield f"{what}: {left}"
