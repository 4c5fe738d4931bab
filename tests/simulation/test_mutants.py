"""Bugs planted on purpose: each breaks one promise, and the function that stands for that promise must notice.

"Every promise has a test that fails without it": a promise that no mutant breaks is not tested, and is named below.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import HoldfastError
from holdfast.client import by_hand
from holdfast.events.feed import Feed, Watched
from holdfast.events.follower import Follower
from holdfast.store import control, moves, tend, workers
from holdfast.store import enqueue as enqueueing
from holdfast.store.commits import Share
from holdfast.store.op import Moment, Op, drive
from holdfast.store.postgres.driver import PostgresStore
from holdfast.store.postgres.schema import verbs as postgres_verbs
from holdfast.store.settle import Settled, settle
from holdfast.store.sql import Sql, compile_sql, load
from holdfast.store.sqlite.driver import SqliteStore
from tests.conformance.world import STORES
from tests.simulation.promises import PROMISES, keep

Plant = Callable[[pytest.MonkeyPatch], None]
SQLITE, POSTGRES = "sqlite", "postgresql"
NEVER = ("WHERE ", "WHERE 0 AND ")
FALSE = ("WHERE ", "WHERE false AND ")
UNLISTED = ("seq, lane, 'succeeded' FROM finished", "seq, lane, 'succeeded' FROM finished WHERE false")


def sql(verb: str, *changes: tuple[str, str]) -> Plant:
    """The verb's SQL with something replaced; a change that no longer applies is an error of this file."""
    return _changed(lambda: load("holdfast.store.sqlite"), "?", verb, changes)


def pg(verb: str, *changes: tuple[str, str]) -> Plant:
    """The same in PostgreSQL's."""
    return _changed(postgres_verbs, "$", verb, changes)


def _changed(find: Callable[[], dict[str, Sql]], mark: str, verb: str, changes: tuple[tuple[str, str], ...]) -> Plant:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        verbs = find()
        text = verbs[verb].text
        for old, new in changes:
            assert old in text, f"{verb}.sql no longer has {old!r}: plant this bug another way"
            text = text.replace(old, new)
        monkeypatch.setitem(verbs, verb, compile_sql(text, mark))

    return plant


def code(target: object, name: str, mutant: Any) -> Plant:
    return lambda monkeypatch: monkeypatch.setattr(target, name, mutant)


def everywhere(target: object, name: str, mutant: Any) -> dict[str, Plant]:
    return dict.fromkeys((SQLITE, POSTGRES), code(target, name, mutant))


def both(*plants: Plant) -> Plant:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in plants:
            each(monkeypatch)

    return plant


def wall_clock_leases(store: SqliteStore | PostgresStore) -> Moment:
    return Moment(store.clock.now(), store.clock.now(), store.clock.boot())


def deferred(store: SqliteStore, raw: sqlite3.Connection) -> None:
    store._tell("begin")
    raw.execute("BEGIN")


def no_transaction(store: SqliteStore, raw: sqlite3.Connection) -> None:
    store._tell("begin")


def no_savepoint(store: SqliteStore, connection: Any, share: Share, moment: Moment, alone: bool) -> None:
    try:
        share.answer(drive(share.operation(moment), connection))
    except Exception as error:
        share.fail(error)


def renew_whoever_asks(moment: Moment, worker: int, seq: int, token: int) -> Op[None]:
    yield from workers.beat(moment, worker)


def only_while_the_lease_lasts(moment: Moment, reports: Any, worker: int | None) -> Op[Settled]:
    yield from tend.expire(moment)
    return (yield from settle(moment, reports, worker))


def no_key(*_: object) -> Op[None]:
    return
    yield


def not_told(*_: object) -> Op[None]:
    return
    yield


def join_anyway(feed: Feed, follower: Follower, seq: int, id: str) -> bool:
    feed._jobs.setdefault(seq, Watched(id, follower.place)).followers.add(follower)
    follower.behind = False
    return True


connect = SqliteStore._connect


def synced_now_and_then(store: SqliteStore) -> sqlite3.Connection:
    raw = connect(store)
    raw.execute("PRAGMA synchronous = NORMAL")
    return raw


