"""Followers: any number of them behind one watcher, none of them dropped, none slowed by another."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from holdfast import Holdfast, JobNotFound, StoreUnavailable
from holdfast.domain.event import Event
from holdfast.events import feed as feeding
from holdfast.events.follower import MAIL_MAX, LoopFollower, ThreadFollower, wake_all
from holdfast.store import browse
from holdfast.store.settle import Report, settle
from tests.conformance.world import World
from tests.servers import Server, own_server
from tests.until import until

SECONDS = 30


def say(world: World, lease: Any, *numbers: int) -> None:
    """As the job's own code would, all in one transaction."""
    said = [("word", world.clock.now(), f'{{"n":{number}}}') for number in numbers]
    report = Report(seq=lease.seq, token=lease.token, lane=1, attempt=1, events=said)
    assert world.app.store.write(lambda moment: settle(moment, [report], lease.worker)).lost == set()


def words(events: list[Event]) -> list[int]:
    return [event.data["n"] for event in events if event.kind == "word"]


class Listening:
    """Follows a job in a thread; `gate` holds it back after its first event."""

    def __init__(self, app: Holdfast, id: str, after: int = 0) -> None:
        self.seen: list[Event] = []
        self.begun, self.gate = threading.Event(), threading.Event()
        self.gate.set()
        self._events = app.events(id, after, follow=True)
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        for event in self._events:
            self.seen.append(event)
            self.begun.set()
            assert self.gate.wait(SECONDS)

    def join(self) -> list[Event]:
        self.gate.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "it was not told of the end"
        return self.seen


def test_followers_that_came_at_any_time_have_everything(store: World) -> None:
    job = store.add.enqueue(1)
    early = [Listening(store.app, job.id) for _ in range(3)]
    lease = store.claim()
    say(store, lease, 1, 2, 3)
    middle = [Listening(store.app, job.id, after) for after in (0, 2, 4, 5)]
    for number in range(4, 20):
        say(store, lease, number)
    store.app.finish(lease, 1)
    late = Listening(store.app, job.id)
    whole = list(store.app.events(job.id))
    for listening in (*early, late):
        assert listening.join() == whole
    for listening, after in zip(middle, (0, 2, 4, 5), strict=True):
        assert listening.join() == whole[after:]


def test_who_is_slow_misses_nothing_and_holds_up_nobody(store: World) -> None:
    job = store.add.enqueue(1)
    lease = store.claim()
    slow, quick = Listening(store.app, job.id), Listening(store.app, job.id)
    slow.gate.clear()
    assert slow.begun.wait(SECONDS)
    count = MAIL_MAX + 500
    for first in range(0, count, 100):
        say(store, lease, *range(first, first + 100))
    store.app.finish(lease, 1)
    assert words(quick.join()) == list(range(count))
    assert len(slow.seen) <= 3, "it stands still meanwhile"
    assert words(slow.join()) == list(range(count))
    assert [event.number for event in slow.seen] == list(range(1, count + 4))


def test_a_mailbox_does_not_grow_without_bound() -> None:
    follower = ThreadFollower(1, 0)
    follower.behind = False
    events = [Event("j", number, "word", None, None) for number in range(1, MAIL_MAX + 1)]  # type: ignore[arg-type]
    follower.put(events, MAIL_MAX)
    assert (len(follower.mail), follower.behind, follower.place) == (MAIL_MAX, False, MAIL_MAX)
    follower.put(events[:1], MAIL_MAX + 1)
    assert (len(follower.mail), follower.behind, follower.place) == (MAIL_MAX, True, MAIL_MAX)


def test_a_flood_is_read_by_those_who_want_it(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "EVENTS_EACH_MAX", 5)
    monkeypatch.setattr(feeding, "EVENTS_READ_MAX", 6)
    jobs = [store.add.enqueue(n) for n in range(4)]
    leases = [store.claim() for _ in jobs]
    followers = [Listening(store.app, job.id) for job in jobs]
    for first in range(0, 60, 6):
        for lease, size in zip(leases, (1, 4, 5, 6), strict=True):
            say(store, lease, *range(first, first + size))
    for lease in leases:
        store.app.finish(lease, 1)
    for job, follower in zip(jobs, followers, strict=True):
        assert follower.join() == list(store.app.events(job.id))


def test_a_job_that_is_deleted_ends_the_stream(store: World) -> None:
    job = store.add.enqueue(1)
    follower = Listening(store.app, job.id)
    assert follower.begun.wait(SECONDS)
    store.app.delete(job.id)
    assert [event.kind for event in follower.join()] == ["enqueued"]


