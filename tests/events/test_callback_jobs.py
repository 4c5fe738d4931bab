"""Whichever way a job with a callback ends, one job that tells of it is enqueued, in the same transaction."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec
import psycopg
import pytest

from holdfast import Cancelled, Context, Fatal, Job, JobNotFound, Key, Lease, Retry, Skip, Snooze, State, Task, UnknownTask
from holdfast.domain.callback import CALLBACK_QUEUE, CALLBACK_TASK
from holdfast.domain.delivery import Delivery
from holdfast.testing import Crash, CrashPoint
from tests.conformance.world import World
from tests.events.conftest import URL, check_told, telling
from tests.servers import plain

LEASE = 10.0
LAST = {"attempts": 1}


def asked(world: World, **options: Any) -> Job:
    return world.add.using(callback=URL, **options).enqueue(1)


def leased(world: World, **options: Any) -> Lease:
    asked(world, **options)
    return world.claim(seconds=LEASE)


def expire(world: World) -> None:
    leased(world, **LAST)
    world.clock.advance(LEASE + 1)
    world.app.claim(queues=["nowhere"])


def replace(world: World) -> None:
    asked(world, key="k")
    world.add.using(key=Key("k", conflict="replace")).enqueue(2)


def run_in_worker(world: World, does: Callable[[Context], object], **options: Any) -> None:
    """By a worker that leaves what is to be told to others."""

    @world.app.task(name="acting", retry=Retry(1))
    def acting(ctx: Context) -> Any:
        return does(ctx)

    acting.using(callback=URL, **options).enqueue()
    world.app.worker(callbacks=False).run_until_empty()


def run_async(world: World) -> None:
    @world.app.task(name="acting")
    async def acting() -> int:
        return 1

    acting.using(callback=URL).enqueue()
    world.app.worker(callbacks=False).run_until_empty()


def raising(error: Exception) -> Callable[[Context], object]:
    def does(ctx: Context) -> object:
        raise error

    return does


def talking(ctx: Context) -> int:
    ctx.emit("page", {"n": 1})
    ctx.progress(1, 2)
    ctx.meter(pages=1)
    return 1


def unstorable(ctx: Context) -> object:
    return object()


def finish_on(world: World) -> None:
    """`ctx.finish(on=...)`, in the caller's own transaction."""

    def does(ctx: Context) -> None:
        if world.app.store.dialect == "sqlite":
            connection: Any = sqlite3.connect(world.app.store.path)
        else:
            connection = psycopg.connect(plain(world.url))
        ctx.finish(on=connection, result=7)
        connection.commit()
        connection.close()

    run_in_worker(world, does)


