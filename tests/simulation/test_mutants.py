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
from holdfast.store import claim, control, tend
from holdfast.store import enqueue as enqueueing
from holdfast.store import settle as settling
from holdfast.store.commits import Share
from holdfast.store.op import Moment, Op, drive
from holdfast.store.settle import settle
from holdfast.store.sql import compile_sql, load
from holdfast.store.sqlite.driver import SqliteStore
from tests.conformance.world import STORES, World, sqlite_world
from tests.simulation.promises import PROMISES, keep

Plant = Callable[[pytest.MonkeyPatch], None]
NEVER = ("WHERE ", "WHERE 0 AND ")


def sql(verb: str, *changes: tuple[str, str]) -> Plant:
    """The verb's SQL with something replaced; a change that no longer applies is an error of this file."""

    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        verbs = load("holdfast.store.sqlite")
        text = verbs[verb].text
        for old, new in changes:
            assert old in text, f"{verb}.sql no longer has {old!r}: plant this bug another way"
            text = text.replace(old, new)
        monkeypatch.setitem(verbs, verb, compile_sql(text))

    return plant


def code(target: object, name: str, mutant: Any) -> Plant:
    return lambda monkeypatch: monkeypatch.setattr(target, name, mutant)


def both(*plants: Plant) -> Plant:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        for each in plants:
            each(monkeypatch)

    return plant


def wall_clock_leases(store: SqliteStore) -> Moment:
    return Moment(store.clock.now(), store.clock.now(), store.clock.boot())


def deferred(store: SqliteStore, raw: sqlite3.Connection) -> None:
    store._tell("begin")
    raw.execute("BEGIN")


def no_transaction(store: SqliteStore, raw: sqlite3.Connection) -> None:
    store._tell("begin")


def no_savepoint(store: SqliteStore, connection: Any, share: Share, moment: Moment, alone: bool) -> None:
    try:
        share.answer(drive(share.make(moment), connection))
    except Exception as error:
        share.fail(error)


def renew_whoever_asks(moment: Moment, worker: int, seq: int, token: int) -> Op[None]:
    yield from claim.beat(moment, worker)


def only_while_the_lease_lasts(moment: Moment, reports: Any) -> Op[set[int]]:
    yield from tend.expire(moment)
    return (yield from settle(moment, reports))


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


