"""The checker: one function per promise. Each returns the number of trials, and a line for every time the promise was broken."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.domain.key import Key
from holdfast.domain.states import State
from holdfast.torture.evidence import Call, Evidence, Row

WORKER_LOST: Final = "WorkerLost"
PROCESS_DIED: Final = "ProcessDied"


class PromiseResult(msgspec.Struct, frozen=True):
    promise: str
    trials: int
    broken: list[str]


def judge(evidence: Evidence) -> list[PromiseResult]:
    return [PromiseResult(promise, *check(evidence)) for promise, check in CHECKS.items()]


Check = Callable[[Evidence], tuple[int, list[str]]]


def nothing_lost(evidence: Evidence) -> tuple[int, list[str]]:
    broken = []
    for call in evidence.acknowledged:
        row = evidence.rows.get(call.id or "")
        if row is None:
            broken.append(f"job {call.id} (request {call.call}, {call.how}) was acknowledged and is missing")
        elif row.state.value not in ("succeeded", "failed", "cancelled", "skipped"):
            broken.append(f"job {call.id} (request {call.call}) never ended: it is {row.state}")
    return len(evidence.acknowledged), broken


def nothing_from_nowhere(evidence: Evidence) -> tuple[int, list[str]]:
    """Every job comes from one request, and is the job whose id that request returned."""
    broken, seen = [], Counter(row.call for row in evidence.rows.values())
    for row in evidence.rows.values():
        call = evidence.calls.get(row.call)
        if call is None:
            broken.append(f"job {row.id} comes from no request ({row.call!r})")
        elif call.id is not None and call.id != row.id:
            broken.append(f"request {row.call} made job {row.id} but returned {call.id}")
    broken += [f"request {call} made {count} jobs" for call, count in seen.items() if count > 1]
    return len(evidence.rows), broken


def all_or_nothing(evidence: Evidence) -> tuple[int, list[str]]:
    """Of a bulk request that was cut off there are all jobs, or none."""
    made = {row.call for row in evidence.rows.values()}
    groups: dict[int, list[Call]] = defaultdict(list)
    for call in evidence.calls.values():
        if call.how == "bulk":
            groups[call.group].append(call)
    broken = []
    for calls in groups.values():
        count = sum(call.call in made for call in calls)
        if count not in (0, len(calls)):
            broken.append(f"of the {len(calls)} jobs of a bulk request ({calls[0].call} …) there are {count}")
    return len(groups), broken


def rolled_back_left_nothing(evidence: Evidence) -> tuple[int, list[str]]:
    made = {row.call for row in evidence.rows.values()}
    calls = [call for call in evidence.calls.values() if call.rolled_back]
    return len(calls), [f"request {call.call} was rolled back and left something" for call in calls
                        if call.call in made or call.call in evidence.orders]  # fmt: skip


def committed_together(evidence: Evidence) -> tuple[int, list[str]]:
    """The row of the user and the job: both or neither. With a key, the job may be that of an earlier request."""
    made = {row.call for row in evidence.rows.values()}
    calls = [call for call in evidence.calls.values() if call.how == "transaction" and not call.rolled_back]
    broken = []
    for call in calls:
        ordered = call.call in evidence.orders
        if (ordered != (call.call in made)) if call.key is None else (call.call in made and not ordered):
            broken.append(f"request {call.call}: its row is {'present' if ordered else 'missing'}, its job is not")
        if call.id is not None and not ordered:
            broken.append(f"request {call.call} was committed and its row is missing")
    return len(calls), broken


def one_job_per_key(evidence: Evidence) -> tuple[int, list[str]]:
    jobs: dict[str, set[str]] = defaultdict(set)
    for row in evidence.rows.values():
        if row.key is not None:
            jobs[row.key].add(row.id)
    broken = [f"key {key} has {len(ids)} jobs: {sorted(ids)}" for key, ids in jobs.items() if len(ids) > 1]
    for call in evidence.acknowledged:
        answered = call.key is None or call.id in jobs[Key("torture", call.key).text]
        if not answered:
            broken.append(f"request {call.call} for key {call.key} returned {call.id}, which is not the job of that key")
    return len(jobs), broken


def committed_once(evidence: Evidence) -> tuple[int, list[str]]:
    """A job ends once. Its result has its current token, and the ledgers have a start of its code under that token."""
    broken = []
    for row in evidence.rows.values():
        if row.endings > 1 or row.succeeded > 1:
            broken.append(f"job {row.id} ended {row.endings} times, {row.succeeded} times as succeeded")
        if row.state is State.SUCCEEDED:
            if row.result != {"call": row.call, "token": row.token}:
                broken.append(f"job {row.id} has token {row.token} and the result {row.result}")
            if (row.call, row.token) not in evidence.starts:
                broken.append(f"job {row.id} succeeded under token {row.token}, under which its code was not started")
    return len(evidence.rows), broken


def effects_once(evidence: Evidence) -> tuple[int, list[str]]:
    """Rows that tasks commit in the transaction that finishes their job: one per success, with its token, and no others."""
    wanted = Counter(
        (row.call, row.token) for row in evidence.rows.values() if row.task == "pay" and row.state is State.SUCCEEDED
    )
    differing = (wanted - evidence.effect_rows) + (evidence.effect_rows - wanted)
    broken = [f"request {call}, token {token}: {evidence.effect_rows[call, token]} effects, {wanted[call, token]} successes"
              for call, token in differing]  # fmt: skip
    broken += [f"request {call}: the commit of token {token} succeeded, and its effect is missing"
               for call, token in evidence.effects if (call, token) not in evidence.effect_rows]  # fmt: skip
    return sum(wanted.values()), broken


def within_attempts(evidence: Evidence) -> tuple[int, list[str]]:
    """Attempts by the event log, and starts by the ledgers. No token is started twice."""
    tokens: Counter[str] = Counter(call for call, _ in evidence.starts)
    broken = [f"request {call}: its code was started {len(lines)} times under token {token}"
              for (call, token), lines in evidence.starts.items() if len(lines) > 1]  # fmt: skip
    for row in evidence.rows.values():
        allowed = row.attempts_max + row.given_back
        if row.started > allowed or tokens[row.call] > row.started:
            broken.append(f"job {row.id}: {row.started} claims and {tokens[row.call]} starts; {allowed} were allowed")
    return len(evidence.starts), broken


def poison_dead_lettered(evidence: Evidence) -> tuple[int, list[str]]:
    """A job that kills its worker fails after exactly its attempts, and its reason names the cause."""
    rows = [row for row in evidence.rows.values() if row.task in ("poison", "crash") and row.id not in evidence.cancelled]
    broken = []
    for row in rows:
        kinds = (WORKER_LOST,) if row.task == "poison" else (WORKER_LOST, PROCESS_DIED)
        named = (row.reason or "").startswith(kinds)
        if row.state is State.CANCELLED:
            continue  # its canceller was killed after the commit and before its line in the ledger
        if row.state is not State.FAILED or row.started - row.given_back != row.attempts_max or not named:
            broken.append(f"job {row.id} ({row.task}) is {row.state} after {row.started} of {row.attempts_max}: {row.reason}")
    return len(rows), broken


def expected_endings(evidence: Evidence) -> tuple[int, list[str]]:
    """Each job ends as its task determines, unless all of its attempts were lost with their workers."""
    broken = []
    for row in evidence.rows.values():
        used_up = row.state is State.FAILED and row.attempt == row.attempts_max
        if row.state is State.CANCELLED or used_up or row.task in ("poison", "crash"):
            continue
        wanted = {"pass_over": State.SKIPPED, "give_up": State.FAILED}.get(row.task, State.SUCCEEDED)
        if row.state is not wanted:
            broken.append(
                f"job {row.id} ({row.task}) is {row.state} in attempt {row.attempt} of {row.attempts_max}: {row.reason}"
            )
    return len(evidence.rows), broken


def cancelled_stayed_cancelled(evidence: Evidence) -> tuple[int, list[str]]:
    states = {id: row.state for id, row in evidence.rows.items()}
    return len(evidence.cancelled), [f"job {id} was cancelled and is now {states.get(id)}" for id in evidence.cancelled
                                     if states.get(id) is not State.CANCELLED]  # fmt: skip


def legal_logs(evidence: Evidence) -> tuple[int, list[str]]:
    return evidence.events, [f"job {row.id}: {problem}" for row in evidence.rows.values() for problem in row.problems]


def tables_agree(evidence: Evidence) -> tuple[int, list[str]]:
    return len(evidence.rows), evidence.misplaced


def database_sound(evidence: Evidence) -> tuple[int, list[str]]:
    return 1, evidence.integrity


CHECKS: Final[dict[str, Check]] = {
    "acknowledged jobs are never lost": nothing_lost,
    "every job was asked for, once": nothing_from_nowhere,
    "a bulk request is all or nothing": all_or_nothing,
    "a rolled back request leaves nothing": rolled_back_left_nothing,
    "a caller's rows and jobs commit together": committed_together,
    "a key has one job, and every caller its id": one_job_per_key,
    "a job ends once, under its current token": committed_once,
    "effects committed with a job happen once": effects_once,
    "no job runs more often than it may": within_attempts,
    "a job that kills its worker ends": poison_dead_lettered,
    "every job ends as its code decided": expected_endings,
    "a cancelled job stays cancelled": cancelled_stayed_cancelled,
    "event logs are gapless and legal": legal_logs,
    "the tables agree with the jobs": tables_agree,
    "the database itself is sound": database_sound,
}


def recoveries(evidence: Evidence) -> list[float]:
    """Seconds from a kill to the next start of each job that was cut off."""
    rows: dict[str, Row] = {row.call: row for row in evidence.rows.values()}
    seconds = []
    for (call, token), lines in evidence.starts.items():
        following = evidence.starts.get((call, token + 1))
        if (call, token) in evidence.ends or following is None or call not in rows:
            continue
        kill = next((at for at in evidence.kills.get(lines[0].pid, ()) if at > lines[0].at), None)
        if kill is not None:
            seconds.append((following[0].at - kill) / 1e9)
    return sorted(seconds)