WAYS: dict[str, tuple[Callable[[World], object], State]] = {
    "finished by hand": (lambda world: world.app.finish(leased(world), 2), State.SUCCEEDED),
    "finished with a meter": (lambda world: world.app.finish(leased(world), 2, meter={"n": 1}), State.SUCCEEDED),
    "failed by hand": (lambda world: world.app.fail(leased(world, **LAST), "broken"), State.FAILED),
    "failed for good by hand": (lambda world: world.app.fail(leased(world), Fatal("no")), State.FAILED),
    "skipped by its lease": (lambda world: world.app.skip(leased(world), "no need"), State.SKIPPED),
    "cancelled while ready": (lambda world: world.app.cancel(asked(world)), State.CANCELLED),
    "cancelled while scheduled": (lambda world: world.app.cancel(asked(world, run_after=60)), State.CANCELLED),
    "cancelled while running": (lambda world: world.app.cancel(leased(world).job), State.CANCELLED),
    "skipped while ready": (lambda world: world.app.skip(asked(world), "no need"), State.SKIPPED),
    "skipped while running": (lambda world: world.app.skip(leased(world).job, "no need"), State.SKIPPED),
    "replaced under its key": (replace, State.CANCELLED),
    "expired for the last time": (expire, State.FAILED),
    "returned": (lambda world: run_in_worker(world, lambda _: 1), State.SUCCEEDED),
    "returned by a coroutine": (run_async, State.SUCCEEDED),
    "returned after it said much": (lambda world: run_in_worker(world, talking), State.SUCCEEDED),
    "returned what cannot be stored": (lambda world: run_in_worker(world, unstorable), State.FAILED),
    "raised": (lambda world: run_in_worker(world, raising(ValueError("no"))), State.FAILED),
    "raised Fatal": (lambda world: run_in_worker(world, raising(Fatal("no"))), State.FAILED),
    "raised Skip": (lambda world: run_in_worker(world, raising(Skip("no need"))), State.SKIPPED),
    "raised Cancelled": (lambda world: run_in_worker(world, raising(Cancelled())), State.CANCELLED),
    "finished in the caller's transaction": (finish_on, State.SUCCEEDED),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_end_is_told_once(store: World, way: str) -> None:
    end, state = WAYS[way]
    end(store)
    (job,) = [each for each in store.app.jobs() if each.callback]
    (told,) = telling(store)
    assert (job.state, job.callback_status) == (state, "pending")
    assert (told.state, told.task, told.queue, told.parent) == (State.READY, CALLBACK_TASK, CALLBACK_QUEUE, job.id)
    assert (told.attempt, told.attempts_max, told.callback) == (0, 3, None)
    given = msgspec.json.decode(told.arguments_json)
    event = given.pop("event")
    assert given == {"job": job.id, "url": URL, "message": told.id}
    assert event["type"] == f"job.{state}"
    assert job.finished_at is not None
    assert event["timestamp"] == event["data"]["finished_at"] == job.finished_at.isoformat()
    data = event["data"]
    assert (data["id"], data["handle"], data["task"], data["queue"]) == (job.id, job.handle, job.task, job.queue)
    assert (data["state"], data["attempt"], data.get("error"), data.get("result")) == (state, job.attempt, job.error, job.result)
    check_told(store.rows)


NOT_ENDS: dict[str, Callable[[World], object]] = {
    "enqueued": asked,
    "scheduled": lambda world: asked(world, run_after=60),
    "claimed": leased,
    "renewed": lambda world: world.app.renew(leased(world)),
    "released": lambda world: world.app.release(leased(world)),
    "failed, to be tried again": lambda world: world.app.fail(leased(world), "broken"),
    "snoozed": lambda world: world.app.fail(leased(world), Snooze(5)),
    "deleted": lambda world: world.app.delete(asked(world)),
    "found under its key": lambda world: [asked(world, key="k"), asked(world, key="k")],
}


@pytest.mark.parametrize("way", NOT_ENDS)
def test_what_is_no_end_is_not_told(store: World, way: str) -> None:
    NOT_ENDS[way](store)
    assert telling(store) == []
    for job in store.app.jobs():
        assert job.callback_status == "pending"


def test_a_lease_that_expires_and_leaves_attempts_is_no_end(store: World) -> None:
    job = leased(store).job
    store.clock.advance(LEASE + 1)
    store.app.claim(queues=["nowhere"])
    assert store.state(job) is State.READY
    assert telling(store) == []


def test_a_job_without_a_callback_is_not_told_of(store: World) -> None:
    for end in ("finish", "cancel"):
        job = store.add.enqueue(1)
        store.app.cancel(job) if end == "cancel" else store.app.finish(store.claim(), 1)
        assert (store.get(job).callback, store.get(job).callback_status) == (None, None)
    assert telling(store) == []
    assert [verb for verb in settled_with(store, callback=None) if verb in ("ended_jobs", "lanes_of", "add_job")] == []


def settled_with(store: World, callback: str | None) -> list[str]:
    """The statements by which a worker files one success."""
    store.add.using(callback=callback).enqueue(1)
    never = CrashPoint(store.app, nth=10**9)
    with never:
        store.app.worker(callbacks=False).run_until_empty()
    start = never.seen.index("finish_jobs")
    return never.seen[start : never.seen.index("committed", start)]


def test_callbacks_in_a_batch_beside_others(store: World) -> None:
    """Some of a worker's jobs have one and most have none: each gets what it asked for."""
    jobs = store.app.enqueue_many(store.add.using(callback=URL if n % 7 == 0 else None).bind(n) for n in range(100))
    store.app.worker(callbacks=False).run_until_empty()
    assert store.app.stats()["add"] == {"succeeded": 100}
    told = {job.parent for job in telling(store)}
    assert told == {id for n, id in enumerate(jobs.ids) if n % 7 == 0}
    check_told(store.rows)


def test_all_or_nothing(store: World) -> None:
    """A crash at any statement of the end: the job has ended and is told of, or neither."""
    for nth in range(1, 100):
        lease = leased(store, id=f"job-{nth}")
        point = CrashPoint(store.app, nth=nth)
        with point:
            try:
                store.app.finish(lease, 2)
            except Crash:
                pass
        assert bool(telling(store, f"job-{nth}")) == (store.state(f"job-{nth}") is State.SUCCEEDED), point.seen
        if store.state(lease.job) is State.RUNNING:
            store.app.finish(lease, 2)
        if not point.hit:
            break
    assert nth > 8
    check_told(store.rows)


def test_in_the_callers_transaction_it_is_told_with_its_commit(store: World) -> None:
    job = asked(store)
    connect: Any = sqlite3.connect if store.app.store.dialect == "sqlite" else psycopg.connect
    connection = connect(store.app.store.path if store.app.store.dialect == "sqlite" else plain(store.url))
    store.app.on(connection).cancel(job)
    connection.rollback()
    assert telling(store) == []
    store.app.on(connection).cancel(job)
    assert len(store.app.on(connection).deliveries(job)) == 1
    connection.commit()
    connection.close()
    assert len(telling(store)) == 1


# Again


def test_a_job_that_ends_again_is_told_of_again_under_another_id(store: World) -> None:
    job = store.app.cancel(asked(store))
    (first,) = telling(store)
    store.app.retry(job)
    assert store.get(job).callback_status == "pending"
    store.app.finish(store.claim(), 2)
    before, second = telling(store, job)
    assert before == first
    assert second.id != first.id
    assert msgspec.json.decode(second.arguments_json)["event"]["type"] == "job.succeeded"
    check_told(store.rows)


def test_an_id_that_is_used_again_does_not_make_the_same_message(store: World) -> None:
    store.app.cancel(asked(store, id="mine"))
    store.app.delete("mine")
    store.app.cancel(asked(store, id="mine"))
    assert len({job.id for job in telling(store, "mine")}) == 2


def test_a_message_id_has_no_dot_and_nothing_of_the_callers(store: World) -> None:
    store.app.cancel(asked(store, id="a.b/c:d@e"))
    (told,) = telling(store)
    assert told.id.replace("_", "").isalnum()
    assert "a.b" not in told.id


def test_a_deleted_or_pruned_job_is_told_of_all_the_same(store: World) -> None:
    store.app.cancel(asked(store, id="deleted"))
    store.app.delete("deleted")
    store.app.cancel(asked(store, id="pruned"))
    store.clock.advance(60)
    assert store.app.prune(30) == 1
    assert [job.parent for job in telling(store)] == ["deleted", "pruned"]
    assert [each.status for each in store.app.deliveries("pruned")] == ["pending"]


# Ours


def test_a_loop_of_ones_own_does_not_get_what_is_ours(store: World) -> None:
    store.app.cancel(asked(store))
    assert store.app.claim() is None
    lease = store.claim(queues=[CALLBACK_QUEUE])
    assert lease.job.task == CALLBACK_TASK


def test_nobody_can_enqueue_what_is_ours(store: World) -> None:
    store.app.worker()
    assert CALLBACK_TASK not in store.app.tasks
    with pytest.raises(UnknownTask):
        store.app.task_named(CALLBACK_TASK)


@pytest.mark.parametrize("name", ["holdfast.deliver", "holdfast.callbacks", "holdfast."])
def test_names_like_ours_are_refused(store: World, name: str) -> None:
    with pytest.raises(ValueError, match=r"begin with 'holdfast\.'"):
        store.add.using(queue=name)
    with pytest.raises(ValueError, match=r"begin with 'holdfast\.'"):
        store.app.task(queue=name)
    with pytest.raises(ValueError, match=r"begin with 'holdfast\.'"):
        store.app.task(name=name)
    assert isinstance(store.app.task(name="holdfasten")(lambda: None), Task)


# Once more, by hand


def test_redelivery_is_another_job_with_the_same_message(store: World) -> None:
    job = store.app.cancel(asked(store))
    (first,) = telling(store)
    store.app.cancel(first)
    assert store.get(job).callback_status == "failed"
    again = store.app.redeliver(job.id)
    assert again.id != first.id
    assert store.get(job).callback_status == "pending"
    assert again.arguments_json == first.arguments_json
    assert [each.message for each in store.app.deliveries(job)] == [first.id, first.id]
    assert [each.id for each in store.app.deliveries(job)] == [again.id, first.id]


def test_redelivery_replaces_one_that_waits(store: World) -> None:
    job = store.app.cancel(asked(store))
    (first,) = telling(store)
    again = store.app.redeliver(job)
    assert store.state(first) is State.CANCELLED
    assert (again.state, again.parent) == (State.READY, job.id)


def test_redelivery_leaves_one_that_is_trying_now(store: World) -> None:
    job = store.app.cancel(asked(store))
    lease = store.claim(queues=[CALLBACK_QUEUE])
    assert store.app.redeliver(job).id == lease.job.id
    assert len(telling(store)) == 1


def test_redelivery_after_the_first_is_gone(store: World) -> None:
    job = store.app.cancel(asked(store))
    (first,) = telling(store)
    store.app.delete(first)
    again = store.app.redeliver(job)
    assert msgspec.json.decode(again.arguments_json)["message"] == first.id


def test_there_is_nothing_to_redeliver(store: World) -> None:
    plain_job, open_job = store.app.cancel(store.add.enqueue(1)), asked(store)
    with pytest.raises(Exception, match="has no callback"):
        store.app.redeliver(plain_job)
    with pytest.raises(Exception, match="is ready: its callback is told when it has ended"):
        store.app.redeliver(open_job)
    with pytest.raises(JobNotFound):
        store.app.redeliver("nobody")
    with pytest.raises(JobNotFound):
        store.app.deliveries("nobody")
    assert store.app.deliveries(plain_job) == store.app.deliveries(open_job) == []


def test_the_twins(store: World) -> None:
    async def twice() -> tuple[Job, list[Delivery]]:
        job = await store.app.acancel(await store.add.using(callback=URL).aenqueue(1))
        return await store.app.aredeliver(job), await store.app.adeliveries(job)

    again, deliveries = asyncio.run(twice())
    assert [each.status for each in deliveries] == ["pending", "failed"]
    assert deliveries[0].id == again.id


# What must not stop a job from ending


def test_damaged_rows_do_not_stop_the_end(store: World) -> None:
    store.add.using(callback=URL, meta={"a": 1}).enqueue(1)
    store.add.enqueue(2)
    table = "holdfast_job_spec" if store.app.store.dialect == "sqlite" else "holdfast.job_spec"
    connect: Any = sqlite3.connect if store.app.store.dialect == "sqlite" else psycopg.connect
    connection = connect(store.app.store.path if store.app.store.dialect == "sqlite" else plain(store.url))
    connection.execute(f"UPDATE {table} SET meta = '[traceparent', arguments = '{{' WHERE callback IS NOT NULL")
    connection.commit()
    connection.close()
    store.app.worker(callbacks=False).run_until_empty()
    assert store.app.stats()["add"] == {"failed": 1, "succeeded": 1}
    assert len(telling(store)) == 1


def test_a_mistake_in_the_schedule_does_not_stop_the_end(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_WEBHOOK_DELAYS", "soon")
    store.app.cancel(asked(store))
    (told,) = telling(store)
    assert told.attempts_max == 10