MUTANTS: dict[str, tuple[Plant, str]] = {
    "no token guard": (sql("held", (" AND running.token = lease.value", "")), "an_old_token_writes_nothing"),
    "renewal without a token": (code(claim, "renew", renew_whoever_asks), "an_old_token_renews_nothing"),
    "a token that does not grow": (sql("start_jobs", ("token = token + 1, ", "")), "tokens_grow_with_every_claim"),
    "retry resets the token": (
        sql("restart_job", ("attempt = 0", "attempt = 0, token = 0")),
        "a_retried_job_is_fenced_from_its_past",
    ),
    "claim leaves it ready": (sql("take_ready", NEVER), "a_job_goes_to_one_holder"),
    "expire whoever has a lease": (
        both(sql("stale_workers", ("< :tick", "< :tick OR 1")), sql("expired", ("< :tick", "< :tick OR 1"))),
        "a_living_lease_is_not_taken",
    ),
    "beats that renew nothing": (sql("beat", ("beat_tick = :tick", "beat_tick = beat_tick")), "a_renewed_lease_is_not_taken"),
    "nobody expires": (sql("stale_workers", ("LIMIT 1", "LIMIT 0")), "a_dead_holders_job_comes_back"),
    "leases by the wall clock": (code(SqliteStore, "_moment", wall_clock_leases), "the_wall_clock_ends_no_lease"),
    "leases that survive a reboot": (
        both(sql("stale_workers", ("boot <> :boot", "boot = ''")), sql("expired", ("worker.boot <> :boot", "worker.boot = ''"))),
        "a_reboot_ends_leases",
    ),
    "late results are refused": (code(by_hand, "write_reports", only_while_the_lease_lasts), "a_late_result_is_not_thrown_away"),
    "attempts counted at the end": (
        both(
            sql("start_jobs", ("attempt = attempt + 1, ", "")),
            sql("move_jobs", ("attempt = attempt - ", "attempt = attempt + 1 - ")),
        ),
        "a_job_that_kills_its_workers_ends",
    ),
    "release costs an attempt": (
        sql("move_jobs", ("attempt = attempt - json_extract(change.value, '$[6]')", "attempt = attempt")),
        "release_and_snooze_cost_no_attempt",
    ),
    "retry keeps the old attempts": (sql("restart_job", ("attempt = 0, ", "")), "a_retry_brings_fresh_attempts"),
    "back off for no time": (sql("schedule_jobs", ("SELECT run_after", "SELECT 0")), "every_delay_is_kept"),
    "oldest first, whatever the priority": (
        sql("ready_in_lane", ("ORDER BY priority, seq", "ORDER BY seq")),
        "priority_then_age_decides",
    ),
    "promote before the time": (
        both(sql("due", ("run_after <= :now", "run_after > :now")), sql("take_due", ("run_after <= :now", "run_after > :now"))),
        "a_job_for_later_runs_later",
    ),
    "cancel leaves the lease": (sql("end_leases", NEVER), "a_cancelled_job_stays_cancelled"),
    "cancel leaves it ready": (sql("leave_ready", NEVER), "a_cancelled_job_is_not_handed_out"),
    "ended but not listed": (sql("add_finished", NEVER), "what_ended_can_be_counted_and_pruned"),
    "events that are not counted": (sql("count_events", ("event_count + ", "event_count + 0 * ")), "the_log_has_no_gap"),
    "starts that are not counted": (sql("start_jobs", ("'running', 1, 1, 2", "'running', 1, 1, 1")), "the_log_has_no_gap"),
    "no look at who has the key": (sql("key_holder", NEVER), "one_key_is_one_job"),
    "delete forgets the key": (sql("free_keys", NEVER), "a_deleted_job_frees_its_key"),
    "prune frees every key": (sql("outlive_keys", NEVER), "a_key_outlives_a_pruned_job"),
    "prune frees timed keys": (sql("outlive_keys", ("scope = 'seconds'", "scope = 'never'")), "a_key_outlives_a_pruned_job"),
    "retry without its key": (code(control, "_take_key_back", no_key), "a_retry_does_not_make_two_of_one_key"),
    "deferred transactions": (code(SqliteStore, "_begin", deferred), "nothing_is_read_before_the_lock_is_held"),
    "no transactions": (code(SqliteStore, "_begin", no_transaction), "a_crash_leaves_nothing_half_written"),
    "no savepoints": (code(SqliteStore, "_run", no_savepoint), "a_caller_that_fails_takes_nobody_along"),
    "an end is told by nobody who reports it": (code(settling, "announce", not_told), "an_end_is_told_of"),
    "an end is told by nobody who cancels": (code(control, "announce", not_told), "an_end_is_told_of"),
    "an end is told by nobody who replaces": (code(enqueueing, "announce", not_told), "an_end_is_told_of"),
    "an end is told by nobody who expires": (sql("expired", ("body.callback", "NULL")), "an_end_is_told_of"),
    "as far as what is left of it": (
        sql(
            "feed_now",
            ("(SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_event')", "(SELECT max(position) FROM holdfast_event)"),
        ),
        "what_is_new_is_new_to_who_has_read_what_is_gone",
    ),
    "what happened before the job": (
        sql("feed_near", ("ORDER BY page.job, page.number", "ORDER BY page.number DESC")),
        "a_job_is_told_of_before_what_happened_to_it",
    ),
    "following begins where others are": (code(Feed, "_join_job", join_anyway), "who_joins_late_looks_for_what_was_given_out"),
    "synced now and then": (code(SqliteStore, "_connect", synced_now_and_then), "an_acknowledged_job_is_on_the_disk"),
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    random.seed(1)
    return sqlite_world(tmp_path)


@pytest.mark.parametrize("store", sorted(STORES))
@pytest.mark.parametrize("name", PROMISES)
def test_the_engine_keeps_its_promise(tmp_path: Path, store: str, name: str) -> None:
    world = STORES[store](tmp_path)
    try:
        keep(name, world)
    finally:
        world.close()


@pytest.mark.parametrize("bug", MUTANTS)
def test_a_planted_bug_is_caught(world: World, monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    """In SQLite's SQL and driver: what is tested here are the promises, and they are the same for every store."""
    plant, name = MUTANTS[bug]
    world.app.migrate()
    plant(monkeypatch)
    with pytest.raises((AssertionError, HoldfastError)):  # anything else is an error of this file
        keep(name, world)
    world.close()


def test_every_promise_is_broken_by_some_mutant() -> None:
    assert set(PROMISES) == {promise for _, promise in MUTANTS.values()}
