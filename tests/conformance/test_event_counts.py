"""What metrics count: every event once, whenever it was committed, with how long the job had waited or run."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, Retry, RetryAfter
from holdfast.domain.states import State
from holdfast.store.browse import lane_names
from holdfast.store.event_counts import EventCount, event_counts
from holdfast.store.feed import Cursor, feed_end
from holdfast.store.op import Op, Row, Statement
from holdfast.testing.elsewhere import elsewhere
from tests.conformance.world import REACHABLE, World
from tests.servers import plain
from tests.worker import process_tasks


class Reader:
    """Looks again and again, from now on."""

    def __init__(self, store: World) -> None:
        self._app: Holdfast = store.app
        self.cursor: Cursor = self._app.store.read(lambda _: feed_end())

    def look(self) -> list[EventCount]:
        found = self._app.store.read(lambda _: event_counts(self.cursor))
        self.cursor = found.cursor
        return found.counts

    def kinds(self) -> Counter[tuple[str, str, str]]:
        counted: Counter[tuple[str, str, str]] = Counter()
        found = self.look()
        names = self._app.store.read(lambda _: lane_names())
        for each in found:
            counted[(*names[each.lane], each.kind)] += each.number
        return counted


def seconds(found: list[EventCount], kind: str) -> list[float | None]:
    return [None if each.micros is None else each.micros / 1e6 for each in found if each.kind == kind]


def test_they_are_the_events_of_all_jobs_each_counted_once(store: World) -> None:
    before = store.add.enqueue(0)
    reader = Reader(store)
    total: Counter[tuple[str, str, str]] = Counter()
    jobs = []
    for state in REACHABLE:
        jobs.append(store.job_in(state))
        store.clock.advance(1)
        total += reader.kinds()
    store.app.retry(next(job for job in jobs if store.state(job) is State.FAILED).id)
    store.once.enqueue("x")
    store.app.cancel(before.id)
    total += reader.kinds()
    assert reader.kinds() == Counter()
    expected = Counter(
        (job.queue, job.task, event.kind)
        for job in store.app.jobs()
        for event in store.app.events(job.id)
        if not (job.id == before.id and event.number == 1)
    )
    assert total == expected


def test_a_start_tells_how_long_the_job_was_ready_and_an_end_how_long_it_ran(store: World) -> None:
    reader = Reader(store)
    store.add.enqueue(1)
    store.clock.advance(30)
    lease = store.claim(seconds=100)
    store.clock.advance(7)
    store.app.fail(lease, "not yet")  # again in 10 seconds
    store.clock.advance(25)
    lease = store.claim(seconds=100)  # which made it ready just now
    store.clock.advance(2)
    store.app.finish(lease, 2)
    found = reader.look()
    assert seconds(found, "started") == [30.0, 0.0]
    assert seconds(found, "backed_off") == [7.0], "although it has started again since"
    assert seconds(found, "succeeded") == [2.0]
    assert seconds(found, "enqueued") == [None]


def test_a_job_that_was_released_waits_since_then(store: World) -> None:
    reader = Reader(store)
    store.add.enqueue(1)
    store.clock.advance(500)
    store.app.release(store.claim(seconds=100))
    store.clock.advance(3)
    store.claim(seconds=100)
    assert seconds(reader.look(), "started") == [500.0, 3.0]


def test_many_events_of_one_kind_come_as_one_line(store: World) -> None:
    reader = Reader(store)
    store.app.enqueue_many(store.add.bind(n) for n in range(300))
    assert [(each.kind, each.number) for each in reader.look()] == [("enqueued", 300)]


def test_what_is_committed_late_is_counted_when_it_is_and_once(store: World) -> None:
    reader = Reader(store)
    with closing(connect(store)) as late:
        store.add.using(on=late).enqueue(1)
        if store.app.store.dialect != "sqlite":  # which has one writer, and he is not done
            store.once.enqueue("x")
            assert reader.kinds() == {("other", "once", "enqueued"): 1}
        assert reader.kinds() == Counter()
        late.commit()
    assert reader.kinds() == {("default", "add", "enqueued"): 1}
    assert reader.kinds() == Counter()


def connect(store: World) -> Any:
    if store.app.store.dialect == "sqlite":
        store.app.migrate()
        return sqlite3.connect(store.url.removeprefix("sqlite:///"))
    return psycopg.connect(plain(store.url))


def test_depths_are_the_counts_of_all_states_but_succeeded(store: World) -> None:
    for state in REACHABLE:
        store.job_in(state)
    rows = store.app.store.read(lambda _: _depths())
    found = {(queue, task, state): number for queue, task, state, number in rows}
    expected = Counter((job.queue, job.task, str(job.state)) for job in store.app.jobs() if job.state is not State.SUCCEEDED)
    assert {place: number for place, number in found.items() if number} == expected
    assert len(rows) == len(found)
    assert {(queue, task) for queue, task, state in found if state == "ready"} == {place[:2] for place in found}


def _depths() -> Op[list[Row]]:
    rows: list[Row] = yield Statement("depths")
    return rows


@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_f23_times_are_those_of_the_code_and_not_of_claim_and_commit(store: World, kind: str) -> None:
    """All are claimed at once and run one after the other; each takes no time, and half a minute passes before its commit."""

    def work(n: int) -> None:
        store.clock.advance(30)
        if n == 2:
            raise RetryAfter(60)

    async def work_in_loop(n: int) -> None:
        work(n)

    task = store.app.task(name="work", retry=Retry(2))(work_in_loop if kind == "loop" else work)
    start, reader = store.clock.moment, Reader(store)
    jobs = [task.enqueue(n) for n in range(3)]
    store.app.worker(concurrency=1, lease=3600).run_until_empty()
    ended = [store.get(job) for job in jobs]
    assert [job.started_at for job in ended] == [start + timedelta(seconds=30 * n) for n in range(3)]
    for job in ended[:2]:
        assert job.started_at is not None
        assert job.finished_at is not None
        assert job.finished_at - job.started_at < timedelta(seconds=5)
    (backed_off,) = [event for event in store.app.events(jobs[2].id) if event.kind == "backed_off"]
    assert 0 <= backed_off.data["run_seconds"] < 5
    found = reader.look()
    told = [*seconds(found, "succeeded"), *seconds(found, "backed_off")]
    assert len(told) == 3
    assert all(each is not None and 0 <= each < 5 for each in told)


def test_f23_a_child_process_measures_its_code_alone(tmp_path: Path) -> None:
    with elsewhere(process_tasks.app, f"sqlite:///{tmp_path}/jobs.db") as app:
        job = process_tasks.add.enqueue(1)
        began = time.monotonic()
        app.worker().run_until_empty()
        whole = time.monotonic() - began
        done = app.wait(job.id)
        (claimed,) = [event for event in app.events(job.id) if event.kind == "started"]
    assert done.started_at is not None
    assert done.finished_at is not None
    assert (done.finished_at - done.started_at).total_seconds() < whole / 10, "without the start of its process"
    assert done.started_at > claimed.at
