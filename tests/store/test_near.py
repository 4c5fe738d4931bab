"""A busy worker on PostgreSQL looks for jobs where it last claimed, in the same round trip in which it files: when it may, and
where it stands if that comes to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from holdfast.store import browse, claim
from holdfast.worker.clerk import Clerk
from holdfast.worker.desk import Desk
from holdfast.worker.terms import Terms
from tests.conformance.world import World

LEASE = 30_000_000


@pytest.fixture
def clerk(store: World) -> Iterator[Clerk]:
    """Of a worker that has claimed before, and has left eight jobs for now."""
    clerk = Clerk(store.app.store, store.app.registry, Desk(4), Terms("w", "h", 1, None, 30.0, None), print, print)
    clerk.open()
    store.app.enqueue_many(store.add.bind(number) for number in range(9))
    clerk._lookout.lanes = store.app.store.read(lambda _: browse.lane_names())
    (first,) = store.app.store.write(lambda moment: claim.claim(moment, holder(clerk), list(clerk._lookout.lanes), 1))
    clerk._lookout._cursor.places = {first.lane: (first.priority, first.seq)}
    clerk._lookout._cursor._looked_tick = store.clock.tick()
    yield clerk
    clerk._watcher.close()


def holder(clerk: Clerk) -> claim.Holder:
    return claim.Holder(clerk.worker, "w", LEASE)


def verbs_of(store: World, clerk: Clerk, room: int = 3) -> tuple[Any, list[str]]:
    said: list[str] = []
    store.app.store.probe = said.append
    turn = store.app.store.write(clerk._filing([], False, room))
    store.app.store.probe = None
    return turn, said


def test_it_looks_where_it_stands_along_with_its_beat(store: World, clerk: Clerk) -> None:
    turn, said = verbs_of(store, clerk)
    assert len(turn.claimed) == 3
    assert said == ["begin", "notices", "beat", "ready_in_lane", "claim_jobs", "commit", "committed"]


def test_who_may_have_to_wait_for_others_holds_nothing_that_they_may_want(store: World, clerk: Clerk) -> None:
    """What it holds and does not know of is locked by somebody, who may be about to take what is ready: nobody would get on."""
    clerk._in_doubt = True
    turn, said = verbs_of(store, clerk)
    assert len(turn.claimed) == 3
    assert said.index("claims_of") < said.index("ready_in_lane")


def test_a_worker_that_was_given_up_stands_where_it_stood(store: World, clerk: Clerk) -> None:
    before = dict(clerk._lookout._cursor.places)
    store.rows("WITH gone AS (DELETE FROM holdfast.running) DELETE FROM holdfast.worker RETURNING 1")
    turn, _ = verbs_of(store, clerk)
    assert (turn.alive, turn.claimed) == (False, [])
    assert clerk._lookout._cursor.places == before
    repair(store)


def test_a_turn_that_is_tried_again_starts_from_the_same_place(store: World, clerk: Clerk) -> None:
    failures = [psycopg.errors.DeadlockDetected("two wait for each other")]

    def fail(what: str) -> None:
        if what == "claim_jobs" and failures:
            raise failures.pop()

    store.app.store.probe = fail
    turn = store.app.store.write(clerk._filing([], False, 3))
    first = store.rows("SELECT min(seq) FROM holdfast_body")[0][0]
    assert [each.seq for each in turn.claimed] == [first + 1, first + 2, first + 3]


def repair(store: World) -> None:
    """The job that the worker had held is nobody's: only a test can do that."""
    store.rows("WITH gone AS (DELETE FROM holdfast.event WHERE kind = 'started') DELETE FROM holdfast.moved RETURNING 1")
    first = "SELECT lane, priority, seq FROM holdfast.body ORDER BY seq LIMIT 1"
    store.rows(f"INSERT INTO holdfast.ready (lane, priority, seq) {first} RETURNING 1")


def test_where_the_lane_is_not_known_by_name_yet_that_is_asked_first(store: World, clerk: Clerk) -> None:
    """As when the server went away right behind the answer that brought the worker there."""
    clerk._lookout.lanes = {}
    turn, said = verbs_of(store, clerk)
    assert len(turn.claimed) == 3
    assert said.index("lane_names") < said.index("ready_in_lane")
