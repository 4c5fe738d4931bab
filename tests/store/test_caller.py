"""The caller's transaction, through every library that we speak: the same promises for each of them."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from holdfast import (
    Conflict,
    Context,
    Holdfast,
    IllegalMove,
    Job,
    JobNotFound,
    Key,
    LeaseLost,
    PayloadError,
    SettingError,
    State,
    StoreUnavailable,
    Task,
)
from tests.store.inside import sqlite_store
from tests.store.libraries import LIBRARIES, Library, app_at, engine_of

Tried = Callable[[Library, Holdfast, "Task[Callable[[int], int]]"], Awaitable[None]]
PROMISES: list[Tried] = []
"""What every library must do, for whichever database it speaks to."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "app.db")


@pytest.fixture
def app(path: str) -> Iterator[Holdfast]:
    with app_at(path) as app:
        yield app


def double(number: int) -> int:
    return number * 2


def on_each(test: Tried) -> Any:
    """Runs a test once per library."""
    PROMISES.append(test)

    @pytest.mark.parametrize("library", LIBRARIES)
    def run(library: str, app: Holdfast, path: str) -> None:
        async def body() -> None:
            async with LIBRARIES[library](path) as opened:
                await test(opened, app, app.task(double))

        asyncio.run(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def error_of(call: Callable[[], Any], kind: type[Exception] = SettingError) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# What every library must do


@on_each
async def test_a_job_is_there_after_the_callers_commit_and_not_before(library: Library, app: Holdfast, task: Any) -> None:
    job = await library.enqueue(task, 1)
    assert job.created
    assert app.get(job.id) is None
    await library.commit()
    found = app.get(job.id)
    assert found is not None
    assert (found.state, found.arguments) == ("ready", {"number": 1})


@on_each
async def test_a_rollback_leaves_nothing(library: Library, app: Holdfast, task: Any) -> None:
    await library.write_note()
    job = await library.enqueue(task, 1, key=Key("k"), tags=["eu"], id="mine")
    await library.rollback()
    assert app.get(job.id) is None
    assert app.find("k") is None
    assert app.stats() == {}
    assert await library.count_notes() == 0


@on_each
async def test_the_callers_rows_and_ours_commit_together(library: Library, app: Holdfast, task: Any) -> None:
    await library.write_note()
    await library.enqueue(task, 1)
    await library.write_note()
    await library.commit()
    assert await library.count_notes() == 2
    assert len(app.jobs()) == 1


@on_each
async def test_a_duplicate_key_gives_the_first_job_and_the_transaction_goes_on(
    library: Library, app: Holdfast, task: Any
) -> None:
    first = task.using(key=Key("k")).enqueue(1)
    await library.write_note()
    again = await library.enqueue(task, 2, key=Key("k"))
    assert (again.id, again.created, again.same_arguments) == (first.id, False, False)
    await library.write_note()
    await library.commit()
    assert await library.count_notes() == 2


@on_each
async def test_a_refusal_leaves_what_the_caller_wrote_before(library: Library, app: Holdfast, task: Any) -> None:
    task.using(key=Key("k"), id="taken").enqueue(1)
    app.cancel("taken")
    await library.write_note()
    with pytest.raises(Conflict):
        await library.enqueue(task, 2, key=Key("k", conflict="raise"))
    with pytest.raises(Conflict):
        await library.enqueue(task, 2, id="taken")
    with pytest.raises(IllegalMove):
        await library.ask(app, "cancel", "taken")
    with pytest.raises(JobNotFound):
        await library.ask(app, "retry", "nobody")
    with pytest.raises(PayloadError):
        await library.enqueue(task, float("nan"))
    await library.commit()
    assert await library.count_notes() == 1
    assert len(app.jobs()) == 1


@on_each
async def test_a_lost_lease_leaves_what_the_caller_wrote_before(library: Library, app: Holdfast, task: Any) -> None:
    job = task.enqueue(1)
    lease = app.claim()
    assert lease is not None
    app.cancel(job.id)
    await library.write_note()
    for verb in ("finish", "renew", "release"):
        with pytest.raises(LeaseLost):
            await library.ask(app, verb, lease)
    with pytest.raises(LeaseLost):
        await library.ask(app, "fail", lease, "too late")
    await library.commit()
    assert await library.count_notes() == 1
    cancelled = app.get(job.id)
    assert cancelled is not None
    assert cancelled.state == "cancelled"


@on_each
async def test_an_error_of_ours_does_not_keep_the_write_lock(library: Library, app: Holdfast, task: Any) -> None:
    """A caller that had written nothing yet must not block everybody else because it catches an error and goes on."""
    with pytest.raises(JobNotFound):
        await library.ask(app, "cancel", "nobody")
    if not library.begins:
        sqlite_store(app).busy_seconds = 0.0
        task.enqueue(1)
    await library.rollback()
    task.enqueue(2)


@on_each
async def test_a_job_is_claimed_and_finished_in_the_callers_transaction(library: Library, app: Holdfast, task: Any) -> None:
    job = task.enqueue(21)
    lease = await library.ask(app, "claim", worker="me", seconds=60)
    assert (lease.job.id, lease.token, lease.job.attempt) == (job.id, 1, 1)
    done = await library.ask(app, "finish", lease, 42, meter={"gpu_seconds": 1.5})
    assert (done.state, done.result, done.meter) == ("succeeded", 42, {"gpu_seconds": 1.5})
    await library.write_note()
    assert _state(app, job) == "ready"
    await library.commit()
    assert _state(app, job) == "succeeded"


@on_each
async def test_a_claim_that_is_rolled_back_never_happened(library: Library, app: Holdfast, task: Any) -> None:
    job = task.enqueue(1)
    assert await library.ask(app, "claim") is not None
    await library.rollback()
    found = app.get(job.id)
    assert found is not None
    assert (found.state, found.attempt, found.token) == ("ready", 0, 0)


@on_each
async def test_renew_fail_release_and_skip_by_lease(library: Library, app: Holdfast, task: Any) -> None:
    jobs = [task.using(priority=number).enqueue(number) for number in range(3)]
    leases = [await library.ask(app, "claim", tasks=[task]) for _ in jobs]
    renewed = await library.ask(app, "renew", leases[0])
    assert renewed.expires_at > datetime.now(UTC)
    assert (await library.ask(app, "fail", leases[0], ValueError("no"))).state == "scheduled"
    assert (await library.ask(app, "release", leases[1])).state == "ready"
    assert (await library.ask(app, "skip", leases[2], "not wanted")).state == "skipped"
    await library.commit()
    assert [_state(app, job) for job in jobs] == ["scheduled", "ready", "skipped"]


@on_each
async def test_the_whole_client_reads_and_acts_inside_the_transaction(library: Library, app: Holdfast, task: Any) -> None:
    job = await library.enqueue(task, 1, key=Key("k"), tags=["eu"], parent="doc-1")
    later = await library.enqueue(task, 2, run_after=datetime.now(UTC) + timedelta(hours=1))
    assert (await library.ask(app, "get", job.id)).tags == ("eu",)
    assert (await library.ask(app, "find", Key("k"))).id == job.id
    assert [found.id for found in await library.ask(app, "jobs", tag="eu")] == [job.id]
    assert [found.id for found in await library.ask(app, "jobs", parent="doc-1")] == [job.id]
    assert [found.id for found in await library.ask(app, "jobs", state="scheduled")] == [later.id]
    assert await library.ask(app, "stats") == {task.name: {"ready": 1, "scheduled": 1}}
    assert (await library.ask(app, "cancel", job.id, "no need")).state == "cancelled"
    assert (await library.ask(app, "retry", job.id)).state == "ready"
    assert (await library.ask(app, "skip", later.id, "no need")).state == "skipped"
    await library.ask(app, "delete", later.id)
    assert await library.ask(app, "get", later.id) is None
    kinds = [event.kind for event in await _events(library, app, job.id)]
    assert kinds == ["enqueued", "cancelled", "retried"]
    assert app.jobs() == []
    await library.commit()
    assert [found.id for found in app.jobs()] == [job.id]


async def _events(library: Library, app: Holdfast, id: str) -> list[Any]:
    bound = app.on(library.connection)
    return [event async for event in bound.aevents(id)] if library.is_async else list(bound.events(id))


@on_each
async def test_many_jobs_go_in_with_one_commit(library: Library, app: Holdfast, task: Any) -> None:
    batch = await library.ask(app, "enqueue_many", (task.bind(number) for number in range(2_500)))
    assert (len(batch), batch.created) == (2_500, 2_500)
    read = [job async for job in batch] if library.is_async else list(batch)
    assert [job.arguments["number"] for job in read] == list(range(2_500))
    assert app.stats() == {}
    await library.commit()
    assert app.stats() == {task.name: {"ready": 2_500}}


@on_each
async def test_prune_takes_part_too(library: Library, app: Holdfast, task: Any) -> None:
    task.enqueue(1)
    lease = app.claim()
    assert lease is not None
    app.finish(lease, 2)
    assert await library.ask(app, "prune", older_than=0) == 1
    await library.rollback()
    assert len(app.jobs()) == 1


@on_each
async def test_the_wrong_twin_says_which_one_is_right(library: Library, app: Holdfast, task: Any) -> None:
    bound = task.using(on=library.connection)
    if library.is_async:
        with pytest.raises(SettingError, match="async connection; use the method with an 'a' in front"):
            bound.enqueue(1)
    else:
        with pytest.raises(SettingError, match="sync connection; use the method without an 'a' in front"):
            await bound.aenqueue(1)


@on_each
async def test_a_task_finishes_its_job_together_with_its_own_rows(library: Library, app: Holdfast, task: Any) -> None:
    connection = library.connection
    if not library.is_async:
        pytest.skip("a sync connection belongs to the thread that runs the task: see below")

    @app.task(name="write-down")
    async def write_down(ctx: Context, text: str) -> str:
        await library.write_note()
        await ctx.afinish(on=connection, result=text.upper())
        await library.commit()
        return "ignored"

    job = write_down.enqueue("mine")
    await app.worker(concurrency=1).arun_until_empty()
    done = app.get(job.id)
    assert done is not None
    assert (done.state, done.result, done.attempt) == ("succeeded", "MINE", 1)
    assert await library.count_notes() == 1


def _state(app: Holdfast, job: Job) -> State | None:
    found = app.get(job.id)
    return None if found is None else found.state


# A task that finishes inside its own transaction, in a thread


@pytest.mark.parametrize("kind", ["sqlite3", "session"])
def test_a_plain_task_finishes_its_job_in_its_own_thread(app: Holdfast, path: str, kind: str) -> None:
    engine = engine_of(path)

    @app.task(name="write-down")
    def write_down(ctx: Context, text: str) -> None:
        if kind == "session":
            with Session(engine) as session, session.begin():
                session.execute(sa.text("INSERT INTO note VALUES (:text)"), {"text": text})
                ctx.finish(on=session, result=len(text))
        else:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("INSERT INTO note VALUES (?)", (text,))
                ctx.finish(on=connection, result=len(text))

    job = write_down.enqueue("four")
    app.worker().run_until_empty()
    done = app.get(job.id)
    assert done is not None
    assert (done.state, done.result) == ("succeeded", 4)
    engine.dispose()


def test_a_task_whose_transaction_was_rolled_back_has_not_finished(app: Holdfast, path: str) -> None:
    @app.task(name="forgetful")
    def forgetful(ctx: Context) -> None:
        with closing(sqlite3.connect(path)) as connection:
            ctx.finish(on=connection, result=1)
            connection.rollback()

    job = forgetful.using(attempts=1).enqueue()
    app.worker().run_until_empty()
    failed = app.get(job.id)
    assert failed is not None
    assert failed.state == "failed"
    assert "was not committed" in str(failed.error)


def test_what_a_task_said_before_it_finished_in_its_transaction_is_kept(app: Holdfast, path: str) -> None:
    trying = threading.Event()

    @app.task(name="says")
    def says(ctx: Context) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            app.store.probe = lambda what: trying.set() if what == "begin" else None
            ctx.emit("noted", {"n": 1})
            ctx.meter(pages=3)
            assert trying.wait(10)
            ctx.finish(on=connection)
            connection.execute("COMMIT")

    job = says.enqueue()
    app.worker(concurrency=1).run_until_empty()
    done = app.get(job.id)
    assert done is not None
    assert done.meter == {"pages": 3.0}
    assert [event.kind for event in app.events(job.id)] == ["enqueued", "started", "noted", "succeeded"]


def test_ctx_finish_refuses_the_wrong_twin_and_another_database(app: Holdfast, tmp_path: Path) -> None:
    other = app_at(str(tmp_path / "other.db"))
    said: list[str] = []

    @app.task(name="confused")
    async def confused(ctx: Context) -> None:
        async with aiosqlite.connect(other.store.path) as asynchronous:
            said.append(error_of(lambda: ctx.finish(on=asynchronous)))
        with closing(sqlite3.connect(other.store.path)) as connection:
            with pytest.raises(SettingError) as caught:
                await ctx.afinish(on=connection)
            said.append(str(caught.value))
            said.append(error_of(lambda: ctx.finish(on=connection)))

    job = confused.enqueue()
    app.worker().run_until_empty()
    assert _state(app, job) == "succeeded"
    assert "await ctx.afinish" in said[0]
    assert "use ctx.finish" in said[1]
    assert "other.db, but this app's jobs are in" in said[2]
    other.close()


# What a user trips over


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (object(), "builtins.object"),
        ("jobs.db", "builtins.str"),
        (3, "builtins.int"),
        (sqlite3, "builtins.module"),
        (sa.create_engine("sqlite://"), "sqlalchemy.engine.base.Engine"),
        (sessionmaker(), "sqlalchemy.orm.session.sessionmaker"),
    ],
)
def test_an_object_that_is_no_connection_is_named_with_what_is(app: Holdfast, wrong: object, named: str) -> None:
    said = error_of(lambda: app.on(wrong))
    assert said.startswith(f"on= cannot be a {named}; pass an open connection of sqlite3 or aiosqlite, or SQLAlchemy's")
    assert app.jobs() == []


