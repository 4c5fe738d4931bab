"""The caller's transaction on PostgreSQL, through every library that we speak: the promises of `test_adapters`, and its own."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, sessionmaker

from holdfast import Conflict, Context, Holdfast, Job, JobNotFound, Key, SettingError, StoreUnavailable
from tests.servers import migrated_database, new_database
from tests.store.libraries import NOTE, NOTES, Library
from tests.store.libraries_postgres import POSTGRES_LIBRARIES, django_connection, of_alchemy
from tests.store.test_caller import PROMISES, Tried, double, error_of

KEPT = [each for each in PROMISES if each.__name__ != "test_an_error_of_ours_does_not_keep_the_write_lock"]
"""There is no such lock here; what stands for it is below."""
ABORTED = "on= is in a transaction that an earlier error has aborted; roll it back first"
AUTOCOMMIT = "on= is a connection in autocommit mode with no transaction; begin one first, or leave on= out"
NO_TABLES = "the database of on= has no Holdfast tables; call app.migrate() when your program starts, or run `holdfast migrate`"


@pytest.fixture
def url() -> Iterator[str]:
    with migrated_database() as url:
        yield url


@pytest.fixture
def app(url: str) -> Iterator[Holdfast]:
    with Holdfast(url) as app:
        with psycopg.connect(url) as own:
            own.execute("DROP TABLE IF EXISTS note, page")
            own.execute("CREATE TABLE note (text TEXT)")
        yield app


@pytest.mark.parametrize("library", POSTGRES_LIBRARIES)
@pytest.mark.parametrize("promise", KEPT, ids=lambda each: each.__name__.removeprefix("test_"))
def test_promise(promise: Tried, library: str, app: Holdfast, url: str) -> None:
    run_on(library, url, lambda opened: promise(opened, app, app.task(double)))


def run_on(library: str, url: str, test: Callable[[Library], Any]) -> None:
    async def body() -> None:
        async with POSTGRES_LIBRARIES[library](url) as opened:
            await test(opened)

    asyncio.run(body())


on_each = pytest.mark.parametrize("library", POSTGRES_LIBRARIES)


# What every library must do here


@on_each
def test_a_failing_statement_of_ours_does_not_abort_the_callers_transaction(library: str, app: Holdfast, url: str) -> None:
    """Reads too: on this database an error anywhere in a transaction spoils all of it."""

    async def test(opened: Library) -> None:
        await opened.write_note()
        with psycopg.connect(url) as own:
            own.execute("ALTER SCHEMA holdfast RENAME TO elsewhere")
        try:
            with pytest.raises(StoreUnavailable) as written:
                await opened.enqueue(app.task(double), 1)
            with pytest.raises(StoreUnavailable) as read:
                await opened.ask(app, "get", "x")
        finally:
            with psycopg.connect(url) as own:
                own.execute("ALTER SCHEMA elsewhere RENAME TO holdfast")
        assert [str(written.value), str(read.value)] == [NO_TABLES, NO_TABLES]
        await opened.write_note()
        await opened.commit()
        assert await opened.count_notes() == 2

    run_on(library, url, test)


@on_each
def test_an_error_of_ours_keeps_no_locks(library: str, app: Holdfast, url: str) -> None:
    task = app.task(double)
    job = task.using(key=Key("k")).enqueue(1)

    async def test(opened: Library) -> None:
        with pytest.raises(JobNotFound):
            await opened.ask(app, "cancel", "nobody")
        with pytest.raises(Conflict):
            await opened.enqueue(task, 2, key=Key("k", conflict="raise"))
        assert app.cancel(job.id).state == "cancelled"
        assert task.using(key=Key("k", conflict="replace")).enqueue(2).created
        await opened.rollback()

    run_on(library, url, test)


@on_each
def test_a_transaction_that_is_aborted_is_told_so(library: str, app: Holdfast, url: str) -> None:
    task = app.task(double)

    async def test(opened: Library) -> None:
        await opened.write_note()
        await spoil(opened)
        with pytest.raises(SettingError) as written:
            await opened.enqueue(task, 1)
        with pytest.raises(SettingError) as read:
            await opened.ask(app, "jobs")
        assert [str(written.value), str(read.value)] == [ABORTED, ABORTED]
        await opened.rollback()
        await opened.enqueue(task, 1)
        await opened.commit()
        assert len(app.jobs()) == 1

    run_on(library, url, test)


async def spoil(opened: Library) -> None:
    """A mistake of the caller's own, in the middle of its transaction."""
    connection, wrong = opened.connection, "SELECT 1 / 0"
    alchemy = hasattr(connection, "scalars")
    execute = connection.cursor().execute if hasattr(connection, "vendor") else connection.execute
    with pytest.raises(Exception, match="division by zero"):
        await finished(execute(sa.text(wrong) if alchemy else wrong))


