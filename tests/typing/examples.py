"""The whole public API as its users write it. mypy --strict accepts this file; `test_typing.py` has what it must reject."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from holdfast import (
    AsyncBatch,
    Attempt,
    Batch,
    Cancelled,
    Client,
    Conflict,
    Context,
    Delivery,
    Event,
    Fatal,
    Holdfast,
    HoldfastError,
    IllegalMove,
    Job,
    JobNotFound,
    Key,
    Lease,
    LeaseLost,
    NewJob,
    PayloadError,
    QueueFull,
    Retry,
    RetryAfter,
    Skip,
    Snooze,
    State,
    StoreUnavailable,
    Task,
    UnknownTask,
    Worker,
)

app = Holdfast("sqlite:///jobs.db", retention=timedelta(days=30))
default = Holdfast()


class AuthError(Exception):
    pass


@dataclass
class Report:
    pages: int
    text: str


# Tasks: def and async def, with and without a context, with and without options


@app.task
def plain(document: str, pages: int = 1) -> Report:
    return Report(pages, document)


@app.task
def with_context(ctx: Context, document: str) -> str:
    ctx.progress(1, 3, engine="tesseract")
    ctx.progress(fraction=0.5)
    ctx.emit("page", {"n": 1})
    ctx.meter(gpu_seconds=12.5, tokens=1_800)
    ctx.check()
    assert_type(ctx.token, int)
    assert_type(ctx.job, Job)
    return document


@app.task(
    name="analyse",
    queue="llm",
    priority=10,
    timeout=3_600,
    lease=timedelta(seconds=30),
    retry=Retry(attempts=6, delays=[30, 120, timedelta(minutes=8)], jitter=0.1, on=(OSError,), never=AuthError),
)
async def analyse(ctx: Context, document: str, *, model: str = "big") -> dict[str, Any]:
    if document == "later":
        raise Snooze(60, "not yet")
    if document == "again":
        raise RetryAfter(timedelta(seconds=5))
    if document == "empty":
        raise Skip("nothing in it")
    if document == "broken":
        raise Fatal("not a document")
    if document == "unwanted":
        raise Cancelled("nobody waits for it")
    return {"model": model}


@app.task(queue="io", process=True)
def crunch(numbers: list[float]) -> float:
    return sum(numbers)


@app.task
async def nothing() -> None:
    return None


@app.task
def anything(value: object, times: int) -> int:
    return times


assert_type(plain("a.pdf", pages=3), Report)
assert_type(with_context("a.pdf"), str)


# Enqueue


def enqueue(when: datetime, other: Job) -> list[Job]:
    jobs: list[Job] = [
        plain.enqueue("a.pdf"),
        plain.enqueue("a.pdf", 3),
        plain.enqueue(document="a.pdf", pages=3),
        with_context.enqueue("a.pdf"),
        with_context.enqueue(document="a.pdf"),
        analyse.enqueue("a.pdf", model="small"),
        nothing.enqueue(),
        crunch.enqueue([1.0, 2.0]),
        anything.enqueue({"any": "thing"}, times=2),
        plain.using(
            key=Key("client-7", "req-1"), priority=10, run_after=when, queue="llm", attempts=2, id="my-id",
            tags=["eu"], meta={"from": "web"}, parent=other,
        ).enqueue("a.pdf"),
        plain.using(key="just-text", run_after=60, parent=other.id).enqueue("a.pdf", pages=1),
        plain.using(key=("client-7", 7), run_after=timedelta(hours=1)).enqueue("a.pdf"),
    ]  # fmt: skip
    assert_type(jobs[0], Job)
    return jobs


async def aenqueue() -> None:
    job = await analyse.aenqueue("a.pdf")
    assert_type(job, Job[dict[str, Any]])
    assert_type(await analyse.using(key=Key("k")).aenqueue(document="a.pdf", model="big"), Job[dict[str, Any]])
    batch = await app.aenqueue_many(analyse.bind(name) for name in ("a", "b"))
    assert_type(batch, AsyncBatch)
    async for each in batch:
        assert_type(each, Job)


async def results(client: Client, read_earlier: Job) -> None:
    """F26: a job's result has the type that its task declares, also after the job was read again."""
    job = plain.enqueue("a.pdf")
    assert_type(job.result, Report)
    assert_type(client.wait(job, timeout=10).result, Report)
    assert_type((await client.await_job(job)).result, Report)
    for again in (client.get(job), await client.aget(job)):
        assert again is not None
        assert_type(again.result, Report)
    assert_type(with_context.enqueue("a.pdf").result, str)
    assert_type(analyse.enqueue("a.pdf").result, dict[str, Any])
    assert_type((await analyse.aenqueue("a.pdf")).result, dict[str, Any])
    assert_type((await plain.aenqueue("a.pdf")).result, Report)
    assert_type(plain.using(key=Key("k")).enqueue("a.pdf").result, Report)
    assert_type(nothing.enqueue().result, None)
    assert_type(anything.enqueue("a", 1).result, int)
    assert_type(read_earlier.result, Any)
    assert_type(client.wait("id").result, Any)


def many() -> list[str]:
    new = plain.bind("a.pdf", pages=2)
    assert_type(new, NewJob)
    assert_type(app.enqueue(new), Job)
    batch = app.enqueue_many(plain.bind(f"{number}.pdf") for number in range(1_000))
    assert_type(batch, Batch)
    assert_type(batch[0], Job)
    assert_type(batch[:10], list[Job])
    assert_type(batch.created, int)
    return list(batch.ids)