def test_a_session_for_another_database_system_is_refused_before_it_connects(app: Holdfast) -> None:
    session = Session(bind=_Postgres())  # type: ignore[arg-type]
    said = error_of(lambda: app.on(session))
    assert "speaks postgresql+psycopg" in said


class _Postgres:
    class dialect:  # noqa: N801
        name, driver = "postgresql", "psycopg"

    @property
    def engine(self) -> Any:
        return self


def test_a_session_with_no_database_of_its_own_is_refused(app: Holdfast) -> None:
    assert "pass session.connection(...)" in error_of(lambda: app.on(Session()))


def test_a_database_without_our_tables_gives_the_remedy(tmp_path: Path, path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE note (text TEXT)")
        app = Holdfast(f"sqlite:///{path}")
        task = app.task(double)
        for call in (lambda: task.using(on=connection).enqueue(1), lambda: app.on(connection).get("x")):
            said = error_of(call, StoreUnavailable)
            assert said.startswith("the database of on= has no Holdfast tables; call app.migrate() when your program starts")
        assert not connection.in_transaction


def test_a_connection_to_another_file_is_refused(app: Holdfast, path: str, tmp_path: Path) -> None:
    other = app_at(str(tmp_path / "other.db"))
    task = app.task(double)
    for place in (str(tmp_path / "other.db"), ":memory:"):
        with closing(sqlite3.connect(place)) as connection:
            if place == ":memory:":
                connection.execute("CREATE TABLE holdfast_counter (name, value)")
                connection.execute("CREATE TABLE holdfast_migration (version)")
            said = error_of(lambda: task.using(on=connection).enqueue(1))
            assert "but this app's jobs are in" in said
    assert other.jobs() == []
    other.close()


def test_a_link_to_the_same_file_is_the_same_file(app: Holdfast, path: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with closing(sqlite3.connect(str(tmp_path / "link" / "app.db"))) as connection:
        app.task(double).using(on=connection).enqueue(1)
        connection.commit()
    assert len(app.jobs()) == 1


def test_a_connection_that_has_the_file_attached_will_do(app: Holdfast, path: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(str(tmp_path / "mine.db"))) as connection:
        connection.execute("ATTACH ? AS jobs", (path,))
        app.task(double).using(on=connection).enqueue(1)
        connection.commit()
    assert len(app.jobs()) == 1


def test_a_database_of_a_newer_version_is_refused(app: Holdfast, path: str) -> None:
    task = app.task(double)
    with closing(sqlite3.connect(path)) as connection:
        with connection:
            connection.execute("INSERT INTO holdfast_migration VALUES (9999, 0)")
        said = error_of(lambda: task.using(on=connection).enqueue(1), StoreUnavailable)
        assert "the database of on= is at schema version 9999" in said
        assert "upgrade Holdfast" in said
        assert connection.execute("SELECT count(*) FROM holdfast_job").fetchone() == (0,)


def test_autocommit_without_a_transaction_is_refused(app: Holdfast, path: str) -> None:
    task = app.task(double)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        said = error_of(lambda: task.using(on=connection).enqueue(1))
        assert "autocommit mode with no transaction; execute BEGIN IMMEDIATE first, or leave on= out" in said
        assert app.on(connection).jobs() == []
    engine = engine_of(path)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connected:
        assert "autocommit mode" in error_of(lambda: task.using(on=connected).enqueue(1))
    engine.dispose()
    assert app.jobs() == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the attribute came with Python 3.12")
def test_the_autocommit_attribute_counts_where_it_is_used(app: Holdfast, path: str) -> None:
    """Its `commit()` does nothing while it is True: a transaction that we began would never be committed."""
    options: dict[str, Any] = {"autocommit": True}
    task = app.task(double)
    with closing(sqlite3.connect(path, **options)) as connection:
        assert "autocommit mode" in error_of(lambda: task.using(on=connection).enqueue(1))
        connection.execute("BEGIN IMMEDIATE")
        task.using(on=connection).enqueue(2)
        connection.execute("COMMIT")

    async def body() -> None:
        async with aiosqlite.connect(path, **options) as connection:
            with pytest.raises(SettingError, match="autocommit mode"):
                await task.using(on=connection).aenqueue(3)

    asyncio.run(body())
    assert [job.arguments["number"] for job in app.jobs()] == [2]


def test_an_aiosqlite_connection_in_autocommit_mode_is_refused(app: Holdfast, path: str) -> None:
    async def body() -> None:
        async with aiosqlite.connect(path, isolation_level=None) as connection:
            with pytest.raises(SettingError, match="autocommit mode"):
                await app.task(double).using(on=connection).aenqueue(1)

    asyncio.run(body())


def test_a_transaction_that_read_before_others_wrote_is_told_so(app: Holdfast, path: str) -> None:
    task = app.task(double)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM note").fetchone()
        task.enqueue(1)
        said = error_of(lambda: task.using(on=connection).enqueue(2), StoreUnavailable)
        assert "the database of on= changed since this transaction read it" in said
        assert "begin with BEGIN IMMEDIATE" in said
        connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE")
        task.using(on=connection).enqueue(2)
        connection.execute("COMMIT")
    assert len(app.jobs()) == 2


def test_a_transaction_that_has_only_begun_takes_the_lock_before_it_reads(app: Holdfast, path: str) -> None:
    """Cancel reads first: without the lock, a commit between its read and its write would fail it for nothing."""
    job = app.task(double).enqueue(1)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        seen: list[str] = []
        connection.set_trace_callback(seen.append)
        connection.execute("BEGIN")
        app.on(connection).cancel(job.id)
        connection.execute("COMMIT")
    assert seen[0] == "BEGIN"
    assert seen[1].startswith("SAVEPOINT")
    assert "UPDATE holdfast_counter" in seen[2]


def test_a_lock_that_does_not_come_free_ends_in_our_error(app: Holdfast, path: str) -> None:
    task = app.task(double)
    with closing(sqlite3.connect(path)) as holder, closing(sqlite3.connect(path, timeout=0.01)) as connection:
        holder.execute("BEGIN IMMEDIATE")
        said = error_of(lambda: task.using(on=connection).enqueue(1), StoreUnavailable)
        assert "the database of on= is locked by another process" in said
        holder.rollback()
        task.using(on=connection).enqueue(1)
        connection.commit()
    assert len(app.jobs()) == 1


def test_a_lock_that_comes_free_in_time_is_waited_for(app: Holdfast, path: str) -> None:
    task = app.task(double)
    began = threading.Event()
    with closing(sqlite3.connect(path, check_same_thread=False)) as holder:
        holder.execute("BEGIN IMMEDIATE")

        def enqueue() -> None:
            with closing(sqlite3.connect(path, timeout=30)) as connection:
                connection.set_trace_callback(lambda sql: began.set() if sql.startswith("BEGIN") else None)
                task.using(on=connection).enqueue(1)
                connection.commit()

        thread = threading.Thread(target=enqueue)
        thread.start()
        assert began.wait(10)
        holder.rollback()
        thread.join(10)
    assert len(app.jobs()) == 1


def test_a_closed_connection_and_one_of_another_thread_say_so(app: Holdfast, path: str) -> None:
    task = app.task(double)
    connection = sqlite3.connect(path)
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(error_of(lambda: task.using(on=connection).enqueue(1))))
    thread.start()
    thread.join()
    assert said == ["on= is a connection of another thread; open one in this thread, or with check_same_thread=False"]
    connection.close()
    assert error_of(lambda: task.using(on=connection).enqueue(1)) == "on= is a connection that is closed; pass one that is open"


def test_an_aiosqlite_connection_that_is_not_open_says_so(app: Holdfast, path: str) -> None:
    async def body() -> None:
        never = aiosqlite.connect(path)
        with pytest.raises(SettingError, match="not open; pass `await aiosqlite"):
            await app.task(double).using(on=never).aenqueue(1)

    asyncio.run(body())


def test_tasks_that_share_an_aiosqlite_connection_do_not_mix_their_savepoints(app: Holdfast, path: str) -> None:
    task = app.task(double)
    task.using(key=Key("held")).enqueue(0)

    async def body() -> list[Any]:
        async with aiosqlite.connect(path) as connection:
            free = (task.using(on=connection).aenqueue(number) for number in range(10))
            refused = (task.using(on=connection, key=Key("held", conflict="raise")).aenqueue(9) for _ in range(10))
            pairs = [each for pair in zip(free, refused, strict=True) for each in pair]
            answers = await asyncio.gather(*pairs, return_exceptions=True)
            await connection.commit()
            return answers

    answers = asyncio.run(body())
    assert [type(answer) for answer in answers] == [Job, Conflict] * 10
    assert sorted(job.arguments["number"] for job in app.jobs()) == [0, *range(10)]


def test_a_cancelled_async_enqueue_leaves_the_callers_transaction_usable(app: Holdfast, path: str) -> None:
    task = app.task(double)

    async def body() -> int:
        engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        async with aiosqlite.connect(path) as connection:
            await connection.execute("INSERT INTO note VALUES ('mine')")
            enqueuing = asyncio.ensure_future(task.using(on=connection).aenqueue(1))
            await asyncio.sleep(0)
            enqueuing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await enqueuing
            await connection.commit()
        async with AsyncSession(engine) as session:
            counted = (await session.execute(sa.text("SELECT count(*) FROM note"))).scalar_one()
        await engine.dispose()
        return int(counted)

    assert asyncio.run(body()) == 1
    assert app.jobs() == []


def test_a_nested_transaction_of_the_session_can_be_rolled_back_alone(app: Holdfast, path: str) -> None:
    task, engine = app.task(double), engine_of(path)
    with Session(engine) as session, session.begin():
        kept = task.using(on=session).enqueue(1)
        nested = session.begin_nested()
        lost = task.using(on=session).enqueue(2)
        nested.rollback()
    engine.dispose()
    assert app.get(kept.id) is not None
    assert app.get(lost.id) is None


def test_a_subclass_of_a_session_is_a_session(app: Holdfast, path: str) -> None:
    class Own(Session):
        pass

    engine = engine_of(path)
    with Own(engine) as session:
        app.task(double).using(on=session).enqueue(1)
        session.commit()
    engine.dispose()
    assert len(app.jobs()) == 1


def test_waiting_inside_a_transaction_is_refused(app: Holdfast, path: str) -> None:
    """It would look at its own snapshot of the past for ever."""
    job = app.task(double).enqueue(1)
    with closing(sqlite3.connect(path)) as connection:
        assert "commit first" in error_of(lambda: app.on(connection).wait(job.id))
        assert "commit first" in error_of(lambda: list(app.on(connection).events(job.id, follow=True)))


def test_every_method_of_the_client_is_there_inside_a_transaction(app: Holdfast, path: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        bound = app.on(connection)
        public = {name for name, _ in inspect.getmembers(type(bound), inspect.isfunction) if not name.startswith("_")}
        assert {"enqueue", "claim", "finish", "cancel", "prune", "aenqueue", "afinish"} <= public
        assert app.on(connection).on(connection).jobs() == []


# Others learn of it


def test_a_worker_picks_the_job_up_right_after_the_callers_commit(app: Holdfast, path: str) -> None:
    """Its own app object, its own connections, as in another process: only the file tells it."""
    workers = Holdfast(f"sqlite:///{path}")
    ran = threading.Event()

    @workers.task(name="double")
    def run(number: int) -> int:
        ran.set()
        return number * 2

    task = app.task(name="double")(double)
    worker = workers.worker(concurrency=1)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        app.wait(task.enqueue(0).id, timeout=10)
        ran.clear()
        engine = engine_of(path)
        with Session(engine) as session:
            job = task.using(on=session).enqueue(21)
            assert not ran.wait(0.05)  # blocks on purpose: nothing may happen before the commit
            before = datetime.now(UTC)
            session.commit()
        engine.dispose()
        done = app.wait(job.id, timeout=10)
        assert done.result == 42
        assert done.started_at is not None
        assert done.started_at - before < timedelta(seconds=0.5)
    finally:
        worker.stop()
        thread.join(10)
        workers.close()
