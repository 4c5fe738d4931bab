"""What our statements mean depends on nothing that other users, the role or the database have set.

Another user of the database may create functions and operators in `public`, which a name without its schema would find
(CVE-2018-1058). Here one exists for almost every comparison, each of which raises, and every path leads to `public` first.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from holdfast import Holdfast, Key
from holdfast.cli.script import script
from holdfast.store.postgres.bounded import Bounded
from holdfast.store.postgres.driver import PostgresStore
from holdfast.store.postgres.listen import Listener
from holdfast.store.transfer import endpoint_of, transfer
from tests.servers import new_database
from tests.store.libraries import Library
from tests.store.libraries_postgres import of_alchemy
from tests.store.test_caller import double
from tests.store.test_caller_postgres import run_on
from tests.until import until

NAME = "tests.store.test_caller.double"
POOLERS = ("", "&pooler=transaction")
LIBRARIES = ("psycopg", "psycopg-async", "asyncpg", "sqlalchemy-session", "sqlalchemy-asyncpg-session", "django")
HOSTILE = {
    "synchronous_commit": "off",
    "search_path": "public, pg_catalog",
    "datestyle": "SQL, DMY",
    "intervalstyle": "iso_8601",
    "timezone": "Asia/Tokyo",
    "extra_float_digits": "-15",
    "standard_conforming_strings": "off",
    "default_transaction_isolation": "serializable",
}
WANTED = {
    "synchronous_commit": "on",
    "search_path": "pg_catalog, pg_temp",
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "transaction_isolation": "read committed",
}


def trap(url: str, role: str) -> None:
    """As that role, which has no rights but to create in `public`: whatever our statements would find there raises."""
    with psycopg.connect(url, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"CREATE ROLE {role}".encode())
        connection.execute(f"GRANT CREATE ON SCHEMA public TO {role}".encode())  # the default up to PostgreSQL 14
        connection.execute(f'ALTER DATABASE "{name}" SET search_path = public, pg_catalog'.encode())
        connection.execute(f"SET ROLE {role}".encode())
        connection.execute("SET search_path = pg_catalog, public")
        for number, kind in enumerate(("text", "integer", "bigint", "name")):
            connection.execute(
                f"CREATE FUNCTION public.trap{number}({kind}, {kind}) RETURNS boolean LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'trapped as %', current_user; END $$".encode()
            )
            for operator in ("=", "<", "<=", ">", ">=", "<>"):
                operands = f"LEFTARG = {kind}, RIGHTARG = {kind}"
                connection.execute(f"CREATE OPERATOR public.{operator} (FUNCTION = public.trap{number}, {operands})".encode())
            connection.execute(
                f"CREATE FUNCTION public.gather{number}(bigint, {kind}) RETURNS bigint LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'trapped as %', current_user; END $$".encode()
            )
            for aggregate in ("json_agg", "jsonb_agg", "max", "min", "count", "sum"):
                step = f"SFUNC = public.gather{number}, STYPE = bigint"
                connection.execute(f"CREATE AGGREGATE public.{aggregate}({kind}) ({step})".encode())


@pytest.fixture
def trapped() -> Iterator[str]:
    role = f"mallory_{uuid.uuid4().hex}"
    with new_database() as url:
        trap(url, role)
        yield url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP OWNED BY {role}".encode())
            connection.execute(f"DROP ROLE {role}".encode())


def use_everything(app: Holdfast) -> None:
    task = app.task(double)
    jobs = [task.using(key=Key("k"), tags=["t"]).enqueue(1), task.enqueue(2)]
    app.enqueue_many(task.bind(number) for number in range(3))
    lease = app.claim()
    assert lease is not None
    app.finish(lease, 1)
    app.cancel(app.retry(app.cancel(jobs[1].id).id).id)
    app.worker().run_until_empty()
    assert app.stats() == {NAME: {"succeeded": 4, "cancelled": 1}}
    assert len(app.jobs(tag="t")) == 1
    assert app.find(Key("k")) is not None
    assert len(list(app.feed(after=""))) == 16
    app.prune(older_than=0)


@pytest.mark.parametrize("pooler", POOLERS)
def test_h5_our_own_connections_run_nothing_that_another_user_has_made(trapped: str, pooler: str) -> None:
    """Migrations, too: a view and a default keep what they found."""
    with Holdfast(trapped + pooler) as app:
        use_everything(app)


def test_h5_a_migration_that_is_printed_and_run_by_a_shell_finds_nothing_that_another_user_has_made(trapped: str) -> None:
    with Holdfast(trapped) as app:
        text = script(app)
        with psycopg.connect(trapped, autocommit=True) as shell:
            shell.execute(text.encode())
        use_everything(app)


@pytest.mark.parametrize("pooler", POOLERS)
def test_h5_a_move_runs_nothing_that_another_user_has_made(trapped: str, pooler: str, holdfast_app: Holdfast) -> None:
    holdfast_app.task(double).enqueue(1)
    with (
        Holdfast(trapped + pooler) as target,
        endpoint_of(holdfast_app.store) as there,
        endpoint_of(target.store) as here,
    ):
        assert transfer(there, here).counts["job_spec"] == 1
        target.task(double).enqueue(2)
        assert len(target.jobs()) == 2


@pytest.mark.parametrize("library", LIBRARIES)
def test_h5_a_callers_connection_runs_nothing_that_another_user_has_made_and_keeps_its_path(trapped: str, library: str) -> None:
    async def test(opened: Library) -> None:
        task = app.task(double)
        await opened.write_note()
        job = await opened.enqueue(task, 1, key="k", tags=["t"])
        assert (await opened.ask(app, "get", job.id)).id == job.id
        await opened.write_note()
        again = await opened.enqueue(task, 1, key="k")
        assert again.id == job.id
        await opened.ask(app, "cancel", job.id)
        await opened.write_note()  # into `note`, which is in `public`
        await opened.commit()
        assert await opened.count_notes() == 3

    with Holdfast(trapped) as app:
        app.migrate()
        with psycopg.connect(trapped) as own:
            own.execute("CREATE TABLE note (text TEXT)")
        run_on(library, trapped, test)
        assert app.stats() == {NAME: {"cancelled": 1}}


def test_h5_a_read_on_a_connection_without_a_transaction_runs_nothing_that_another_user_has_made(trapped: str) -> None:
    with Holdfast(trapped) as app:
        job = app.task(double).enqueue(1)
        engine = sa.create_engine(of_alchemy(trapped, "psycopg"))
        with (
            psycopg.connect(trapped, autocommit=True) as plain,
            engine.connect().execution_options(isolation_level="AUTOCOMMIT") as alchemy,
        ):
            for connection in (plain, alchemy):
                assert [each.id for each in app.on(connection).jobs()] == [job.id]
                assert app.on(connection).get("unknown") is None
            assert plain.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
            assert plain.execute("SHOW search_path").fetchall() == [("public, pg_catalog",)]
        engine.dispose()


def test_h5_an_error_gives_the_caller_its_path_back(trapped: str) -> None:
    with Holdfast(trapped) as app, psycopg.connect(trapped) as connection:
        job = app.task(double).enqueue(1)
        connection.execute("SET search_path = pg_catalog, public")
        with pytest.raises(Exception, match="is ready"):
            app.on(connection).retry(job.id)
        assert connection.execute("SHOW search_path").fetchall() == [("pg_catalog, public",)]
        app.on(connection).cancel(job.id)
        connection.commit()
        assert connection.execute("SHOW search_path").fetchall() == [("pg_catalog, public",)]


# Settings


@pytest.fixture
def hostile() -> Iterator[str]:
    """A database whose settings are none of ours, and which notes those of every session that writes a job."""
    with new_database() as url, psycopg.connect(url, autocommit=True) as connection:
        with Holdfast(url) as app:
            app.migrate()
        noted = ", ".join(f"pg_catalog.current_setting('{name}')" for name in WANTED)
        connection.execute("CREATE TABLE public.seen (settings text[])")
        connection.execute(
            "CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN INSERT INTO public.seen VALUES (ARRAY[{noted}]); RETURN NULL; END $$".encode()
        )
        connection.execute("CREATE TRIGGER note AFTER INSERT ON holdfast.job_spec EXECUTE FUNCTION public.note()")
        name = connection.info.dbname
        for setting, value in HOSTILE.items():
            value = value if setting == "search_path" else f"'{value}'"
            connection.execute(f'ALTER DATABASE "{name}" SET {setting} = {value}'.encode())
        yield url


def seen(url: str) -> list[dict[str, str]]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT DISTINCT settings FROM public.seen").fetchall()
    return [dict(zip(WANTED, (each.replace(",p", ", p") for each in row), strict=True)) for (row,) in rows]


@pytest.mark.parametrize("pooler", POOLERS)
def test_m4_what_results_and_durability_depend_on_is_set_in_every_session(hostile: str, pooler: str) -> None:
    with Holdfast(hostile + pooler) as app:
        task = app.task(double)
        task.enqueue(0)  # in a transaction, for its lane is new
        task.enqueue(1)  # by one statement
        app.enqueue_many(task.bind(number) for number in range(3))
        assert seen(hostile) == [WANTED]


@pytest.mark.parametrize("pooler", POOLERS)
def test_m4_the_url_may_choose_another_synchronous_commit_and_nothing_else(hostile: str, pooler: str) -> None:
    options = "options=-csynchronous_commit%3Dremote_apply%20-csearch_path%3Dpublic&client_encoding=latin1"
    with Holdfast(f"{hostile}&{options}{pooler}") as app:
        app.task(double).enqueue(0)
    assert seen(hostile) == [WANTED | {"synchronous_commit": "remote_apply"}]


# Poolers


def without_settings(monkeypatch: pytest.MonkeyPatch, refuses: bool) -> None:
    """As PgBouncer: it refuses settings that come with a connection, or ignores them, as it is told to."""
    connect = Bounded.connect.__func__  # type: ignore[attr-defined]

    def like_pgbouncer(cls: type[Bounded], conninfo: str, /, **options: Any) -> Any:
        if options.pop("options", None) and refuses:
            raise psycopg.OperationalError("FATAL: unsupported startup parameter: options")
        return connect(cls, conninfo, **options)

    monkeypatch.setattr(Bounded, "connect", classmethod(like_pgbouncer))


@pytest.mark.parametrize("refuses", [True, False])
def test_h5_a_pooler_that_passes_on_no_settings_is_recognised(
    hostile: str, monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    without_settings(monkeypatch, refuses)
    with Holdfast(hostile) as app:
        app.task(double).enqueue(0)
        assert len(app.jobs()) == 1
    assert seen(hostile) == [WANTED]


@pytest.mark.parametrize("refuses", [True, False])
def test_l8_a_listener_knows_of_a_pooler_that_was_recognised(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refuses: bool
) -> None:
    without_settings(monkeypatch, refuses)
    with new_database() as url, Holdfast(url) as app:
        assert isinstance(app.store, PostgresStore)
        watcher = app.store.watcher()
        assert isinstance(watcher, Listener)
        app.task(double).enqueue(0)
        until(lambda: watcher.wait(0.1) and watcher.hears, "a notification gets through")
        watcher.close()
    assert [each.message for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_l8_that_nobody_tells_of_commits_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def refuse() -> Any:
        raise psycopg.OperationalError("no")

    watcher = Listener(refuse, lambda word: None)
    until(lambda: watcher.wait(0.05) and watcher._failures > 2, "it is tried again")
    watcher.close()
    assert len([each for each in caplog.records if each.levelno >= logging.WARNING]) == 1
