"""S1, document extraction behind a REST API: every call inside the caller's own `AsyncSession`, which the caller commits.

All of what it does, and none of what it gets wrong, but for the delivery of callbacks: that is a later feature. Until then the
callback's URL travels in `meta`, and nothing here calls it. The functions below are its repository, in Holdfast's words.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pydantic
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from holdfast import Conflict, Context, Fatal, Holdfast, IllegalMove, Job, Key, Lease, LeaseLost, PayloadError, Retry, Task
from holdfast.testing import ManualClock
from tests.seeds.elsewhere import DIES_WITH_A_JOB, run_there
from tests.servers import migrated_database, new_database
from tests.store.libraries_postgres import of_alchemy
from tests.until import until

LEASE_SECONDS = 600


class RequestIX(pydantic.BaseModel):
    client_id: str
    request_id: str
    pages: list[str]
    threshold: float = 0.5


class ResponseIX(pydantic.BaseModel):
    fields: dict[str, str] = {}
    error: str | None = None


class Base(DeclarativeBase):
    pass


class Audit(Base):
    """The caller's own rows."""

    __tablename__ = "audit"
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    said: Mapped[str]


Extract = Task[Callable[[RequestIX], Any]]
Session = Callable[[], AsyncSession]
Tried = Callable[["Repo"], Awaitable[None]]


class Repo:
    """Nothing here commits."""

    def __init__(self, app: Holdfast, clock: ManualClock, engine: AsyncEngine) -> None:
        self.app, self.clock, self.engine = app, clock, engine
        self.extract: Extract = app.task_named("extract")

    def session(self) -> AsyncSession:
        return AsyncSession(self.engine)

    async def insert_pending(self, session: AsyncSession, request: RequestIX, callback_url: str | None = None) -> Job:
        key = Key("request", request.client_id, request.request_id)
        meta = None if callback_url is None else {"callback_url": callback_url}
        return await self.extract.using(on=session, key=key, meta=meta).aenqueue(request)

    async def claim_next_pending(self, session: AsyncSession, worker: str = "worker") -> Lease | None:
        return await self.app.on(session).aclaim(worker=worker, seconds=LEASE_SECONDS)

    async def get(self, session: AsyncSession, id: str) -> Job | None:
        return await self.app.on(session).aget(id)

    async def get_by_correlation(self, session: AsyncSession, client_id: str, request_id: str) -> Job | None:
        return await self.app.on(session).afind(Key("request", client_id, request_id))

    async def mark_done(self, session: AsyncSession, lease: Lease, response: ResponseIX) -> Job:
        """Done if it carries no error."""
        if response.error is not None:
            return await self.mark_error(session, lease, response.error)
        return await self.app.on(session).afinish(lease, response)

    async def mark_error(self, session: AsyncSession, lease: Lease, error: str) -> Job:
        return await self.app.on(session).afail(lease, Fatal(error))

    # Short words for what tests do all the time

    async def accepted(self, number: int = 1) -> Job:
        async with self.session() as session, session.begin():
            return await self.insert_pending(session, request(number))

    async def claimed(self, worker: str = "worker") -> Lease:
        async with self.session() as session, session.begin():
            lease = await self.claim_next_pending(session, worker)
        assert lease is not None
        return lease

    async def again(self, job: Job) -> Job:
        async with self.session() as session:
            found = await self.get(session, job.id)
        assert found is not None
        return found

    async def audits(self) -> int:
        async with self.session() as session:
            return int((await session.execute(sa.select(sa.func.count()).select_from(Audit))).scalar_one())


def request(number: int = 1, **changed: Any) -> RequestIX:
    return RequestIX(client_id="billing", request_id=f"r-{number}", pages=[f"page-{number}.png"], **changed)


@pytest.fixture
def url() -> Iterator[str]:
    with migrated_database() as url:
        yield url


def app_on(url: str, clock: ManualClock | None) -> Holdfast:
    app = Holdfast(url, clock=clock)

    @app.task(name="extract", retry=Retry(attempts=3, delays=[0], jitter=0))
    async def extract(request: RequestIX) -> ResponseIX:
        return ResponseIX(fields=dict.fromkeys(request.pages, "42.00"))

    return app