async def finished(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


@on_each
def test_others_are_not_blocked_by_what_is_not_committed(library: str, app: Holdfast, url: str) -> None:
    """An open transaction that has enqueued, claimed and finished stands in nobody's way."""
    task = app.task(double)
    first, second = task.enqueue(1), task.enqueue(2)

    async def test(opened: Library) -> None:
        lease = await opened.ask(app, "claim", worker="slow")
        assert lease.job.id == first.id
        await opened.ask(app, "finish", lease, 2)
        await opened.enqueue(task, 3)
        other = app.claim(worker="quick")
        assert other is not None
        assert other.job.id == second.id
        assert app.claim() is None
        app.finish(other, 4)
        task.enqueue(4)
        assert app.stats() == {task.name: {"ready": 2, "succeeded": 1}}
        await opened.commit()

    run_on(library, url, test)
    assert app.stats() == {task.name: {"ready": 2, "succeeded": 2}}


@on_each
def test_the_first_job_of_a_task_holds_up_nobody_elses(library: str, app: Holdfast, url: str) -> None:
    """Its lane is new, and all others want the same one; it may stay when the caller rolls back, for it holds nothing."""
    task = app.task(double)

    async def test(opened: Library) -> None:
        await opened.enqueue(task, 1)
        assert task.enqueue(2).created
        await opened.rollback()

    run_on(library, url, test)
    assert [job.arguments["number"] for job in app.jobs()] == [2]


@on_each
def test_the_same_key_in_an_open_transaction_is_waited_for(library: str, app: Holdfast, url: str) -> None:
    """Whoever comes second gets the first one's job, or the key if that was rolled back; nobody's transaction is aborted."""
    task = app.task(double)

    async def test(opened: Library) -> None:
        for ending in ("commit", "rollback"):
            key = Key("k", ending)
            await opened.write_note()
            mine = await opened.enqueue(task, 1, key=key)
            theirs: list[Job] = []
            thread = threading.Thread(target=lambda key=key, theirs=theirs: theirs.append(task.using(key=key).enqueue(2)))
            thread.start()
            await asyncio.to_thread(wait_for_a_waiter, url)
            await getattr(opened, ending)()
            await asyncio.to_thread(thread.join, 30)
            assert [each.created for each in theirs] == [ending == "rollback"]
            assert (theirs[0].id == mine.id) is (ending == "commit")

    run_on(library, url, test)


def wait_for_a_waiter(url: str) -> None:
    """Until somebody waits for a lock."""
    with psycopg.connect(url, autocommit=True) as own:
        for _ in range(1_000):
            if own.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                return
            own.execute("SELECT pg_sleep(0.01)")
    raise AssertionError("nobody waits")


@on_each
def test_the_caller_that_comes_second_with_a_key_keeps_its_transaction(library: str, app: Holdfast, url: str) -> None:
    task = app.task(double)

    async def test(opened: Library) -> None:
        await opened.write_note()
        with psycopg.connect(url) as other:
            first = task.using(key=Key("k"), on=other).enqueue(1)
            ending = threading.Thread(target=commit_when_waited_for, args=(other, url))
            ending.start()
            second = await opened.enqueue(task, 2, key=Key("k"))
            ending.join(30)
        assert (second.id, second.created) == (first.id, False)
        await opened.write_note()
        await opened.commit()
        assert await opened.count_notes() == 2

    run_on(library, url, test)


def commit_when_waited_for(connection: Any, url: str) -> None:
    wait_for_a_waiter(url)
    connection.commit()


@on_each
def test_payloads_that_drivers_trip_over(library: str, app: Holdfast, url: str) -> None:
    """Percent signs, dollars, quotes and colons are data."""
    odd = "100 % $1 %s %(x)s :name 'quoted' \\ ünï 🦀 ::text"

    @app.task(name="echo")
    def echo(text: str) -> str:
        return text

    async def test(opened: Library) -> None:
        job = await opened.enqueue(echo, odd, key=Key(odd[:40]), tags=["eu", "x:1"], meta={"odd": odd}, parent="p=1")
        await opened.enqueue(echo, "", run_after=3600)
        assert [each.id for each in await opened.ask(app, "jobs", tag="eu")] == [job.id]
        lease = await opened.ask(app, "claim", queues=["default"], tasks=[echo])
        assert lease.job.arguments == {"text": odd}
        done = await opened.ask(app, "finish", lease, odd, meter={"pages": 0.5})
        assert (done.result, done.meta, done.tags, done.parent) == (odd, {"odd": odd}, ("eu", "x:1"), "p=1")
        await opened.commit()
        assert len(app.jobs()) == 2

    run_on(library, url, test)


# A task that finishes inside its own transaction, in a thread


@pytest.mark.parametrize("kind", ["psycopg", "session", "django"])
def test_a_plain_task_finishes_its_job_in_its_own_thread(app: Holdfast, url: str, kind: str) -> None:
    engine = sa.create_engine(of_alchemy(url, "psycopg"))

    @contextmanager
    def opened() -> Iterator[Any]:
        if kind == "psycopg":
            with psycopg.connect(url) as connection:
                yield connection
        elif kind == "session":
            with Session(engine) as session, session.begin():
                yield session
        else:
            from django.db import connections, transaction

            django_connection(url)
            with transaction.atomic():
                yield connections["default"]
            connections["default"].close()

    @app.task(name="write-down")
    def write_down(ctx: Context, text: str) -> None:
        with opened() as connection:
            ctx.finish(on=connection, result=len(text))

    job = write_down.enqueue("four")
    app.worker().run_until_empty()
    engine.dispose()
    done = app.get(job.id)
    assert done is not None
    assert (done.state, done.result) == ("succeeded", 4)


def test_a_task_whose_transaction_was_rolled_back_has_not_finished(app: Holdfast, url: str) -> None:
    @app.task(name="forgetful")
    def forgetful(ctx: Context) -> None:
        with psycopg.connect(url) as connection:
            ctx.finish(on=connection, result=1)
            connection.rollback()

    job = forgetful.using(attempts=1).enqueue()
    app.worker().run_until_empty()
    failed = app.get(job.id)
    assert failed is not None
    assert failed.state == "failed"
    assert "was not committed" in str(failed.error)


# What a user trips over


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (object(), "builtins.object"),
        ("postgresql://localhost", "builtins.str"),
        (psycopg, "builtins.module"),
        (sqlite3.connect(":memory:"), "sqlite3.Connection"),
        (sa.create_engine("sqlite://"), "sqlalchemy.engine.base.Engine"),
        (sessionmaker(), "sqlalchemy.orm.session.sessionmaker"),
    ],
)
def test_an_object_that_is_no_connection_is_named_with_what_is(app: Holdfast, wrong: object, named: str) -> None:
    said = error_of(lambda: app.on(wrong))
    assert said.startswith(f"on= cannot be a {named}; pass an open connection of psycopg or asyncpg, SQLAlchemy's Connection")


