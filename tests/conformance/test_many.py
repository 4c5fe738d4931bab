"""`enqueue_many`: any number of jobs, in bounded memory, told apart afterwards."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from holdfast import Conflict, JobNotFound, Key, NewJob, State, StoreUnavailable
from holdfast.domain.bounds import ENQUEUE_BATCH_MAX
from holdfast.store import browse
from holdfast.testing.crash import Crash, CrashPoint
from tests.conformance.world import World
from tests.until import until

COUNT = ENQUEUE_BATCH_MAX * 2 + 5
WRITES = {"sqlite": "add_alike_specs", "postgresql": "add_alike"}
"""The statement that writes a chunk."""


def test_a_generator_is_read_chunk_by_chunk_while_the_chunk_before_is_committed(store: World) -> None:
    stored: list[int] = []

    def source() -> Iterator[NewJob]:
        for n in range(COUNT):
            if n % ENQUEUE_BATCH_MAX == 0:
                stored.append(sum(store.app.stats().get("add", {}).values()))
            yield store.add.bind(n)

    batch = store.app.enqueue_many(source())
    assert [had >= part * ENQUEUE_BATCH_MAX for part, had in enumerate(stored, -1)] == [True, True, True]
    assert len(batch) == batch.created == COUNT
    assert len(set(batch.ids)) == COUNT
    assert [job.id for job in store.app.jobs(limit=1_000, newest=False)] == list(batch.ids[:1_000])


def test_every_job_of_a_bulk_has_an_id_that_all_who_ask_find_it_by(store: World) -> None:
    store.add.enqueue(0)
    first, second = (store.app.enqueue_many(map(store.add.bind, range(COUNT))) for _ in range(2))
    ids = [*first.ids, *second.ids]
    for at in (0, 1, ENQUEUE_BATCH_MAX - 1, ENQUEUE_BATCH_MAX, COUNT - 1, COUNT, 2 * COUNT - 1):
        assert argument(store, ids[at]) == at % COUNT
        assert [event.kind for event in store.app.events(ids[at])] == ["enqueued"]
    some = store.app.store.read(lambda _: browse.jobs_by_id(ids[2::1000], store.app.registry.decoders))
    assert sorted(some) == sorted(ids[2::1000])
    assert store.app.cancel(ids[3]).state is State.CANCELLED
    store.app.retry(ids[3])
    assert store.app.skip(ids[4], "not needed").state is State.SKIPPED
    store.app.delete(ids[0])
    assert store.app.get(ids[0]) is None
    assert argument(store, ids[1]) == 1


def argument(store: World, id: str) -> int:
    job = store.app.get(id)
    assert job is not None
    assert job.id == id
    number: int = job.arguments["a"]
    return number


def test_an_id_that_is_none_of_a_bulk_s_finds_nothing(store: World) -> None:
    store.add.enqueue(0)
    ids = store.app.enqueue_many(map(store.add.bind, range(COUNT))).ids
    behind, before = (f"{int(id, 16) + step:032x}" for id, step in ((ids[-1], 1), (ids[0], -1)))
    for id in (behind, before, "f" * 32, "0" * 32, "z" * 32, ids[7] + "0", ids[7][:-1], ids[7].upper(), "x", ids[7][:20]):
        assert store.app.get(id) is None


def test_an_id_of_a_bulk_s_cannot_be_chosen_for_another_job(store: World) -> None:
    store.add.enqueue(0)
    ids = store.app.enqueue_many(map(store.add.bind, range(10))).ids
    with pytest.raises(Conflict, match=ids[5]):
        store.add.using(id=ids[5]).enqueue(1)
    store.app.delete(ids[5])
    assert store.add.using(id=ids[5]).enqueue(1).id == ids[5]
    assert argument(store, ids[5]) == 1


def test_the_next_chunk_is_made_while_one_is_written(store: World) -> None:
    store.add.enqueue(0)
    made, written = Event(), Event()

    def hold(_: str) -> None:
        assert made.wait(10), "nobody makes jobs meanwhile"
        written.set()

    def source() -> Iterator[NewJob]:
        for n in range(COUNT):
            if n == ENQUEUE_BATCH_MAX:
                assert not written.is_set()
                made.set()
            yield store.add.bind(n)

    with CrashPoint(store.app, at=WRITES[store.app.store.dialect], does=hold) as point:
        assert len(store.app.enqueue_many(source())) == COUNT
    assert point.hit


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_chunk_that_cannot_be_written_ends_it_and_those_before_are_kept(store: World, nth: int) -> None:
    store.add.enqueue(0)
    read = []

    def source() -> Iterator[NewJob]:
        for n in range(2 * COUNT):
            read.append(n)
            yield store.add.bind(n)

    with CrashPoint(store.app, at=WRITES[store.app.store.dialect], nth=nth), pytest.raises(Crash):
        store.app.enqueue_many(source())
    assert store.app.stats() == {"add": {"ready": 1 + (nth - 1) * ENQUEUE_BATCH_MAX}}
    assert len(read) <= (nth + 1) * ENQUEUE_BATCH_MAX
    until(
        lambda: not [each for each in threading.enumerate() if each.name.startswith("holdfast-bulk")],
        "the writing thread has ended",
    )


@pytest.mark.parametrize("nth", [1, 3])
def test_the_same_in_an_event_loop(store: World, nth: int) -> None:
    store.add.enqueue(0)

    async def run() -> None:
        with CrashPoint(store.app, at="begin", nth=nth), pytest.raises(StoreUnavailable, match="interrupted"):
            await store.app.aenqueue_many(store.add.bind(n) for n in range(2 * COUNT))
        batch = await store.app.aenqueue_many(store.add.bind(n) for n in range(COUNT))
        assert [job.id async for job in batch] == list(batch.ids)

    asyncio.run(run())
    assert store.app.stats() == {"add": {"ready": 1 + (nth - 1) * ENQUEUE_BATCH_MAX + COUNT}}


def test_where_no_thread_can_be_started_one_does_both(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when the interpreter is about to end."""

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    assert store.app.enqueue_many(store.add.bind(n) for n in range(COUNT)).created == COUNT