def keys() -> list[Key]:
    return [
        Key("client-7", "req-1"),
        Key("client-7", 1, scope="active"),
        Key("hourly", scope=3_600),
        Key("daily", scope=timedelta(days=1), conflict="raise"),
        Key("latest", conflict="replace", failed="hold"),
    ]


# Running it here


async def call() -> dict[str, str]:
    assert_type(plain("a.pdf"), Report)
    return assert_type(await analyse("a.pdf"), dict[str, Any])


# Read and act


def read(client: Client) -> None:
    assert_type(client.get("id"), Job | None)
    assert_type(client.find(Key("a", "b")), Job | None)
    assert_type(client.find("a"), Job | None)
    page = client.jobs(state=State.FAILED, queue="llm", task=plain, tag="eu", parent="p", newest=False, limit=10)
    assert_type(page, list[Job])
    assert_type(client.jobs(state="ready", task="analyse", after=page[-1]), list[Job])
    assert_type(client.stats(), dict[str, dict[str, int]])
    for event in client.events("id", after=3, follow=True):
        assert_type(event, Event)
    job = client.wait("id", timeout=10)
    assert_type(job.state, State)
    assert_type(job.errors, tuple[Attempt, ...])
    assert_type(job.created_at, datetime)
    assert_type(job.finished_at, datetime | None)
    assert_type(job.progress, dict[str, Any])
    assert_type(job.handle, str)


def act(client: Client) -> None:
    assert_type(client.cancel("id", "not needed"), Job)
    assert_type(client.retry("id"), Job)
    assert_type(client.skip("id", "not needed"), Job)
    client.delete("id")
    assert_type(client.prune(older_than=timedelta(days=7)), int)


async def aread(client: Client) -> None:
    assert_type(await client.aget("id"), Job | None)
    assert_type(await client.afind(("a", 1)), Job | None)
    assert_type(await client.ajobs(limit=1), list[Job])
    assert_type(await client.astats(), dict[str, dict[str, int]])
    async for event in client.aevents("id"):
        assert_type(event, Event)
    assert_type(await client.await_job("id", timeout=timedelta(seconds=3)), Job)
    assert_type(await client.acancel("id"), Job)
    assert_type(await client.aretry("id"), Job)
    assert_type(await client.askip("id", "no"), Job)
    await client.adelete("id")
    assert_type(await client.aprune(older_than=60), int)


# By hand


def by_hand() -> None:
    lease = app.claim(queues=["gpu"], tasks=[plain, "analyse"], worker="gpu-1", seconds=600)
    assert_type(lease, Lease | None)
    if lease is None:
        return
    assert_type(lease.token, int)
    assert_type(lease.expires_at, datetime)
    assert_type(app.renew(lease), Lease)
    try:
        assert_type(app.finish(lease, {"ref": "s3://…"}, meter={"gpu_seconds": 3.5}), Job)
    except LeaseLost:
        return
    app.fail(lease, "text")
    app.fail(lease, OSError("an exception"))
    app.skip(lease, "a reason")
    app.release(lease)


async def aby_hand() -> None:
    lease = await app.aclaim(tasks=[plain])
    if lease is not None:
        assert_type(await app.arenew(lease), Lease)
        assert_type(await app.afinish(lease, 1), Job)
        assert_type(await app.afail(lease, "no"), Job)
        assert_type(await app.arelease(lease), Job)


# Callbacks


def callbacks() -> None:
    job = plain.using(callback="https://hooks.example.com/done").enqueue("1.pdf", pages=2)
    assert_type(job.callback, str | None)
    assert_type(app.deliveries(job), list[Delivery])
    assert_type(app.redeliver(job.id), Job)


async def acallbacks() -> None:
    assert_type(await app.adeliveries("a"), list[Delivery])
    assert_type(await app.aredeliver("a"), Job)


# In the caller's transaction


def in_your_transaction(connection: sqlite3.Connection) -> Job:
    with connection:
        connection.execute("INSERT INTO orders VALUES (1)")
        inside = app.on(connection)
        assert_type(inside, Client)
        inside.cancel("other")
        return plain.using(on=connection, key=Key("order", 1)).enqueue("1.pdf", pages=2)


@app.task
def finishing(ctx: Context, connection_string: str) -> None:
    with sqlite3.connect(connection_string) as connection:
        ctx.finish(on=connection, result={"rows": 1})


# Work


def work() -> Worker:
    worker = app.worker(queues=["llm"], concurrency=4, name="w1", lease=30, grace=timedelta(seconds=10))
    worker.run_until_empty()
    worker.run()
    worker.stop()
    return worker


async def awork() -> None:
    await app.worker().arun()
    await app.worker().arun_until_empty()


# The app and its errors


def errors() -> str:
    try:
        plain.using(key=Key("k", conflict="raise")).enqueue("a.pdf")
    except Conflict as error:
        assert_type(error.job, Job | None)
        return str(error)
    except QueueFull as error:
        assert_type(error.retry_after, float)
    except (PayloadError, UnknownTask, JobNotFound, IllegalMove, StoreUnavailable) as error:
        return str(error)
    except HoldfastError:
        raise
    return datetime.now(UTC).isoformat()


def takes_a_task(task: Task[Callable[[str], str]]) -> Job:
    return task.enqueue("a.pdf")


takes = takes_a_task
with_app = app.__enter__
names: list[str] = [task.name for task in app.tasks.values()]