def test_a_cursor_is_no_connection(app: Holdfast, url: str) -> None:
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        assert error_of(lambda: app.on(cursor)).startswith("on= cannot be a psycopg.Cursor; pass an open connection")


def test_a_session_for_another_database_system_is_refused_before_it_connects(app: Holdfast) -> None:
    said = error_of(lambda: app.on(Session(sa.create_engine("sqlite://"))))
    assert said == (
        "on= speaks sqlite+pysqlite, and this app's store is PostgreSQL; use postgresql+psycopg or postgresql+asyncpg"
    )


def test_a_connection_to_postgresql_is_refused_by_a_file(url: str, holdfast_app: Holdfast) -> None:
    with psycopg.connect(url) as connection:
        said = error_of(lambda: holdfast_app.on(connection))
    assert said.startswith("on= cannot be a psycopg.Connection; pass an open connection of sqlite3 or aiosqlite")


def test_a_session_with_no_database_of_its_own_is_refused(app: Holdfast) -> None:
    assert "pass session.connection(...)" in error_of(lambda: app.on(Session()))


def test_a_database_without_our_tables_gives_the_remedy() -> None:
    with new_database() as url, Holdfast(url) as app, psycopg.connect(url) as connection:
        task = app.task(double)
        assert error_of(lambda: task.using(on=connection).enqueue(1), StoreUnavailable) == NO_TABLES
        assert error_of(lambda: app.on(connection).get("x"), StoreUnavailable) == NO_TABLES


