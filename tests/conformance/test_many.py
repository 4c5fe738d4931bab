"""`enqueue_many`: any number of jobs, in bounded memory, told apart afterwards."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from holdfast import Conflict, JobNotFound, Key, NewJob, State
from holdfast.domain.bounds import ENQUEUE_BATCH_MAX
from tests.conformance.world import World

COUNT = ENQUEUE_BATCH_MAX * 2 + 5


def test_a_generator_is_read_chunk_by_chunk_and_each_chunk_is_committed(store: World) -> None:
    stored = []

    def source() -> Iterator[NewJob]:
        for n in range(COUNT):
            if n % ENQUEUE_BATCH_MAX == 0:
                stored.append(sum(store.app.stats().get("add", {}).values()))
            yield store.add.bind(n)

    batch = store.app.enqueue_many(source())
    assert stored == [0, ENQUEUE_BATCH_MAX, 2 * ENQUEUE_BATCH_MAX]
    assert len(batch) == batch.created == COUNT
    assert len(set(batch.ids)) == COUNT


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