@asynccontextmanager
async def repo_on(url: str, driver: str, clock: ManualClock | None = None) -> AsyncIterator[Repo]:
    manual = clock or ManualClock()
    engine = create_async_engine(of_alchemy(url, driver), pool_size=20)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.drop_all)
            await connection.run_sync(Base.metadata.create_all)
        with app_on(url, manual) as app:
            yield Repo(app, manual, engine)
    finally:
        await engine.dispose()


def on_both(test: Tried) -> Any:
    """Runs a test over psycopg's session and over asyncpg's."""

    @pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
    def run(driver: str, url: str) -> None:
        async def body() -> None:
            async with asyncio.timeout(60), repo_on(url, driver) as repo:
                await test(repo)

        asyncio.run(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


# Does


@on_both
async def test_the_caller_commits_and_nothing_is_there_before(repo: Repo) -> None:
    async with repo.session() as session, repo.session() as other:
        job = await repo.insert_pending(session, request())
        session.add(Audit(said="accepted"))
        await session.flush()
        assert await repo.get(session, job.id) is not None
        assert await repo.get(other, job.id) is None
        await session.commit()
        assert (await repo.again(job)).state == "ready"
    assert await repo.audits() == 1


@on_both
async def test_enqueue_claim_run_and_finish_are_one_unit_of_work_with_the_callers_rows(repo: Repo) -> None:
    async with repo.session() as session:
        job = await repo.insert_pending(session, request())
        lease = await repo.claim_next_pending(session)
        assert lease is not None
        response = await repo.extract(lease.job.arguments["request"])
        session.add(Audit(said="done"))
        done = await repo.mark_done(session, lease, response)
        assert (done.id, done.state) == (job.id, "succeeded")
        async with repo.session() as other:
            assert await repo.get(other, job.id) is None
        await session.commit()
    stored = await repo.again(job)
    assert (stored.state, stored.result, stored.attempt) == ("succeeded", ResponseIX(fields={"page-1.png": "42.00"}), 1)
    assert [event.kind async for event in repo.app.aevents(job.id)] == ["enqueued", "started", "succeeded"]
    assert await repo.audits() == 1


@on_both
async def test_a_rollback_leaves_nothing_of_it(repo: Repo) -> None:
    kept = await repo.accepted(1)
    async with repo.session() as session:
        job = await repo.insert_pending(session, request(2))
        lease = await repo.claim_next_pending(session)
        assert lease is not None
        assert lease.job.id == kept.id
        await repo.mark_done(session, lease, ResponseIX())
        session.add(Audit(said="done"))
        await session.rollback()
    assert [found.id for found in await repo.app.ajobs()] == [kept.id]
    untouched = await repo.again(kept)
    assert (untouched.state, untouched.attempt, untouched.token, untouched.result) == ("ready", 0, 0, None)
    async with repo.session() as session, session.begin():
        assert (await repo.insert_pending(session, request(2))).id != job.id
    assert await repo.audits() == 0


@on_both
async def test_the_work_of_a_task_commits_with_its_result(repo: Repo) -> None:
    """The same with a worker: the task ends its job inside its own session."""

    @repo.app.task(name="audited")
    async def audited(ctx: Context, fail: bool) -> None:
        async with repo.session() as session, session.begin():
            session.add(Audit(said="by the task"))
            await ctx.afinish(on=session, result="done")
            if fail:
                raise RuntimeError("after all")

    good = await audited.aenqueue(False)
    bad = await audited.using(attempts=1).aenqueue(True)
    await repo.app.worker(concurrency=2).arun_until_empty()
    assert [(await repo.again(job)).state for job in (good, bad)] == ["succeeded", "failed"]
    assert await repo.audits() == 1


@on_both
async def test_enqueue_is_idempotent_on_client_and_request(repo: Repo) -> None:
    async with repo.session() as session, session.begin():
        first = await repo.insert_pending(session, request(), "https://example.com/first")
    async with repo.session() as session, session.begin():
        session.add(Audit(said="resubmitted"))
        second = await repo.insert_pending(session, request(threshold=0.9), "https://example.com/second")
        assert (second.id, second.created, second.same_arguments) == (first.id, False, False)
        assert second.meta == {"callback_url": "https://example.com/first"}
        assert second.arguments["request"] == request()
        other = await repo.insert_pending(session, request(2))
        assert other.created
    assert await repo.audits() == 1  # a duplicate does not abort the caller's transaction
    done = await repo.claimed()
    async with repo.session() as session, session.begin():
        await repo.mark_done(session, done, ResponseIX(fields={"total": "1"}))
        third = await repo.insert_pending(session, request())
        assert (third.id, third.state, third.result) == (first.id, "succeeded", ResponseIX(fields={"total": "1"}))


@on_both
async def test_two_that_resubmit_at_once_get_one_job(repo: Repo) -> None:
    async def submit(number: int) -> Job:
        async with repo.session() as session, session.begin():
            session.add(Audit(said=f"submission {number}"))
            return await repo.insert_pending(session, request())

    jobs = await asyncio.gather(*[submit(number) for number in range(10)])
    assert len({job.id for job in jobs}) == 1
    assert sum(job.created for job in jobs) == 1
    assert await repo.audits() == 10


@on_both
async def test_a_handle_of_16_hex_is_assigned_by_the_server(repo: Repo) -> None:
    handles = {(await repo.accepted(number)).handle for number in range(10)}
    assert len(handles) == 10
    assert all(re.fullmatch("[0-9a-f]{16}", handle) for handle in handles)
    job = await repo.accepted(1)
    assert (await repo.again(job)).handle == job.handle


@on_both
async def test_many_workers_none_doubled_and_none_blocked(repo: Repo) -> None:
    """All hold their transactions open at the same time: had one to wait for another, this would never end."""
    jobs = [await repo.accepted(number) for number in range(12)]
    all_have_claimed = asyncio.Barrier(12)

    async def work(number: int) -> str:
        async with repo.session() as session, session.begin():
            lease = await repo.claim_next_pending(session, f"worker-{number}")
            assert lease is not None
            await all_have_claimed.wait()
            await repo.mark_done(session, lease, ResponseIX())
            return lease.job.id

    taken = await asyncio.gather(*[work(number) for number in range(12)])
    assert sorted(taken) == sorted(job.id for job in jobs)
    assert await repo.app.astats() == {"extract": {"succeeded": 12}}


@on_both
async def test_many_processes_drain_the_queue_and_none_is_doubled(repo: Repo) -> None:
    await repo.app.aenqueue_many(repo.extract.bind(request(number)) for number in range(200))
    apps = [app_on(repo.app.url, repo.clock) for _ in range(4)]

    async def drain(app: Holdfast) -> list[str]:
        taken: list[str] = []
        while True:
            async with repo.session() as session, session.begin():
                lease = await app.on(session).aclaim(seconds=LEASE_SECONDS)
                if lease is None:
                    return taken
                taken.append(lease.job.id)
                await app.on(session).afinish(lease, ResponseIX())

    taken = [id for part in await asyncio.gather(*[drain(app) for app in apps]) for id in part]
    assert (len(taken), len(set(taken))) == (200, 200)
    assert await repo.app.astats() == {"extract": {"succeeded": 200}}
    for app in apps:
        app.close()


@on_both
async def test_the_oldest_is_claimed_first_and_none_if_there_is_none(repo: Repo) -> None:
    jobs = [await repo.accepted(number) for number in range(3)]
    assert [(await repo.claimed()).job.id for _ in jobs] == [job.id for job in jobs]
    async with repo.session() as session:
        assert await repo.claim_next_pending(session) is None


@on_both
async def test_get_by_id_and_by_correlation_pair(repo: Repo) -> None:
    job = await repo.accepted()
    async with repo.session() as session:
        for found in (await repo.get(session, job.id), await repo.get_by_correlation(session, "billing", "r-1")):
            assert found is not None
            assert (found.id, found.key) == (job.id, ("request", "billing", "r-1"))
        assert await repo.get(session, "nobody") is None
        assert await repo.get_by_correlation(session, "billing", "r-2") is None
        assert await repo.get_by_correlation(session, "shipping", "r-1") is None


@on_both
async def test_request_and_response_round_trip_through_typed_models(repo: Repo) -> None:
    job = await repo.accepted()
    lease = await repo.claimed()
    assert lease.job.arguments["request"] == request()
    async with repo.session() as session, session.begin():
        with pytest.raises(PayloadError):
            await repo.extract.using(on=session).aenqueue({"client_id": "billing"})  # type: ignore[call-overload]
        await repo.mark_done(session, lease, ResponseIX(fields={"total": "ünï % $1 'x'"}))
    found = await repo.again(job)
    assert isinstance(found.arguments["request"], RequestIX)
    assert found.result == ResponseIX(fields={"total": "ünï % $1 'x'"})


@on_both
async def test_done_if_it_carries_no_error_and_error_otherwise(repo: Repo) -> None:
    jobs = [await repo.accepted(number) for number in range(3)]
    leases = [await repo.claimed() for _ in jobs]
    async with repo.session() as session, session.begin():
        await repo.mark_done(session, leases[0], ResponseIX())
        await repo.mark_done(session, leases[1], ResponseIX(error="IX_003: no text found"))
        await repo.mark_error(session, leases[2], "the pipeline broke")
    found = [await repo.again(job) for job in jobs]
    assert [job.state for job in found] == ["succeeded", "failed", "failed"]
    assert "IX_003: no text found" in str(found[1].error)
    assert "the pipeline broke" in str(found[2].error)


@on_both
async def test_a_callback_url_per_job(repo: Repo) -> None:
    async with repo.session() as session, session.begin():
        job = await repo.insert_pending(session, request(), "https://example.com/hook?a=%20b")
    assert (await repo.again(job)).meta == {"callback_url": "https://example.com/hook?a=%20b"}
    assert (await repo.claimed()).job.meta == {"callback_url": "https://example.com/hook?a=%20b"}


@on_both
async def test_orphans_go_back_with_their_attempts_counted(repo: Repo) -> None:
    job = await repo.accepted()
    await repo.claimed("dies")
    repo.clock.advance(LEASE_SECONDS + 1)
    lease = await repo.claimed("lives")
    assert (lease.job.id, lease.job.attempt, lease.token) == (job.id, 2, 2)
    kinds = [event.kind async for event in repo.app.aevents(job.id)]
    assert kinds == ["enqueued", "started", "expired", "started"]


@on_both
async def test_the_ids_of_orphans_can_be_told(repo: Repo) -> None:
    jobs = [await repo.accepted(number) for number in range(3)]
    for _ in jobs:
        await repo.claimed("dies")
    repo.clock.advance(LEASE_SECONDS + 1)
    await repo.claimed("lives")
    back = [job.id for job in jobs if "expired" in [event.kind async for event in repo.app.aevents(job.id)]]
    assert back == [job.id for job in jobs]
    lost = await repo.again(jobs[2])
    assert "worker dies" in str(lost.error)
    assert "stopped renewing its lease" in str(lost.error)


def test_the_layout_is_made_once_however_often_it_is_asked_for() -> None:
    with new_database() as url, Holdfast(url) as app:
        assert app.migrate()[0].startswith("0001_")
        assert app.migrate() == []
        assert app.stats() == {}


# Gets wrong


@on_both
async def test_a_job_that_is_merely_long_is_not_taken_from_its_living_worker(repo: Repo) -> None:
    job = await repo.accepted()
    lease = await repo.claimed("slow but alive")
    for _ in range(10):
        repo.clock.advance(LEASE_SECONDS - 1)
        async with repo.session() as session, session.begin():
            await repo.app.on(session).arenew(lease)
            assert await repo.claim_next_pending(session, "greedy") is None
    async with repo.session() as session, session.begin():
        await repo.mark_done(session, lease, ResponseIX())
    done = await repo.again(job)
    assert (done.state, done.attempt) == ("succeeded", 1)


@on_both
async def test_a_long_unit_of_work_is_not_taken_either(repo: Repo) -> None:
    """Claimed and run inside one open transaction, far beyond its lease: to the others it has never begun."""
    job = await repo.accepted()
    async with repo.session() as session, session.begin():
        lease = await repo.claim_next_pending(session)
        assert lease is not None
        repo.clock.advance(LEASE_SECONDS * 10)
        async with repo.session() as other, other.begin():
            assert await repo.claim_next_pending(other, "greedy") is None
        await repo.mark_done(session, lease, ResponseIX())
    done = await repo.again(job)
    assert (done.state, done.attempt) == ("succeeded", 1)


@on_both
async def test_a_job_that_kills_its_worker_does_not_kill_workers_for_ever(repo: Repo) -> None:
    job = await repo.accepted()
    for attempt in (1, 2, 3):
        assert (await repo.claimed(f"victim-{attempt}")).job.attempt == attempt
        repo.clock.advance(LEASE_SECONDS + 1)
    async with repo.session() as session, session.begin():
        assert await repo.claim_next_pending(session, "next") is None
    dead = await repo.again(job)
    assert (dead.state, dead.attempt, len(dead.errors)) == ("failed", 3, 3)
    assert "attempt 3 of 3" in str(dead.error)


@on_both
async def test_a_worker_that_lost_its_job_can_not_write_over_its_successors_work(repo: Repo) -> None:
    job = await repo.accepted()
    late = await repo.claimed("late")
    repo.clock.advance(LEASE_SECONDS + 1)
    successor = await repo.claimed("successor")
    async with repo.session() as session:
        session.add(Audit(said="by the late one"))
        await session.flush()
        for refused in (repo.mark_done(session, late, ResponseIX()), repo.mark_error(session, late, "late")):
            with pytest.raises(LeaseLost):
                await refused
        await session.rollback()
    async with repo.session() as session, session.begin():
        await repo.mark_done(session, successor, ResponseIX(fields={"by": "the successor"}))
    async with repo.session() as session, session.begin():
        with pytest.raises(LeaseLost):
            await repo.mark_done(session, late, ResponseIX(error="too late"))
    done = await repo.again(job)
    assert (done.state, done.result) == ("succeeded", ResponseIX(fields={"by": "the successor"}))
    assert await repo.audits() == 0


@on_both
async def test_a_late_worker_that_meets_the_sweep_waits_and_is_refused(repo: Repo) -> None:
    """Its finish and the expiry come at the same moment: one of them holds, never both."""
    job = await repo.accepted()
    late = await repo.claimed("late")
    repo.clock.advance(LEASE_SECONDS + 1)
    async with repo.session() as sweeping, repo.session() as finishing:
        lease = await repo.claim_next_pending(sweeping, "successor")
        assert lease is not None
        refused = asyncio.ensure_future(repo.mark_done(finishing, late, ResponseIX()))
        await asyncio.to_thread(wait_for_a_waiter, repo.app.url)
        await sweeping.commit()
        with pytest.raises(LeaseLost):
            await refused
        await finishing.rollback()
    assert (await repo.again(job)).attempt == 2


@on_both
async def test_terminal_states_are_stable(repo: Repo) -> None:
    job = await repo.accepted()
    lease = await repo.claimed()
    async with repo.session() as session, session.begin():
        await repo.mark_done(session, lease, ResponseIX())
        with pytest.raises(IllegalMove):
            await repo.app.on(session).acancel(job.id)
        key = Key("request", "billing", "r-1", conflict="raise")
        with pytest.raises(Conflict):
            await repo.extract.using(on=session, key=key).aenqueue(request())
    assert (await repo.again(job)).state == "succeeded"


@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
def test_an_orphan_of_a_killed_process_is_picked_up_by_a_living_one(driver: str, url: str) -> None:
    """Real processes and the server's clock: nobody has to restart anything."""

    async def body() -> None:
        with app_on(url, None) as app:
            extract: Extract = app.task_named("extract")
            job = await extract.aenqueue(request())
            ((claimed, _),) = await asyncio.to_thread(run_there, url, DIES_WITH_A_JOB, exit_code=9)
            assert claimed == job.id
            worker = app.worker(concurrency=1)
            thread = threading.Thread(target=worker.run)
            thread.start()
            done = await app.await_job(job.id, timeout=30)
            worker.stop()
            await asyncio.to_thread(thread.join, 30)
            assert (done.state, done.attempt) == ("succeeded", 2)
            engine = create_async_engine(of_alchemy(url, driver))
            async with AsyncSession(engine) as session:
                assert (await app.on(session).aget(job.id)).result == ResponseIX(fields={"page-1.png": "42.00"})  # type: ignore[union-attr]
            await engine.dispose()

    asyncio.run(body())


def wait_for_a_waiter(url: str) -> None:
    """Until somebody waits for a lock."""
    with psycopg.connect(url, autocommit=True) as own:
        until(lambda: own.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone(), "somebody waits")
