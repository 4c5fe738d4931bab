"""Every client method has an async twin with an `a` in front, the same parameters, and the same effect."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from holdfast import Client, JobNotFound, State
from tests.conformance.world import World

TWINS = {"wait": "await_job"}
SYNC_ONLY = {"on", "queue"}
"""`on` does no I/O: it gives back a client that has both kinds."""


def public() -> list[str]:
    return [name for name, member in inspect.getmembers(Client, inspect.isfunction) if not name.startswith("_")]


def twin_of(name: str) -> str:
    return TWINS.get(name, f"a{name}")


SYNC = sorted(name for name in public() if name not in SYNC_ONLY and name not in {twin_of(each) for each in public()})


def test_the_client_is_as_large_as_we_think() -> None:
    expected = (
        "cancel claim delete enqueue enqueue_many events fail find finish get jobs prune release renew retry skip stats wait"
    )
    assert set(expected.split()) <= set(SYNC)


@pytest.mark.parametrize("name", SYNC)
def test_every_method_has_a_twin_with_the_same_parameters(name: str) -> None:
    one, other = getattr(Client, name), getattr(Client, twin_of(name), None)
    assert other is not None, f"{name} has no {twin_of(name)}"
    assert inspect.iscoroutinefunction(other) or inspect.isasyncgenfunction(other)
    assert inspect.signature(one).parameters == inspect.signature(other).parameters


def test_a_job_lives_its_whole_life_in_async_code(store: World) -> None:
    async def life() -> None:
        app = store.app
        job = await store.add.aenqueue(2, 3)
        found = await app.aget(job.id)
        assert found is not None
        assert found.arguments == {"a": 2, "b": 3}
        assert [each.id for each in await app.ajobs(state="ready")] == [job.id]
        lease = await app.aclaim(worker="hand", seconds=30)
        assert lease is not None
        store.clock.advance(10)
        renewed = await app.arenew(lease)
        assert renewed.expires_at == store.clock.moment + (lease.expires_at - store.clock.moment)
        done = await app.afinish(lease, 5, meter={"tokens": 2})
        assert (done.state, done.result, done.meter) == (State.SUCCEEDED, 5, {"tokens": 2.0})
        assert (await app.await_job(job.id, timeout=1)).result == 5
        assert [event.kind async for event in app.aevents(job.id, follow=True)] == ["enqueued", "started", "succeeded"]
        assert await app.astats() == {"add": {"succeeded": 1}}

    asyncio.run(life())


def test_async_acting_and_pruning(store: World) -> None:
    async def act() -> None:
        app = store.app
        batch = await app.aenqueue_many(store.add.bind(n) for n in range(4))
        first, second, third, fourth = [job.id async for job in batch]
        assert (await app.acancel(first, "no")).error == "no"
        assert (await app.aretry(first)).state == State.READY
        assert (await app.askip(second, "not needed")).state == State.SKIPPED
        await app.adelete(second)
        assert await app.aget(second) is None
        lease = await app.aclaim()
        assert lease is not None
        assert (await app.afail(lease, "broken")).state == State.SCHEDULED
        lease = await app.aclaim()
        assert lease is not None
        assert (await app.arelease(lease)).attempt == 0
        lease = await app.aclaim()
        assert lease is not None
        assert (await app.askip(lease, "enough")).state == State.SKIPPED
        store.clock.advance(1)
        assert await app.aprune(0) == 1
        assert {third, fourth} & {job.id for job in await app.ajobs()}

    asyncio.run(act())


def test_async_keys(store: World) -> None:
    async def twice() -> None:
        task = store.add.using(key=("client", 7))
        first, second = await task.aenqueue(1), await task.aenqueue(2)
        assert (first.created, second.created, second.id) == (True, False, first.id)
        found = await store.app.afind(("client", 7))
        assert found is not None
        assert found.id == first.id

    asyncio.run(twice())


def test_async_verbs_raise_what_their_twins_raise(store: World) -> None:
    async def ask() -> None:
        for verb in (store.app.acancel, store.app.aretry, store.app.adelete):
            with pytest.raises(JobNotFound):
                await verb("nobody")
        with pytest.raises(JobNotFound):
            await store.app.await_job("nobody")
        with pytest.raises(JobNotFound):
            [event async for event in store.app.aevents("nobody")]

    asyncio.run(ask())


def test_many_coroutines_enqueue_at_once(store: World) -> None:
    async def together() -> list[str]:
        jobs = await asyncio.gather(*[store.add.aenqueue(n) for n in range(50)])
        return [job.id for job in jobs]

    assert len(set(asyncio.run(together()))) == 50
    assert store.app.stats() == {"add": {"ready": 50}}


def test_a_loop_that_is_closed_while_its_write_is_under_way_blocks_nobody(store: World) -> None:
    async def give_up() -> None:
        asyncio.create_task(store.add.aenqueue(1)).set_name("abandoned")
        await asyncio.sleep(0)

    for _ in range(20):
        asyncio.run(give_up())
        store.add.enqueue(2)
    assert store.app.stats()["add"]["ready"] >= 20