def test_arguments_that_were_not_made_by_bind_are_kept_as_they_are(store: World) -> None:
    by_hand = NewJob(store.add.options, '{\n"a": 1\n}')
    store.add.enqueue(-1)
    store.app.enqueue_many([store.add.bind(0), by_hand, store.add.bind(2)])
    assert [job.arguments["a"] for job in store.app.jobs(newest=False)] == [-1, 0, 1, 2]
    assert [store.claim().job.arguments_json for _ in range(4)][1:] == ['{"a":0}', by_hand.arguments, '{"a":2}']


def test_a_batch_is_read_lazily_and_shows_jobs_as_they_are_now(store: World) -> None:
    batch = store.app.enqueue_many(store.add.bind(n) for n in range(7))
    store.app.cancel(batch.ids[3])
    assert batch[3].state == State.CANCELLED
    assert [job.arguments["a"] for job in batch] == list(range(7))
    assert [job.arguments["a"] for job in batch[-3:-1]] == [4, 5]
    assert batch[-1].arguments == {"a": 6}
    assert [job.id for job in batch] == list(batch.ids)
    with pytest.raises(IndexError):
        batch[7]


def test_a_job_of_a_batch_that_is_gone_is_named(store: World) -> None:
    batch = store.app.enqueue_many(store.add.bind(n) for n in range(3))
    store.app.delete(batch.ids[1])
    with pytest.raises(JobNotFound, match=batch.ids[1]):
        list(batch)


def test_nothing_makes_an_empty_batch(store: World) -> None:
    batch = store.app.enqueue_many([])
    assert (len(batch), batch.created, list(batch)) == (0, 0, [])


def test_memory_does_not_grow_with_the_number_of_jobs(store: World) -> None:
    store.app.enqueue_many(store.add.bind(n) for n in range(10))
    tracemalloc.start()
    try:
        batch = store.app.enqueue_many(store.add.bind(n) for n in range(10 * ENQUEUE_BATCH_MAX))
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(batch) == 10 * ENQUEUE_BATCH_MAX
    assert kept < 1_000_000, "a batch remembers numbers, not jobs"
    assert peak < 8_000_000, "one chunk at a time"


def test_jobs_of_many_kinds_in_one_batch(store: World) -> None:
    later, urgent = store.add.using(run_after=9, tags=["x"]), store.once.using(priority=1, id="mine")
    batch = store.app.enqueue_many([store.add.bind(1), later.bind(2), urgent.bind("a"), store.add.bind(3), later.bind(4)])
    assert [job.state for job in batch] == ["ready", "scheduled", "ready", "ready", "scheduled"]
    assert batch.ids[2] == "mine"
    assert [job.arguments["a"] for job in store.app.jobs(tag="x", newest=False)] == [2, 4]
    assert [store.claim().job.id for _ in range(3)] == ["mine", batch.ids[0], batch.ids[3]]


def test_a_key_that_comes_twice_in_one_batch_makes_one_job(store: World) -> None:
    keyed = store.add.using(key="k")
    batch = store.app.enqueue_many([keyed.bind(1), store.add.bind(2), keyed.bind(3)])
    assert batch.ids[0] == batch.ids[2] != batch.ids[1]
    assert batch.created == 2
    assert store.app.stats() == {"add": {"ready": 2}}


def test_a_key_that_replaces_within_one_batch_leaves_the_last(store: World) -> None:
    keyed = store.add.using(key=Key("k", conflict="replace"))
    batch = store.app.enqueue_many([keyed.bind(1), store.add.bind(2), keyed.bind(3)])
    assert [job.state for job in batch] == ["cancelled", "ready", "ready"]
    found = store.app.find("k")
    assert found is not None
    assert found.id == batch.ids[2]


def test_a_conflict_undoes_its_chunk_only(store: World) -> None:
    store.add.using(key="k").enqueue(0)
    many = [store.add.bind(n) for n in range(ENQUEUE_BATCH_MAX + 1)]
    raising = store.add.using(key=Key("k", conflict="raise")).bind(1)
    with pytest.raises(Conflict):
        store.app.enqueue_many([*many, raising])
    assert store.app.stats() == {"add": {"ready": 1 + ENQUEUE_BATCH_MAX}}


def test_a_generator_that_breaks_keeps_the_chunks_before(store: World) -> None:
    def source() -> Iterator[NewJob]:
        yield from (store.add.bind(n) for n in range(ENQUEUE_BATCH_MAX))
        raise OSError("the list of documents could not be read")

    with pytest.raises(OSError, match="documents"):
        store.app.enqueue_many(source())
    assert store.app.stats() == {"add": {"ready": ENQUEUE_BATCH_MAX}}