MUTANTS: dict[str, tuple[dict[str, Plant], str]] = {
    "no fence": (
        {
            SQLITE: sql("lock_claims", (" AND running.token = lease.value", ""), ("running.worker = :worker", "true")),
            POSTGRES: both(
                pg("lock_claims", ("running.token = ", "running.token <> 0 * "), ("running.worker = ", "0 <> ")),
                pg("finish_jobs", ("running.token = ", "running.token <> 0 * "), ("running.worker = ", "0 <> ")),
            ),
        },
        "an_old_token_writes_nothing",
    ),
    "renewal without a token": (everywhere(workers, "renew", renew_whoever_asks), "an_old_token_renews_nothing"),
    "a token that does not grow": (
        {
            SQLITE: sql("start_jobs", ("token = token + 1, ", "")),
            POSTGRES: pg("claim_jobs", ("token = job_state.token + 1, ", "")),
        },
        "tokens_grow_with_every_claim",
    ),
    "retry resets the token": (
        {
            SQLITE: sql("restart_job", ("attempt = 0", "attempt = 0, token = 0")),
            POSTGRES: pg("restart_job", ("attempt = 0", "attempt = 0, token = 0")),
        },
        "a_retried_job_is_fenced_from_its_past",
    ),
    "claim leaves it ready": (
        {
            SQLITE: sql("take_ready", NEVER),
            POSTGRES: pg("claim_jobs", ("DELETE FROM holdfast.ready\n", "UPDATE holdfast.ready SET seq = seq\n")),
        },
        "a_job_goes_to_one_holder",
    ),
    "expire whoever has a lease": (
        {
            SQLITE: both(sql("stale_workers", ("< :tick", "< :tick OR 1")), sql("expired_claims", ("< :tick", "< :tick OR 1"))),
            POSTGRES: both(
                pg("stale_workers", ("< :tick::bigint", "< :tick::bigint OR true")),
                pg("expired_claims", ("< :tick::bigint", "< :tick::bigint OR true")),
            ),
        },
        "a_living_lease_is_not_taken",
    ),
    "beats that renew nothing": (
        {
            SQLITE: sql("beat", ("beat_tick = :tick", "beat_tick = beat_tick")),
            POSTGRES: pg("beat", ("beat_tick = :tick::bigint", "beat_tick = beat_tick + 0 * :tick::bigint")),
        },
        "a_renewed_lease_is_not_taken",
    ),
    "nobody expires": (
        {SQLITE: sql("stale_workers", ("LIMIT 1", "LIMIT 0")), POSTGRES: pg("stale_workers", ("LIMIT 1", "LIMIT 0"))},
        "a_dead_holders_job_comes_back",
    ),
    "leases by the wall clock": (
        {SQLITE: code(SqliteStore, "_moment", wall_clock_leases), POSTGRES: code(PostgresStore, "moment", wall_clock_leases)},
        "the_wall_clock_ends_no_lease",
    ),
    "leases that survive a reboot": (
        {
            SQLITE: both(
                sql("stale_workers", (":booted + 1", "0")),
                sql("expired_claims", (":booted + 1", "0")),
            ),
            POSTGRES: both(
                pg("stale_workers", ("boot <> :boot::text", "boot <> boot || substr(:boot::text, 1, 0)")),
                pg("expired_claims", ("worker.boot <> :boot::text", "worker.boot <> worker.boot || substr(:boot::text, 1, 0)")),
            ),
        },
        "a_reboot_ends_leases",
    ),
    "late results are refused": (
        everywhere(by_hand, "write_reports", only_while_the_lease_lasts),
        "a_late_result_is_not_thrown_away",
    ),
    "attempts counted at the end": (
        {
            SQLITE: both(
                sql("start_jobs", ("attempt = attempt + 1, ", "")),
                sql("move_jobs", ("attempt = attempt - ", "attempt = attempt + 1 - ")),
            ),
            POSTGRES: both(
                pg("claim_jobs", ("attempt = job_state.attempt + 1, ", "")),
                pg("move_jobs", ("job.attempt - ", "job.attempt + 1 - ")),
            ),
        },
        "a_job_that_kills_its_workers_ends",
    ),
    "release costs an attempt": (
        {
            SQLITE: sql("move_jobs", ("attempt = attempt - json_extract(change.value, '$[6]')", "attempt = attempt")),
            POSTGRES: pg("move_jobs", ("job.attempt - (own.value ->> 6)::integer", "job.attempt")),
        },
        "release_and_snooze_cost_no_attempt",
    ),
    "retry keeps the old attempts": (
        {SQLITE: sql("restart_job", ("attempt = 0, ", "")), POSTGRES: pg("restart_job", ("attempt = 0, ", ""))},
        "a_retry_brings_fresh_attempts",
    ),
    "back off for no time": (
        {
            SQLITE: sql("schedule_jobs", ("SELECT run_after", "SELECT 0")),
            POSTGRES: pg("schedule_jobs", ("SELECT run_after", "SELECT 0")),
        },
        "every_delay_is_kept",
    ),
    "oldest first, whatever the priority": (
        {
            SQLITE: sql("ready_in_lane", ("ORDER BY priority, seq", "ORDER BY seq")),
            POSTGRES: pg("ready_in_lane", ("ORDER BY lane, priority, seq", "ORDER BY lane, seq")),
        },
        "priority_then_age_decides",
    ),
    "promote before the time": (
        {
            SQLITE: sql("due_jobs", ("run_after <= :now", "run_after > :now")),
            POSTGRES: pg("due_jobs", ("run_after <= :now", "run_after > :now")),
        },
        "a_job_for_later_runs_later",
    ),
    "cancel leaves the lease": (
        {SQLITE: sql("end_claims", NEVER), POSTGRES: pg("end_claims", FALSE)},
        "a_cancelled_job_stays_cancelled",
    ),
    "cancel leaves it ready": (
        {SQLITE: sql("leave_ready", NEVER), POSTGRES: pg("leave_ready", FALSE)},
        "a_cancelled_job_is_not_handed_out",
    ),
    "ended but not listed": (
        {SQLITE: sql("add_finished", NEVER), POSTGRES: both(pg("add_finished", FALSE), pg("finish_jobs", UNLISTED))},
        "what_ended_can_be_counted_and_pruned",
    ),
    "events that are not counted": (
        {
            SQLITE: sql("count_events", ("event_count + ", "event_count + 0 * ")),
            POSTGRES: pg("count_events", ("event_count + ", "event_count + 0 * ")),
        },
        "the_log_has_no_gap",
    ),
    "starts that are not counted": (
        {
            SQLITE: sql("start_jobs", ("'running', 1, 1, 2", "'running', 1, 1, 1")),
            POSTGRES: pg("claim_jobs", ("'running', 1, 1, 2", "'running', 1, 1, 1")),
        },
        "the_log_has_no_gap",
    ),
    "no look at who has the key": (
        {
            SQLITE: sql("key_holders", ("held.key = given.value", "held.key = given.value AND 0")),
            POSTGRES: pg("key_holders", ("key.key = given.key", "key.key = given.key AND false")),
        },
        "one_key_is_one_job",
    ),
    "delete forgets the key": (
        {SQLITE: sql("free_keys", NEVER), POSTGRES: pg("free_keys", ("\n WHERE key", "\n WHERE false AND key"))},
        "a_deleted_job_frees_its_key",
    ),
    "prune frees every key": (
        {SQLITE: sql("outlive_keys", NEVER), POSTGRES: pg("outlive_keys", ("\n WHERE key", "\n WHERE false AND key"))},
        "a_key_outlives_a_pruned_job",
    ),
    "prune frees timed keys": (
        {
            SQLITE: sql("outlive_keys", ("scope = 'seconds'", "scope = 'never'")),
            POSTGRES: pg("outlive_keys", ("scope = 'seconds'", "scope = 'never'")),
        },
        "a_key_outlives_a_pruned_job",
    ),
    "retry without its key": (everywhere(control, "_take_key_back", no_key), "a_retry_does_not_make_two_of_one_key"),
    "deferred transactions": ({SQLITE: code(SqliteStore, "_begin", deferred)}, "nothing_is_read_before_the_lock_is_held"),
    "no transactions": ({SQLITE: code(SqliteStore, "_begin", no_transaction)}, "a_crash_leaves_nothing_half_written"),
    "no savepoints": ({SQLITE: code(SqliteStore, "_run", no_savepoint)}, "a_caller_that_fails_takes_nobody_along"),
    "an end without its callback": (everywhere(moves, "announce", not_told), "an_end_is_told_of"),
    "a replaced job without its callback": (everywhere(enqueueing, "announce", not_told), "an_end_is_told_of"),
    "an expired job without its callback": (
        {
            SQLITE: sql("expired_claims", ("spec.callback", "NULL")),
            POSTGRES: pg("expired_claims", ("spec.callback", "NULL::text")),
        },
        "an_end_is_told_of",
    ),
    "as far as what is left of it": (
        {
            SQLITE: sql(
                "feed_now",
                ("(SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_event')", "(SELECT max(position) FROM holdfast_event)"),
            )
        },
        "what_is_new_is_new_to_who_has_read_what_is_gone",
    ),
    "what happened before the job": (
        {
            SQLITE: sql("feed_few", ("ORDER BY page.job, page.number", "ORDER BY page.number DESC")),
            POSTGRES: pg("feed_few", ("ORDER BY page.job, page.number", "ORDER BY page.number DESC")),
        },
        "a_job_is_told_of_before_what_happened_to_it",
    ),
    "following begins where others are": (
        everywhere(Feed, "_join_job", join_anyway),
        "who_joins_late_looks_for_what_was_given_out",
    ),
    "synced now and then": ({SQLITE: code(SqliteStore, "_connect", synced_now_and_then)}, "an_acknowledged_job_is_on_the_disk"),
}
CASES = [(bug, store) for bug, (plants, _) in MUTANTS.items() for store in plants]


@pytest.mark.parametrize("store", sorted(STORES))
@pytest.mark.parametrize("name", PROMISES)
def test_the_engine_keeps_its_promise(tmp_path: Path, store: str, name: str) -> None:
    world = STORES[store](tmp_path)
    try:
        keep(name, world)
    finally:
        world.close()


@pytest.mark.parametrize(("bug", "store"), CASES)
def test_a_planted_bug_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str, store: str) -> None:
    """In the SQL and in the code: the promises are the same for every store, and so are the functions that stand for them."""
    plants, name = MUTANTS[bug]
    random.seed(1)
    world = STORES[store](tmp_path)
    world.app.migrate()
    plants[store](monkeypatch)
    try:
        with pytest.raises((AssertionError, HoldfastError)):  # anything else is an error of this file
            keep(name, world)
    finally:
        world.close()


def test_every_promise_is_broken_by_some_mutant() -> None:
    assert set(PROMISES) == {promise for _, promise in MUTANTS.values()}
