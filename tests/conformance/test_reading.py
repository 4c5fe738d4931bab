"""Reading: pages in both directions under every filter, counts, a log without gaps, and waiting for an end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from holdfast import Job, JobNotFound, SettingError, State
from holdfast.domain.bounds import EVENTS_PAGE_MAX, PAGE_MAX
from holdfast.store.settle import Report, settle
from tests.conformance.world import REACHABLE, World


def ids(jobs: list[Job]) -> list[str]:
    return [job.id for job in jobs]


@pytest.fixture
def crowd(store: World) -> list[Job]:
    """Two jobs in each state that can be reached, and some with a tag or a parent; oldest first."""
    jobs = [store.job_in(state) for state in REACHABLE for _ in range(2)]
    jobs.append(store.once.using(tags=["eu", "big"], parent=jobs[0]).enqueue("a"))
    jobs.append(store.add.using(tags=["eu"], parent=jobs[0]).enqueue(1))
    jobs.append(store.add.using(tags=["us"], queue="other").enqueue(1))
    return [store.get(job) for job in jobs]


FILTERS: list[dict[str, Any]] = [
    {}, *({"state": state} for state in REACHABLE), {"state": "waiting"}, {"queue": "other"}, {"task": "add"}, {"task": "none"},
    {"tag": "eu"}, {"tag": "eu", "task": "add"}, {"tag": "eu", "state": "ready"}, {"tag": "eu", "queue": "other"},
    {"tag": "eu", "state": "failed"}, {"state": "ready", "queue": "other"}, {"state": "ready", "task": "once"},
    {"state": "succeeded", "task": "add"}, {"state": "failed", "queue": "for-failed"}, {"parent": "first"},
    {"parent": "first", "tag": "big"}, {"parent": "first", "state": "ready", "task": "add"}, {"queue": "other", "task": "once"},
]  # fmt: skip


def matches(job: Job, chosen: dict[str, Any]) -> bool:
    return all(value in job.tags if name == "tag" else getattr(job, name) == value for name, value in chosen.items())


@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("chosen", FILTERS, ids=str)
def test_filters_and_pages(store: World, crowd: list[Job], chosen: dict[str, Any], newest: bool) -> None:
    chosen = {**chosen, "parent": crowd[0].id} if "parent" in chosen else chosen
    expected = [job.id for job in crowd if matches(job, chosen)]
    if newest:
        expected.reverse()
    assert ids(store.app.jobs(**chosen, newest=newest)) == expected
    pages, after = [], None
    while page := store.app.jobs(**chosen, newest=newest, limit=2, after=after):
        pages += ids(page)
        after = page[-1]
    assert pages == expected


def test_a_task_and_a_job_can_be_given_as_objects(store: World, crowd: list[Job]) -> None:
    assert ids(store.app.jobs(task=store.once)) == ids(store.app.jobs(task="once")) != []
    assert ids(store.app.jobs(parent=crowd[0])) == ids(store.app.jobs(parent=crowd[0].id)) != []


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"limit": PAGE_MAX + 1}, {"state": "done"}])
def test_a_filter_that_makes_no_sense_is_refused(store: World, wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        store.app.jobs(**wrong)


def test_what_does_not_exist(store: World) -> None:
    assert store.app.get("nobody") is None
    assert store.app.jobs() == []
    assert store.app.stats() == {}
    for ask in (store.app.wait, store.app.events, store.app.cancel, store.app.retry, store.app.delete):
        with pytest.raises(JobNotFound, match="nobody"):
            ask("nobody")
    with pytest.raises(JobNotFound, match="nobody"):
        store.app.jobs(after="nobody")


def test_stats_count_every_task_in_every_state(store: World, crowd: list[Job]) -> None:
    expected: dict[str, dict[str, int]] = {}
    for job in crowd:
        expected.setdefault(job.task, {}).setdefault(job.state, 0)
        expected[job.task][job.state] += 1
    assert store.app.stats() == expected


def test_events_are_numbered_from_one_and_can_be_read_from_anywhere(store: World) -> None:
    job = store.add.enqueue(1)
    for _ in range(3):
        store.app.release(store.claim())
        store.clock.advance(1)
    events = list(store.app.events(job.id))
    assert [event.number for event in events] == list(range(1, 8))
    assert [event.kind for event in events] == ["enqueued", *["started", "released"] * 3]
    assert [event.number for event in store.app.events(job.id, after=5)] == [6, 7]
    assert list(store.app.events(job.id, after=7)) == []
    assert [event.at for event in events] == sorted(event.at for event in events)
    assert {event.job for event in events} == {job.id}


def test_events_say_what_happened(store: World) -> None:
    store.add.enqueue(1)
    lease = store.claim(worker="hand-1")
    job = store.app.fail(lease, ValueError("too large"))
    started, backed_off = list(store.app.events(job.id, after=1))
    assert started.data == {"attempt": 1, "worker": "hand-1"}
    assert backed_off.data["kind"] == "ValueError"
    assert backed_off.data["message"] == "too large"
    assert (backed_off.data["attempt"], backed_off.data["attempts_max"], backed_off.data["delay_seconds"]) == (1, 3, 10.0)


def test_a_log_longer_than_a_page_is_read_to_its_end(store: World) -> None:
    job = store.add.enqueue(1)
    lease = store.claim()
    said = [("page", store.clock.now(), f'{{"n":{n}}}') for n in range(EVENTS_PAGE_MAX + 10)]
    report = Report(seq=lease.seq, token=lease.token, lane=1, attempt=1, events=said)
    assert store.app.store.write(lambda moment: settle(moment, [report], lease.worker)).lost == set()
    events = list(store.app.events(job.id))
    assert [event.number for event in events] == list(range(1, EVENTS_PAGE_MAX + 13))
    assert events[-1].data == {"n": EVENTS_PAGE_MAX + 9}


def test_following_ends_with_the_job(store: World) -> None:
    job = store.add.enqueue(1)
    seen: list[str] = []
    started = threading.Event()

    def follow() -> None:
        for event in store.another().events(job.id, follow=True):
            seen.append(event.kind)
            if event.kind == "started":
                started.set()

    follower = threading.Thread(target=follow)
    follower.start()
    lease = store.claim()
    assert started.wait(30)
    store.app.finish(lease, 2)
    follower.join(30)
    assert seen == ["enqueued", "started", "succeeded"]


def test_waiting_ends_with_the_job(store: World) -> None:
    job = store.add.enqueue(1)
    ended: list[Job] = []
    waiter = threading.Thread(target=lambda: ended.append(store.another().wait(job.id, timeout=30)))
    waiter.start()
    store.app.finish(store.claim(), 2)
    waiter.join(30)
    assert (ended[0].state, ended[0].result) == (State.SUCCEEDED, 2)


def test_async_waiting_and_following_end_with_the_job(store: World) -> None:
    job = store.add.enqueue(1)

    async def both() -> tuple[Job, list[str]]:
        async def follow() -> list[str]:
            return [event.kind async for event in store.app.aevents(job.id, follow=True)]

        following, waiting = asyncio.create_task(follow()), asyncio.create_task(store.app.await_job(job.id, timeout=30))
        lease = await store.app.aclaim()
        assert lease is not None
        await store.app.afinish(lease, 2)
        return await waiting, await following

    ended, kinds = asyncio.run(both())
    assert (ended.result, kinds) == (2, ["enqueued", "started", "succeeded"])


def test_waiting_gives_up_when_the_time_is_over(store: World) -> None:
    job = store.add.enqueue(1)
    with pytest.raises(TimeoutError, match="still ready"):
        store.app.wait(job.id, timeout=0)
    with pytest.raises(TimeoutError, match="still ready"):
        asyncio.run(store.app.await_job(job.id, timeout=0.001))


def test_a_job_tells_its_handle(store: World) -> None:
    ours, theirs = store.add.enqueue(1), store.add.using(id="mine").enqueue(1)
    assert ours.handle == ours.id[-16:]
    assert len(theirs.handle) == 16
    assert int(theirs.handle, 16)


def test_an_app_that_is_closed_watches_no_more(store: World) -> None:
    job, before = store.add.enqueue(1), set(threading.enumerate())
    with pytest.raises(TimeoutError):  # long enough for one look, or it would give up before it has begun to watch
        store.app.wait(job.id, timeout=2)
    [watching] = [thread for thread in set(threading.enumerate()) - before if thread.name == "holdfast-pulse"]
    store.app.close()
    watching.join(30)
    assert not watching.is_alive()