def test_a_connection_to_another_database_is_refused(app: Holdfast) -> None:
    app.jobs()
    with new_database() as elsewhere, Holdfast(elsewhere) as other, psycopg.connect(elsewhere) as connection:
        other.migrate()
        said = error_of(lambda: app.task(double).using(on=connection).enqueue(1))
        assert said.startswith("on= is a connection to another database than ")
        assert other.jobs() == []


def test_a_database_of_a_newer_version_is_refused(app: Holdfast, url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO holdfast.migration VALUES (9999, 0)")
        said = error_of(lambda: app.task(double).using(on=connection).enqueue(1), StoreUnavailable)
        assert "the database of on= is at schema version 9999" in said
        assert "upgrade Holdfast" in said
        connection.rollback()


def test_another_schema_is_found_there() -> None:
    with new_database() as url, psycopg.connect(url) as connection:
        elsewhere = f"{url}{'&' if '?' in url else '?'}schema=jobs"
        with Holdfast(url) as app, Holdfast(elsewhere) as other:
            other.migrate()
            other.task(double).using(on=connection).enqueue(1)
            connection.commit()
            assert (len(other.jobs()), len(app.jobs())) == (1, 0)


def test_autocommit_without_a_transaction_is_refused_and_may_read(app: Holdfast, url: str) -> None:
    task = app.task(double)
    with psycopg.connect(url, autocommit=True) as connection:
        assert error_of(lambda: task.using(on=connection).enqueue(1)) == AUTOCOMMIT
        assert app.on(connection).jobs() == []
        with connection.transaction():
            task.using(on=connection).enqueue(2)
    engine = sa.create_engine(of_alchemy(url, "psycopg"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connected:
        assert error_of(lambda: task.using(on=connected).enqueue(1)) == AUTOCOMMIT
    engine.dispose()
    connection = django_connection(url)
    assert error_of(lambda: task.using(on=connection).enqueue(1)) == AUTOCOMMIT
    assert len(app.on(connection).jobs()) == 1
    connection.close()
    assert [job.arguments["number"] for job in app.jobs()] == [2]


def test_async_autocommit_without_a_transaction_is_refused_and_may_read(app: Holdfast, url: str) -> None:
    task = app.task(double)

    async def refused(connection: Any) -> None:
        with pytest.raises(SettingError) as caught:
            await task.using(on=connection).aenqueue(1)
        assert str(caught.value) == AUTOCOMMIT
        assert await app.on(connection).ajobs() == []

    async def body() -> None:
        connection = await asyncpg.connect(url)
        await refused(connection)
        await connection.close()
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as plain:
            await refused(plain)
        for driver in ("psycopg", "asyncpg"):
            engine = create_async_engine(of_alchemy(url, driver), isolation_level="AUTOCOMMIT")
            async with AsyncSession(engine) as session:
                await refused(session)
            await engine.dispose()

    asyncio.run(body())
    assert app.jobs() == []


def test_closed_connections_say_so(app: Holdfast, url: str) -> None:
    task = app.task(double)
    connection = psycopg.connect(url)
    connection.close()
    closed = "on= is a connection that is closed; pass one that is open"
    assert error_of(lambda: task.using(on=connection).enqueue(1)) == closed

    async def body() -> None:
        alone = await asyncpg.connect(url)
        await alone.close()
        async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
            async with pool.acquire() as released:
                pass
            plain = await psycopg.AsyncConnection.connect(url)
            await plain.close()
            for each in (alone, released, plain):
                with pytest.raises(SettingError) as caught:
                    await task.using(on=each).aenqueue(1)
                assert str(caught.value) == closed

    asyncio.run(body())


def test_a_pipeline_is_refused(app: Holdfast, url: str) -> None:
    task = app.task(double)
    with psycopg.connect(url) as connection:
        with connection.pipeline():
            connection.execute(NOTE)
            said = error_of(lambda: task.using(on=connection).enqueue(1))
            assert said == "on= is a connection in pipeline mode; use it after the `with connection.pipeline():` block"
        task.using(on=connection).enqueue(1)
    assert len(app.jobs()) == 1


def test_a_connection_that_is_lost_ends_in_our_error(app: Holdfast, url: str) -> None:
    task = app.task(double)
    with psycopg.connect(url, autocommit=True) as killer, closing(psycopg.connect(url)) as connection:
        connection.execute(NOTE)
        killer.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
        said = error_of(lambda: task.using(on=connection).enqueue(1), StoreUnavailable)
        assert said.startswith(("the database of on= is shutting down", "the database of on= cannot be reached"))


def test_a_transaction_that_reads_an_old_snapshot_is_told_so(app: Holdfast, url: str) -> None:
    task = app.task(double)
    with psycopg.connect(url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute(NOTES)
        task.using(key=Key("k")).enqueue(1)
        said = error_of(lambda: task.using(on=connection, key=Key("k")).enqueue(2), StoreUnavailable)
        assert said.startswith("the database of on= changed under this transaction (SerializationFailure 40001); roll it back")
        connection.rollback()
        assert not task.using(on=connection, key=Key("k")).enqueue(2).created


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
def test_m2_a_transaction_that_is_the_first_to_use_a_task_makes_one_job_of_one_key(
    app: Holdfast, url: str, level: psycopg.IsolationLevel
) -> None:
    """Its snapshot is older than a lane that another connection would commit for it."""
    task = app.task(name="first.use")(double)
    with psycopg.connect(url) as connection:
        connection.isolation_level = level
        connection.execute(NOTES)
        first = task.using(on=connection, key=Key("k")).enqueue(1)
        second = task.using(on=connection, key=Key("k")).enqueue(1)
        assert (first.created, second.created, second.id) == (True, False, first.id)
        assert app.on(connection).get(first.id) == first
    assert [job.id for job in app.jobs(task=task)] == [first.id]


def test_a_read_only_transaction_is_told_so(app: Holdfast, url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.read_only = True
        assert app.on(connection).jobs() == []
        said = error_of(lambda: app.task(double).using(on=connection).enqueue(1), StoreUnavailable)
        assert said.startswith("the database of on= is read-only")
        assert app.on(connection).jobs() == []


def test_a_session_whose_flush_failed_is_told_so(app: Holdfast, url: str) -> None:
    class Base(sa.orm.DeclarativeBase):
        pass

    class Page(Base):
        __tablename__ = "page"
        number: sa.orm.Mapped[int] = sa.orm.mapped_column(primary_key=True)

    engine = sa.create_engine(of_alchemy(url, "psycopg"))
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.execute(sa.text("INSERT INTO page VALUES (1)"))
        session.add(Page(number=1))
        with pytest.raises(sa.exc.IntegrityError):
            session.flush()
        assert error_of(lambda: app.task(double).using(on=session).enqueue(1)) == ABORTED
    engine.dispose()


def test_an_atomic_block_of_django_that_failed_is_told_so(app: Holdfast, url: str) -> None:
    from django.db import transaction

    connection = django_connection(url)
    with transaction.atomic():
        transaction.set_rollback(True)
        assert error_of(lambda: app.task(double).using(on=connection).enqueue(1)) == ABORTED
    connection.close()


def test_an_error_of_ours_does_not_spoil_djangos_atomic_block(app: Holdfast, url: str) -> None:
    from django.db import transaction

    connection, task = django_connection(url), app.task(double)
    with transaction.atomic():
        with pytest.raises(JobNotFound):
            app.on(connection).cancel("nobody")
        with transaction.atomic():
            kept = task.using(on=connection).enqueue(1)
        undone = transaction.atomic()
        undone.__enter__()
        task.using(on=connection).enqueue(2)
        undone.__exit__(RuntimeError, RuntimeError(), None)
    connection.close()
    assert [job.id for job in app.jobs()] == [kept.id]


def test_a_nested_transaction_of_the_caller_can_be_rolled_back_alone(app: Holdfast, url: str) -> None:
    task, engine = app.task(double), sa.create_engine(of_alchemy(url, "psycopg"))
    with Session(engine) as session, session.begin():
        kept = task.using(on=session).enqueue(1)
        nested = session.begin_nested()
        task.using(on=session).enqueue(2)
        nested.rollback()
    engine.dispose()
    with psycopg.connect(url) as connection:
        with connection.transaction(force_rollback=True):
            task.using(on=connection).enqueue(3)
        connection.commit()
    assert [job.id for job in app.jobs()] == [kept.id]


def test_threads_and_tasks_that_share_a_connection_do_not_mix_their_savepoints(app: Holdfast, url: str) -> None:
    task = app.task(double)
    task.using(key=Key("held")).enqueue(0)

    async def shared(connection: Any) -> list[Any]:
        free = (task.using(on=connection).aenqueue(number) for number in range(10))
        refused = (task.using(on=connection, key=Key("held", conflict="raise")).aenqueue(9) for _ in range(10))
        return await asyncio.gather(*[each for pair in zip(free, refused, strict=True) for each in pair], return_exceptions=True)

    async def body() -> None:
        async with await psycopg.AsyncConnection.connect(url) as plain:
            assert [type(answer) for answer in await shared(plain)] == [Job, Conflict] * 10
        own = await asyncpg.connect(url)
        async with own.transaction():
            assert [type(answer) for answer in await shared(own)] == [Job, Conflict] * 10
        await own.close()

    asyncio.run(body())
    with psycopg.connect(url) as connection:
        answers: list[Any] = []

        def one(number: int) -> None:
            try:
                key = Key("held", conflict="raise") if number % 2 else None
                answers.append(task.using(on=connection, key=key).enqueue(number))
            except Conflict as conflict:
                answers.append(conflict)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert sorted(type(answer).__name__ for answer in answers) == ["Conflict"] * 10 + ["Job"] * 10
    assert len(app.jobs(limit=100)) == 31


@pytest.mark.parametrize("library", ["psycopg-async", "asyncpg"])
def test_a_cancelled_async_enqueue_leaves_the_callers_transaction_usable(library: str, app: Holdfast, url: str) -> None:
    task = app.task(double)

    async def test(opened: Library) -> None:
        with psycopg.connect(url) as other:
            task.using(key=Key("k"), on=other).enqueue(1)
            await opened.write_note()
            enqueuing = asyncio.ensure_future(opened.enqueue(task, 2, key=Key("k")))
            await asyncio.to_thread(wait_for_a_waiter, url)
            enqueuing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await enqueuing
            await opened.write_note()
            await opened.commit()
            assert await opened.count_notes() == 2
            other.rollback()
        assert app.jobs() == []

    run_on(library, url, test)


def test_the_time_is_the_servers_even_where_only_the_callers_connection_was_used(app: Holdfast, url: str) -> None:
    with Holdfast(url) as fresh, psycopg.connect(url) as connection:
        fresh.store.clock._offset -= 3_600_000_000  # type: ignore[attr-defined]  # as on a machine whose clock is an hour late
        job = fresh.task(double).using(on=connection).enqueue(1)
        assert abs(job.created_at - datetime.now(UTC)) < timedelta(seconds=60)


# Others learn of it


def test_a_worker_picks_the_job_up_right_after_the_callers_commit(app: Holdfast, url: str) -> None:
    """Its own app object, its own connections, as in another process: only the server tells it."""
    ran = threading.Event()
    with Holdfast(url) as workers:

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
            waits = []
            for number in range(5):
                ran.clear()
                with psycopg.connect(url) as connection:
                    job = task.using(on=connection).enqueue(number)
                    assert not ran.wait(0.05)  # blocks on purpose: nothing may happen before the commit
                    before = datetime.now(UTC)
                    connection.commit()
                done = app.wait(job.id, timeout=10)
                assert done.result == number * 2
                assert done.started_at is not None
                waits.append(done.started_at - before)
            assert sorted(waits)[2] < timedelta(seconds=0.2)
        finally:
            worker.stop()
            thread.join(10)
