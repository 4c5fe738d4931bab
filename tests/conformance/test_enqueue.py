"""Accepting jobs: what is asked for is what is stored, and what runs first is decided by priority, then age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Conflict, PayloadError, SettingError, State
from tests.conformance.world import World


def test_a_job_is_stored_as_it_was_asked_for(store: World) -> None:
    parent = store.once.enqueue("parent")
    job = store.add.using(
        id="my:job/1", priority=7, queue="eu", attempts=9, tags=["eu", "big"], meta={"who": "me", "n": [1, None]}, parent=parent
    ).enqueue(1, b=2)
    stored = store.get(job)
    for each in (job, stored):
        assert (each.id, each.task, each.queue, each.state, each.priority) == ("my:job/1", "add", "eu", State.READY, 7)
        assert (each.attempt, each.attempts_max, each.token) == (0, 9, 0)
        assert each.arguments == {"a": 1, "b": 2}
        assert each.tags == ("eu", "big")
        assert each.meta == {"who": "me", "n": [1, None]}
        assert each.parent == parent.id
        assert each.created_at == store.clock.moment
        assert (each.result, each.error, each.errors, each.run_after, each.started_at, each.finished_at) == (
            None, None, (), None, None, None,
        )  # fmt: skip
    assert (job.created, job.same_arguments, stored.event_count) == (True, True, 1)


def test_only_given_arguments_are_stored(store: World) -> None:
    assert store.get(store.add.enqueue(1)).arguments == {"a": 1}


def test_an_id_that_is_taken_is_a_conflict_and_nothing_is_written(store: World) -> None:
    store.add.using(id="one").enqueue(1)
    before = store.everything()
    with pytest.raises(Conflict, match="'one' is taken"):
        store.add.using(id="one").enqueue(2)
    assert store.everything() == before


def test_an_id_that_is_given_twice_in_one_batch_is_a_conflict_and_nothing_is_written(store: World) -> None:
    store.add.enqueue(0)
    before = store.everything()
    with pytest.raises(Conflict):
        store.app.enqueue_many(store.add.using(id="same").bind(n) for n in range(2))
    assert store.everything() == before


def test_ids_grow_with_time_and_are_32_hex_digits(store: World) -> None:
    ids = []
    for n in range(5):
        ids.append(store.add.enqueue(n).id)
        store.clock.advance(0.001)
    assert ids == sorted(ids)
    assert all(len(id) == 32 and int(id, 16) for id in ids)


def test_the_lowest_priority_number_runs_first_then_the_oldest(store: World) -> None:
    wanted = {}
    for n, priority in enumerate([100, 5, 100, -3, 5]):
        wanted[store.add.using(priority=priority).enqueue(n).id] = n
    order = [wanted[store.claim().job.id] for _ in range(5)]
    assert order == [3, 1, 4, 0, 2]
    assert store.app.claim() is None


def test_priority_holds_across_queues_and_tasks(store: World) -> None:
    late = store.add.using(priority=50).enqueue(1)
    first = store.once.using(priority=10).enqueue("a")
    middle = store.add.using(priority=20, queue="third").enqueue(2)
    assert [store.claim().job.id for _ in range(3)] == [first.id, middle.id, late.id]


def test_claims_can_be_narrowed_to_queues_and_tasks(store: World) -> None:
    store.add.using(priority=1).enqueue(1)
    other = store.once.enqueue("a")
    assert store.app.claim(queues=["none-such"]) is None
    assert store.app.claim(tasks=[store.add], queues=["other"]) is None
    assert store.claim(tasks=["once"]).job.id == other.id


@pytest.mark.parametrize("when", [60, 60.0, timedelta(minutes=1), "moment"])
def test_run_after_keeps_a_job_back_until_its_time(store: World, when: float | timedelta | str) -> None:
    due = store.clock.moment + timedelta(minutes=1)
    after = due if isinstance(when, str) else when
    job = store.add.using(run_after=after).enqueue(1)
    assert (job.state, job.run_after) == (State.SCHEDULED, due)
    store.clock.advance(59.999)
    assert store.app.claim() is None
    store.clock.advance(0.001)
    assert store.claim().job.id == job.id
    assert store.kinds(job) == ["scheduled", "promoted", "started"]


def test_a_time_that_has_passed_means_now(store: World) -> None:
    job = store.add.using(run_after=datetime(2001, 1, 1, tzinfo=UTC)).enqueue(1)
    assert (job.state, job.run_after) == (State.READY, None)


def test_a_far_future_job_is_never_leased_early(store: World) -> None:
    store.add.using(run_after=150).enqueue(1)
    for _ in range(9):
        store.clock.advance(15)
        assert store.app.claim(seconds=15) is None
    store.clock.advance(15)
    assert store.claim(seconds=15).token == 1


def test_promoted_jobs_keep_their_place_in_the_order(store: World) -> None:
    early = store.add.using(run_after=5).enqueue(1)
    later = store.add.enqueue(2)
    store.clock.advance(5)
    assert [store.claim().job.id for _ in range(2)] == [early.id, later.id]


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 1.5}, {"priority": True}, {"run_after": datetime(2031, 1, 1)}, {"run_after": -1}, {"attempts": 0},
        {"attempts": -3}, {"id": ""}, {"id": "a b"}, {"tags": "eu"}, {"tags": ["a b"]}, {"meta": ["no"]}, {"queue": "a/b"},
        {"key": ()}, {"parent": "a b"},
    ],
)  # fmt: skip
def test_an_option_that_makes_no_sense_is_refused_before_anything_is_written(store: World, options: dict[str, object]) -> None:
    store.app.migrate()
    before = store.everything()
    with pytest.raises(SettingError):
        store.add.using(**options).enqueue(1)  # type: ignore[arg-type]
    assert store.everything() == before


def test_arguments_that_do_not_fit_are_refused_before_anything_is_written(store: World) -> None:
    store.app.migrate()
    before = store.everything()
    for wrong in ({"a": "one"}, {"a": float("nan")}, {}, {"a": 1, "c": 2}):
        with pytest.raises(PayloadError):
            store.add.enqueue(**wrong)
    assert store.everything() == before


def test_what_is_acknowledged_is_seen_by_others_at_once(store: World) -> None:
    job = store.add.enqueue(1)
    seen = store.another().get(job.id)
    assert seen is not None
    assert seen.state == State.READY
