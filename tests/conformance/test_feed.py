"""The feed of all jobs: every event once, each job's in their order, and on from any of them."""

from __future__ import annotations

import asyncio
import random
import re
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, IllegalMove, LeaseLost, SettingError, State
from holdfast.domain.event import Event
from holdfast.store import feed as feeding
from holdfast.store.feed import Cursor, cursor_of, feed_end, feed_page
from holdfast.store.postgres.schema import verbs
from holdfast.store.postgres.url import SETTINGS_LOCAL
from tests.conformance.world import World
from tests.servers import plain

Line = tuple[str, int, str]


def lines(events: Iterator[Event] | list[Event]) -> list[Line]:
    return [(event.job, event.number, event.kind) for event in events]


def everything(app: Holdfast) -> set[Line]:
    """All logs, as each job's own reader sees them."""
    return {line for job in app.jobs(limit=1_000) for line in lines(app.events(job.id))}


def check_order(seen: list[Line]) -> None:
    """Each once, and no job's event before its own earlier ones."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for job, number, _ in seen:
        numbers[job].append(number)
    assert all(each == list(range(each[0], each[0] + len(each))) for each in numbers.values()), numbers


def some_history(store: World) -> None:
    for state in (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.RUNNING, State.READY):
        store.job_in(state)
    store.add.using(run_after=60).enqueue(1)
    for _ in range(2):  # the second one's lane is known, and it is a chunk
        store.app.enqueue_many(store.once.bind(str(n)) for n in range(5))


def small_pages(app: Holdfast, cursor: Cursor, limit: int) -> list[Event]:
    """All that is there by now, so many events at a time."""
    found: list[Event] = []
    while True:
        page = app.store.read(lambda _, cursor=cursor: feed_page(cursor, limit))  # type: ignore[misc]
        assert len(page.events) <= limit
        found += page.events
        cursor = page.cursor
        if not page.more:
            return found


def test_the_feed_has_every_event_of_every_job(store: World) -> None:
    some_history(store)
    seen = lines(store.app.feed(after=""))
    check_order(seen)
    assert len(seen) == len(set(seen))
    assert set(seen) == everything(store.app)
    assert {kind for _, number, kind in seen if number == 1} == {"enqueued", "scheduled"}


def test_a_bulk_is_in_the_feed_when_the_first_of_its_jobs_are_gone(store: World) -> None:
    store.add.enqueue(0)
    before = store.app.store.read(lambda _: feed_end()).text
    batch = store.app.enqueue_many(store.add.bind(n) for n in range(9))
    for id in batch.ids[:3]:
        store.app.delete(id)
    assert lines(store.app.feed(after=before)) == [(id, 1, "enqueued") for id in batch.ids[3:]]


def test_a_new_reader_begins_with_what_comes_from_now_on(store: World) -> None:
    some_history(store)
    assert list(store.app.feed()) == []
    follower = store.app.feed(follow=True)
    job = store.add.enqueue(1)
    assert lines([next(follower)]) == [(job.id, 1, "enqueued")]


@pytest.mark.parametrize("near", [True, False])
def test_it_goes_on_from_any_event(store: World, near: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever way it is looked for."""
    if not near:
        monkeypatch.setattr(feeding, "NEAR_MAX", 0)
        monkeypatch.setattr(feeding, "REACH_JOBS", 3)
    some_history(store)
    first = list(store.app.feed(after=""))
    for state in (State.SKIPPED, State.SCHEDULED):
        store.job_in(state)
    store.app.cancel(first[-1].job)
    whole = first + list(store.app.feed(after=first[-1].cursor))
    assert set(lines(whole)) == everything(store.app)
    check_order(lines(whole))
    for place, event in enumerate(whole, 1):
        assert event.cursor is not None
        rest = lines(store.app.feed(after=event.cursor))
        assert sorted(rest) == sorted(lines(whole[place:])), f"after event {place} of {len(whole)}"
        check_order(rest)
        if place >= len(first):
            assert rest == lines(whole[place:])