@pytest.mark.parametrize("page", [1, 1_000])
def test_another_job_with_the_same_id_is_not_followed(store: World, page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is what it says read from the store."""
    monkeypatch.setattr("holdfast.client.following.EVENTS_PAGE_MAX", page)
    job = store.add.using(id="mine").enqueue(1)
    follower = store.app.events(job.id, follow=True)
    assert next(follower).number == 1
    store.app.delete(job.id)
    store.add.using(id="mine").enqueue(2)
    store.claim()
    assert list(follower) == []


def test_a_job_that_comes_back_is_followed_on(store: World) -> None:
    job = store.add.enqueue(1)
    follower = store.app.events(job.id, follow=True)
    assert next(follower).kind == "enqueued"
    store.app.release(store.claim())
    store.app.finish(store.claim(), 2)
    assert [event.kind for event in follower] == ["started", "released", "started", "succeeded"]


def test_nobody_is_there(store: World) -> None:
    with pytest.raises(JobNotFound):
        store.app.events("nobody", follow=True)


def test_waiting_for_a_job_that_is_deleted(store: World) -> None:
    job = store.add.enqueue(1)
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            store.app.wait(job.id, timeout=SECONDS)
        except JobNotFound as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: store.app._feed.followers == 1, "1 follow")
    store.app.delete(job.id)
    thread.join(SECONDS)
    assert len(raised) == 1


# Many of them


async def collect(events: AsyncIterator[Event]) -> list[int]:
    return [event.number async for event in events]


def test_many_followers_cost_one_question(store: World) -> None:
    """And no thread each."""
    asked: list[str] = []
    jobs = [store.add.enqueue(n) for n in range(30)]
    threads = threading.active_count()

    async def follow() -> list[list[int]]:
        every = [asyncio.create_task(collect(store.app.aevents(job.id, follow=True))) for job in jobs for _ in range(10)]
        while store.app._feed.followers < len(every):
            await asyncio.sleep(0.01)
        store.app.store.probe = asked.append
        for job in jobs:
            await store.app.acancel(job.id)
        assert threading.active_count() < threads + 20
        return await asyncio.gather(*every)

    assert asyncio.run(follow()) == [[1, 2]] * 300
    commits, questions = asked.count("committed"), asked.count("changed_jobs")
    assert commits == len(jobs)
    assert 1 <= questions <= commits * 3, "one for all of them after a commit, and again for those that come late"
    assert asked.count("events") + asked.count("log_of") == 0, "nobody looks for himself"


def test_idle_followers_ask_for_nothing(store: World) -> None:
    job = store.add.enqueue(1)

    async def follow() -> list[str]:
        every = [asyncio.create_task(collect(store.app.aevents(job.id, follow=True))) for _ in range(50)]
        while store.app._feed.followers < len(every):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        asked: list[str] = []
        store.app.store.probe = asked.append
        await asyncio.sleep(0.5)
        store.app.store.probe = None
        await store.app.acancel(job.id)
        await asyncio.gather(*every)
        return asked

    assert len(asyncio.run(follow())) <= 4


def test_followers_that_come_and_go_leave_nothing_behind(store: World) -> None:
    job = store.add.enqueue(1)

    async def come_and_go(times: int) -> None:
        for turn in range(times):
            events = store.app.aevents(job.id, follow=True)
            assert (await anext(events)).number == 1
            reading = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0)
            if turn % 2:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            else:
                await asyncio.sleep(0.0005)
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
            await events.aclose()  # type: ignore[attr-defined]
        assert len(asyncio.all_tasks()) == 1

    def state() -> tuple[int, int]:
        gc.collect()
        kept = [each for each in gc.get_objects() if isinstance(each, (LoopFollower, ThreadFollower))]
        return len(kept), len(os.listdir("/proc/self/fd"))

    asyncio.run(come_and_go(20))
    until(lambda: store.app._feed.followers == 0, "0 follow")
    before = state()
    asyncio.run(come_and_go(1_000))
    until(lambda: store.app._feed.followers == 0, "0 follow")
    assert state()[0] <= before[0]
    assert state()[1] <= before[1] + 2
    for _ in range(50):
        events = store.app.events(job.id, follow=True)
        next(events)
    del events
    until(lambda: store.app._feed.followers == 0, "0 follow")


def test_a_loop_that_is_closed_is_forgotten(store: World) -> None:
    job = store.add.enqueue(1)
    loop = asyncio.new_event_loop()
    kept: list[Any] = []

    async def begin() -> None:
        events = store.app.aevents(job.id, follow=True)
        kept.append(events)
        await anext(events)
        kept.append(asyncio.ensure_future(anext(events)))
        while not store.app._feed.followers:
            await asyncio.sleep(0.01)

    loop.run_until_complete(begin())
    kept[1].cancel = lambda *_: False
    loop.close()
    assert store.app._feed.followers == 1
    store.app.cancel(job.id)
    assert [event.kind for event in store.app.events(job.id, follow=True)] == ["enqueued", "cancelled"]
    until(lambda: store.app._feed.followers == 0, "0 follow")
    assert wake_all([]) == []


def test_a_forked_child_follows_for_itself(store: World) -> None:
    job = store.add.enqueue(1)
    follower = Listening(store.app, job.id)
    assert follower.begun.wait(SECONDS)
    pid = os.fork()
    if pid == 0:
        code = 1
        signal.alarm(SECONDS)
        try:
            other = store.add.enqueue(2)
            mine = store.app.events(other.id, follow=True)
            next(mine)
            store.app.cancel(other.id)
            code = 0 if [event.kind for event in mine] == ["cancelled"] else 2
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    store.app.cancel(job.id)
    assert [event.kind for event in follower.join()] == ["enqueued", "cancelled"]


# A store that does not answer


def test_a_store_that_fails_for_a_while_ends_nobody(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job = store.add.enqueue(1)
    lease = store.claim()
    follower = Listening(store.app, job.id)
    assert follower.begun.wait(SECONDS)
    waited: list[Any] = []
    waiter = threading.Thread(target=lambda: waited.append(store.app.wait(job.id, timeout=SECONDS)))
    waiter.start()
    until(lambda: store.app._feed.followers == 2, "2 follow")
    read, failures = store.app.store.read, [0]

    def fail(make: Any) -> Any:
        if failures[0] < 4:
            failures[0] += 1
            raise StoreUnavailable("it is being restarted")
        return read(make)

    monkeypatch.setattr(store.app.store, "read", fail)
    say(store, lease, 1, 2)
    store.app.finish(lease, 5)
    assert words(follower.join()) == [1, 2]
    waiter.join(SECONDS)
    assert waited[0].result == 5
    assert failures[0] == 4


def test_reading_what_was_missed_goes_on_when_the_store_is_back(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    job = store.add.enqueue(1)
    lease = store.claim()
    events = store.app.events(job.id, follow=True)
    assert next(events).number == 1
    log, failures = browse.log, [0]

    def fail(id: str, after: int, limit: int = 1_000) -> Any:
        if failures[0] < 3:
            failures[0] += 1
            raise StoreUnavailable("it is being restarted")
        return log(id, after, limit)

    monkeypatch.setattr(browse, "log", fail)
    monkeypatch.setattr(feeding, "EVENTS_EACH_MAX", 0)
    say(store, lease, 1, 2)
    store.app.finish(lease, 1)
    assert [event.kind for event in events] == ["started", "word", "word", "succeeded"]
    assert failures[0] == 3


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


def test_a_server_that_is_restarted_ends_no_following(server: Server) -> None:
    app = Holdfast(server.url)

    @app.task(name="add")
    def add(a: int) -> int:
        return a

    job = app.enqueue(add.bind(1))
    everything = app.feed(after="", follow=True)
    follower = Listening(app, job.id)
    assert next(everything).number == 1
    assert follower.begun.wait(SECONDS)
    for turn in range(2):
        server.restart()
        lease = app.claim()
        assert lease is not None
        app.release(lease) if not turn else app.finish(lease, 1)
    kinds = ["enqueued", "started", "released", "started", "succeeded"]
    assert [event.kind for event in follower.join()] == kinds
    assert [next(everything).kind for _ in kinds[1:]] == kinds[1:]
    app.close()


@pytest.mark.parametrize("beyond", [50, 9_999_999_999, 10**30])
def test_m1_a_place_beyond_the_end_is_the_end_and_makes_nobody_spin(
    store: World, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    log, reads = browse.log, [0]

    def counted(id: str, after: int, limit: int = 1_000) -> Any:
        reads[0] += 1
        return log(id, after, limit)

    monkeypatch.setattr(browse, "log", counted)
    job = store.add.enqueue(1)
    lease = store.claim()
    say(store, lease, 1)
    odd = Listening(store.app, job.id, beyond)
    until(lambda: store.app._feed.followers == 1, "the odd one follows")
    honest = Listening(store.app, job.id)
    until(lambda: len(honest.seen) == 3, "the honest one has read")
    for number in range(2, 7):
        say(store, lease, number)
        until(lambda number=number: words(honest.seen)[-1] == number, "the honest one goes on")  # type: ignore[misc]
    store.app.finish(lease, 1)
    assert words(honest.join()) == [1, 2, 3, 4, 5, 6]
    assert words(odd.join()) == [2, 3, 4, 5, 6], "what has come since"
    assert reads[0] <= 12, "followers are told; they do not read again and again"
