"""The evidence: the ledgers, and the database at the end of the run, with the event log of each job replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import msgspec

from holdfast.domain.states import EVENTS, FINAL, MOVES, State
from holdfast.torture.direct import EFFECT, ORDER, Direct, connect, problems
from holdfast.torture.ledgers import Line, read

_VERBS: Final = {event: verb for verb, event in EVENTS.items()}
_decode: Final = msgspec.json.decode
_FREE: Final = frozenset({"snooze", "release"})
"""Verbs that return the attempt: it is not counted."""


class Call(msgspec.Struct):
    """One request for one job, from the ledger of its enqueuer."""

    call: str
    how: str
    group: int
    key: int | None
    rolled_back: bool
    id: str | None = None
    """The id that the request returned; None if it has not returned."""


class Row(msgspec.Struct):
    """A job at the end of the run, and the problems of its event log."""

    seq: int
    id: str
    call: str
    task: str
    state: State
    attempt: int
    attempts_max: int
    token: int
    key: str | None
    result: dict[str, Any] | None
    reason: str | None
    started: int = 0
    given_back: int = 0
    endings: int = 0
    succeeded: int = 0
    problems: list[str] = []


class Evidence(msgspec.Struct):
    calls: dict[str, Call]
    cancelled: set[str]
    starts: dict[tuple[str, int], list[Line]]
    ends: set[tuple[str, int]]
    effects: Counter[tuple[str, int]]
    kills: dict[int, list[int]]
    rows: dict[str, Row]
    orders: set[str]
    effect_rows: Counter[tuple[str, int]]
    misplaced: list[str]
    integrity: list[str]
    events: int
    forks: Counter[str] = msgspec.field(default_factory=Counter)

    @property
    def acknowledged(self) -> list[Call]:
        return [call for call in self.calls.values() if call.id is not None]


def gather(ledgers: str, url: str) -> Evidence:
    evidence = Evidence({}, set(), {}, set(), Counter(), {}, {}, set(), Counter(), [], [], 0)
    for line in read(ledgers):
        _note(evidence, line)
    connection = connect(url)
    try:
        _look(evidence, connection)
    finally:
        connection.close()
    return evidence


def _note(evidence: Evidence, line: Line) -> None:
    run = (line.call or "", line.token or 0)
    match line.what:
        case "invoke":
            for call in line.calls:
                evidence.calls[call] = Call(call, line.how or "", line.at, line.key, line.rolled_back)
        case "ok":
            for call, id in zip(line.calls, line.ids, strict=True):
                evidence.calls[call].id = id
        case "cancelled":
            evidence.cancelled.update(line.ids)
        case "start":
            evidence.starts.setdefault(run, []).append(line)
        case "end" | "raise":
            evidence.ends.add(run)
        case "effect":
            evidence.effects[run] += 1
        case "fork":
            evidence.forks[line.how or ""] += 1
        case "kill":
            evidence.kills.setdefault(int(line.ids[0]), []).append(line.at)


def _look(evidence: Evidence, connection: Direct) -> None:
    evidence.integrity = problems(connection)
    for row, events in zip(_jobs(connection), _logs(connection), strict=True):
        replay(row, events)
        evidence.events += len(events)
        evidence.rows[row.id] = row
    evidence.orders = {row[0] for row in connection.execute(f"SELECT call FROM {ORDER}")}  # noqa: S608
    evidence.effect_rows = Counter((row[0], row[1]) for row in connection.execute(f"SELECT call, token FROM {EFFECT}"))  # noqa: S608
    evidence.misplaced = _misplaced(connection, evidence.rows)


def _jobs(connection: Direct) -> Iterator[Row]:
    query = """
        SELECT seq, id, arguments, task, state, attempt, attempts_max, token, key, result, reason
          FROM holdfast_full_job ORDER BY seq"""
    for seq, id, arguments, task, state, attempt, attempts_max, token, key, result, reason in connection.execute(query):
        call, decoded = _decode(arguments).get("call") or "", None if result is None else _decode(result)
        name = task.rpartition(".")[2]
        yield Row(seq, id, call, name, State(state), attempt, attempts_max, token, key, decoded, reason, problems=[])


Logged = tuple[int, str, int | None, int]
"""Number, kind, the token of the run that emitted it, and the event count in the row of the job."""


def _logs(connection: Direct) -> Iterator[list[Logged]]:
    query = """
        SELECT job.seq, job.event_count, body.scheduled_for, event.number, event.kind, event.data
          FROM holdfast_job AS job
          JOIN holdfast_job_spec AS body ON body.seq = job.seq
          LEFT JOIN holdfast_event AS event ON event.job = job.seq
         ORDER BY job.seq, event.number"""
    for (_, count, scheduled_for), rows in groupby(connection.execute(query), key=lambda row: row[:3]):
        first = EVENTS["enqueue" if scheduled_for is None else "schedule"]
        later = [(number, kind, _token(data), count) for *_, number, kind, data in rows if number is not None]
        yield [(1, first, None, count), *later]


def _token(data: str | None) -> int | None:
    decoded = None if data is None else _decode(data)
    return decoded.get("token") if isinstance(decoded, dict) else None


def replay(row: Row, events: list[Logged]) -> None:
    """Apply the event log to the table of moves; an event that does not fit is a problem of the job."""
    state: State | None = None
    attempt = 0
    numbers, count = [event[0] for event in events], events[0][3]
    if numbers != list(range(1, count + 1)):
        row.problems.append(f"its events are numbered {numbers[:20]}, not 1..{count}")
    for number, kind, token, _ in events:
        verb = _VERBS.get(kind)
        if verb is None:
            if state is not State.RUNNING:
                row.problems.append(f"event {number} ({kind}) was written while it was {state}")
            if token not in (None, row.started):
                row.problems.append(f"event {number} ({kind}) was written under token {token}; the current one was {row.started}")
            continue
        if (state, verb) not in MOVES:
            row.problems.append(f"event {number}: a job that was {state} was moved by '{verb}'")
        state = MOVES.get((state, verb), state)
        attempt += (verb == "claim") - (verb in _FREE)
        _count(row, verb, state)
        if attempt > row.attempts_max:
            row.problems.append(f"event {number}: attempt {attempt} of {row.attempts_max}")
    if (state, attempt, row.started) != (row.state, row.attempt, row.token):
        row.problems.append(
            f"by its log {state}, attempt {attempt}, token {row.started}; by its row {row.state}, {row.attempt}, {row.token}"
        )


def _count(row: Row, verb: str, state: State | None) -> None:
    row.started += verb == "claim"
    row.given_back += verb in _FREE
    row.endings += state in FINAL
    row.succeeded += verb == "finish"


_TABLES: Final = {
    "holdfast_ready": frozenset({State.READY}),
    "holdfast_scheduled": frozenset({State.SCHEDULED}),
    "holdfast_running": frozenset({State.RUNNING}),
    "holdfast_finished": FINAL,
}


def _misplaced(connection: Direct, rows: dict[str, Row]) -> list[str]:
    """Jobs that a narrow table has and should not have, or lacks, or has twice."""
    wrong = []
    for table, states in _TABLES.items():
        found = Counter(seq for (seq,) in connection.execute(f"SELECT seq FROM {table}"))  # noqa: S608
        differing = [row for row in rows.values() if found.pop(row.seq, 0) != (row.state in states)]
        wrong += [f"job {row.id} is {row.state}, which does not fit the rows of {table}" for row in differing]
        wrong += [f"{table} has number {seq}, but there is no such job" for seq in found]
    return wrong