@pytest.mark.parametrize("near", [True, False])
@pytest.mark.parametrize("limit", [1, 2, 7])
def test_pages_of_any_size_give_the_same(store: World, limit: int, near: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not near:
        monkeypatch.setattr(feeding, "NEAR_MAX", 0)
        monkeypatch.setattr(feeding, "REACH_JOBS", 2)
    some_history(store)
    begin = store.app.store.read(lambda _: feeding.feed_begin())
    found = lines(small_pages(store.app, begin, limit))
    assert found == lines(store.app.feed(after=""))
    assert small_pages(store.app, store.app.store.read(lambda _: feed_end()), limit) == []


def test_what_came_last_is_found_by_any_way(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    some_history(store)
    here = store.app.store.read(lambda _: feed_end())
    store.app.finish(store.claim(), 1)
    store.add.enqueue(7)
    near = lines(small_pages(store.app, here, 2))
    monkeypatch.setattr(feeding, "NEAR_MAX", 0)
    monkeypatch.setattr(feeding, "REACH_JOBS", 2)
    assert near == lines(small_pages(store.app, here, 2))
    assert sorted(kind for *_, kind in near) == ["enqueued", "started", "succeeded"]


def test_deleted_numbers_are_not_given_out_again(store: World) -> None:
    """The newest events go; what comes then is still new to who has read those."""
    store.job_in(State.SUCCEEDED)
    last = list(store.app.feed(after=""))[-1]
    store.app.delete(last.job)
    assert last.cursor is not None
    job = store.add.enqueue(2)
    store.app.finish(store.claim(), 2)
    assert lines(store.app.feed(after=last.cursor)) == [(job.id, 1, "enqueued"), (job.id, 2, "started"), (job.id, 3, "succeeded")]


def test_pruned_jobs_are_left_out(store: World) -> None:
    some_history(store)
    store.clock.advance(10)
    store.app.prune(0)
    assert set(lines(store.app.feed(after=""))) == everything(store.app)


def test_a_cursor_that_is_none_is_refused(store: World, tmp_path: Any) -> None:
    some_history(store)
    cursor = list(store.app.feed(after=""))[-1].cursor
    assert cursor is not None
    for bad in ("x", "0", cursor[1:], cursor + "x", f"{cursor}.1", cursor.replace(".", ":"), "0" * 12 + ".5:3:.5:3:.1.1", "é"):
        with pytest.raises(SettingError, match="cannot be gone on from"):
            store.app.feed(after=bad)
    other = Holdfast(f"sqlite:///{tmp_path / 'other.db'}")
    with pytest.raises(SettingError, match="of another database"):
        other.feed(after=cursor)
    other.close()
    mark = cursor_of(cursor).mark
    future = "999999999:999999999" + (":" if store.app.store.dialect == "postgresql" else "")
    with pytest.raises(SettingError, match="ahead of the database"):
        store.app.feed(after=f"{mark}.{future}")


def test_reading_the_feed_writes_nothing(store: World) -> None:
    some_history(store)
    before = store.everything()
    list(store.app.feed(after=""))
    assert store.everything() == before


def test_following_the_feed(store: World) -> None:
    seen: list[Line] = []
    ready = threading.Event()

    def follow() -> None:
        ready.set()
        for event in follower:
            seen.append((event.job, event.number, event.kind))
            if event.kind == "cancelled":
                break

    follower = store.another().feed(follow=True)
    thread = threading.Thread(target=follow)
    thread.start()
    ready.wait(30)
    job = store.add.enqueue(1)
    store.app.finish(store.claim(), 1)
    other = store.add.enqueue(2)
    store.app.cancel(other.id)
    thread.join(30)
    assert sorted(seen) == sorted(everything(store.app))
    assert {each for each, *_ in seen} == {job.id, other.id}
    check_order(seen)


def test_following_the_feed_in_async_code(store: World) -> None:
    async def follow() -> list[Line]:
        seen: list[Line] = []
        async for event in store.app.afeed(after="", follow=True):
            seen.append((event.job, event.number, event.kind))
            if event.kind == "enqueued" and len(seen) < 5:
                lease = await store.app.aclaim()
                assert lease is not None
                await store.app.afinish(lease, 1)
                await store.add.aenqueue(2)
            if len(seen) == 7:
                break
        return seen

    store.add.enqueue(1)
    seen = asyncio.run(asyncio.wait_for(follow(), 60))
    check_order(seen)
    assert [kind for *_, kind in seen] == ["enqueued", "started", "succeeded"] * 2 + ["enqueued"]


def test_nothing_is_missed_while_many_write(store: World) -> None:
    """Transactions overlap: they take numbers in one order and commit in another."""
    jobs, writers = 60, 3
    chance = random.Random(1)
    plans = [[chance.choice(["finish", "release", "cancel"]) for _ in range(jobs)] for _ in range(writers)]
    seen: list[Line] = []
    stop = "stop"

    def follow() -> None:
        for event in follower:
            seen.append((event.job, event.number, event.kind))
            if event.job == stop:
                return

    def write(app: Holdfast, plan: list[str]) -> None:
        for number, what in enumerate(plan):
            job = app.enqueue(store.add.bind(number))
            lease = app.claim()
            if what == "cancel":
                with suppress(IllegalMove):
                    app.cancel(job.id)
            if lease is not None and what == "release":
                with suppress(LeaseLost):
                    app.release(lease)
            elif lease is not None:
                with suppress(LeaseLost):
                    app.finish(lease, 1)

    follower = store.another().feed(follow=True)
    threads = [threading.Thread(target=write, args=(store.another(), plan)) for plan in plans]
    watcher = threading.Thread(target=follow)
    for thread in (watcher, *threads):
        thread.start()
    for thread in threads:
        thread.join(60)
    store.add.using(id=stop).enqueue(0)
    watcher.join(60)
    assert len(seen) == len(set(seen))
    assert set(seen) == everything(store.app)
    check_order(seen)


# What only happens where transactions overlap


@pytest.fixture
def connection(store: World) -> Iterator[Any]:
    if store.app.store.dialect != "postgresql":
        pytest.skip("in SQLite one transaction writes after the other")
    with psycopg.connect(plain(store.url)) as raw:
        yield raw


@pytest.mark.parametrize("near", [True, False])
def test_what_commits_late_is_not_skipped(store: World, connection: Any, near: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what commits meanwhile does not wait for it."""
    if not near:
        monkeypatch.setattr(feeding, "NEAR_MAX", 0)
    here = store.app.store.read(lambda _: feed_end()).text
    late = store.app.on(connection).enqueue(store.add.bind(1))
    soon = store.add.enqueue(2)
    [first] = store.app.feed(after=here)
    assert (first.job, first.kind) == (soon.id, "enqueued")
    assert lines(store.app.feed(after=first.cursor)) == []
    connection.commit()
    assert lines(store.app.feed(after=first.cursor)) == [(late.id, 1, "enqueued")]
    assert sorted(lines(store.app.feed(after=here))) == sorted([(soon.id, 1, "enqueued"), (late.id, 1, "enqueued")])


def test_a_follower_is_given_what_commits_late(store: World, connection: Any) -> None:
    follower = store.app.feed(follow=True)
    late = store.app.on(connection).enqueue(store.add.bind(1))
    soon = store.add.enqueue(2)
    assert lines([next(follower)]) == [(soon.id, 1, "enqueued")]
    store.app.cancel(soon.id)
    assert lines([next(follower)]) == [(soon.id, 2, "cancelled")]
    connection.commit()
    assert lines([next(follower)]) == [(late.id, 1, "enqueued")]


def test_a_transaction_that_began_earlier_writes_later(store: World, connection: Any) -> None:
    """Its number is smaller than that of the transaction which made the job that it moves."""
    here = store.app.store.read(lambda _: feed_end())
    connection.execute("SELECT pg_current_xact_id()")
    job = store.add.enqueue(1)
    assert store.app.on(connection).claim() is not None
    connection.commit()
    assert lines(small_pages(store.app, here, 1)) == [(job.id, 1, "enqueued"), (job.id, 2, "started")]


def test_what_is_rolled_back_never_comes(store: World, connection: Any) -> None:
    here = store.app.store.read(lambda _: feed_end()).text
    store.app.on(connection).enqueue(store.add.bind(1))
    kept = store.add.enqueue(2)
    assert lines(store.app.feed(after=here)) == [(kept.id, 1, "enqueued")]
    connection.rollback()
    assert lines(store.app.feed(after=here)) == [(kept.id, 1, "enqueued")]


def test_a_long_transaction_elsewhere_does_not_make_each_look_longer(store: World, connection: Any) -> None:
    """Of what was given while it lasts nothing is looked at again."""
    connection.execute("SELECT pg_current_xact_id()")
    store.app.enqueue_many(store.add.bind(n) for n in range(300))
    here = store.app.store.read(lambda _: feed_end())
    fresh = store.add.enqueue(1)
    there = store.app.store.read(lambda _: feed_end())
    text = verbs("holdfast")["feed_few"].text
    for name, value in {**here._asdict(), "upto": there.since, "limit": 100}.items():
        text = text.replace(f":{name}::", f"'{value}'::")
    with psycopg.connect(plain(store.url)) as ours:
        ours.execute(SETTINGS_LOCAL.encode())
        plan = "\n".join(line for (line,) in ours.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {text}".encode()))
    looked_at = [int(rows) for rows in re.findall(r"(?:_tx on .*rows=|Removed by Filter: )(\d+)", plan)]
    assert looked_at
    assert sum(looked_at) == 1, plan
    assert lines(store.app.feed(after=here.text)) == [(fresh.id, 1, "enqueued")]
