"""The driver for PostgreSQL when something goes wrong: servers that restart, connections that die, commits without an answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest

from holdfast import Context, Holdfast, JobNotFound, SettingError, StoreUnavailable
from holdfast.store.migrate import migrations
from holdfast.store.op import Moment, Op, Statement
from holdfast.store.postgres import listen, writer
from holdfast.store.postgres.bounded import Bounded
from holdfast.store.postgres.clock import ServerClock
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.driver import READERS_MAX, PostgresStore
from holdfast.store.postgres.listen import Listener
from holdfast.store.postgres.notifier import Notifier
from holdfast.store.postgres.schema import PACKAGE, statements
from holdfast.store.postgres.url import location_of
from tests.servers import Server, migrated_database, new_database, own_server
from tests.store.inside import postgres_store
from tests.until import until
from tests.workers import working

ALL = [f"{migration.version:04d}_{migration.name}" for migration in migrations(PACKAGE)]


@pytest.fixture
def url() -> Iterator[str]:
    with migrated_database() as url:
        yield url


@pytest.fixture
def app(url: str) -> Iterator[Holdfast]:
    with app_on(url) as app:
        yield app


@contextmanager
def app_on(url: str, **options: Any) -> Iterator[Holdfast]:
    app = Holdfast(url, **options)
    app.task(name="work")(work)
    with app:
        yield app


def work(number: int = 0) -> int:
    return number


def enqueue(app: Holdfast, number: int = 0) -> str:
    return str(app.task_named("work").enqueue(number).id)


def jobs(url: str) -> int:
    return int(ask(url, "SELECT count(*) FROM holdfast.job")[0][0])


def ask(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        answer = connection.execute(query.encode())
        return answer.fetchall() if answer.description is not None else []


def kill_connections(url: str) -> int:
    others = "datname = current_database() AND pid <> pg_backend_pid()"
    return len(ask(url, f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}"))


# Where it is


@pytest.mark.parametrize(
    ("given", "shown", "schema", "pooled"),
    [
        ("postgresql://me:secret@db.example:6543/jobs", "db.example:6543/jobs", "holdfast", False),
        ("postgres://db.example/jobs?schema=other", "db.example:5432/jobs", "other", False),
        ("postgresql://me@one:1,two:2/jobs?pooler=transaction", "one:1,two:2/jobs", "holdfast", True),
        ("postgresql:///jobs?host=/run/pg", "/run/pg:5432/jobs", "holdfast", False),
    ],
)
def test_a_url_says_where(given: str, shown: str, schema: str, pooled: bool) -> None:
    location = location_of(given)
    assert (location.shown, location.schema, location.pooled) == (shown, schema, pooled)
    assert "secret" not in repr(location)
    assert "schema" not in location.conninfo
    assert "pooler" not in location.conninfo


@pytest.mark.parametrize("query", ["schema=Jobs", "schema=a-b", "schema=", "schema=pg_x", "pooler=statement", "nonsense=1"])
def test_a_url_that_makes_no_sense_is_refused(query: str) -> None:
    with pytest.raises(SettingError) as refused:
        Holdfast(f"postgresql://me:secret@host/jobs?{query}")
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_app_does_not_show_its_password() -> None:
    assert "secret" not in repr(Holdfast("postgresql://me:secret@host/jobs"))
    assert "secret" not in repr(Holdfast("postgresql:///jobs?host=h&user=me&password=secret"))


def test_a_server_that_is_not_there_is_named_in_one_line_at_once() -> None:
    app = Holdfast("postgresql://me:secret@127.0.0.1:1/jobs")
    for act in (app.stats, app.migrate, app.store.version, lambda: app.cancel("x")):
        started = time.monotonic()
        with pytest.raises(StoreUnavailable) as refused:
            act()
        said = str(refused.value)
        assert "127.0.0.1:1/jobs cannot be reached" in said
        assert "secret" not in said
        assert "\n" not in said
        assert time.monotonic() - started < 2


def test_the_first_of_several_hosts_that_answers_is_used(url: str) -> None:
    location = location_of(url)
    socket = location.shown.rpartition(":")[0]
    name = location.shown.rpartition("/")[2]
    with app_on(f"postgresql://postgres@/{name}?host=127.0.0.1,{socket}&port=1,5432") as app:
        enqueue(app)
    assert jobs(url) == 1


def test_a_database_that_does_not_exist_is_named(url: str) -> None:
    app = Holdfast(url.replace("/holdfast_", "/nowhere_"))
    with pytest.raises(StoreUnavailable, match="does not exist"):
        app.stats()


def test_nothing_is_left_in_a_session_behind_a_pooler(url: str) -> None:
    with app_on(f"{url}&pooler=transaction") as app:
        for number in range(10):
            enqueue(app, number)
        lease = app.claim()
        assert lease is not None
        app.finish(lease, 1)
        names = "SELECT name FROM pg_prepared_statements"
        assert postgres_store(app)._writers[0]._open().raw.execute(names).fetchall() == []
    assert jobs(url) == 10


def test_a_pooler_that_takes_no_settings_is_recognised(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = Bounded.connect.__func__  # type: ignore[attr-defined]

    def like_pgbouncer(cls: type[Bounded], conninfo: str, /, **options: Any) -> Any:
        if "options" in options:
            raise psycopg.OperationalError("FATAL: unsupported startup parameter: options")
        return connect(cls, conninfo, **options)

    monkeypatch.setattr(Bounded, "connect", classmethod(like_pgbouncer))
    with app_on(url) as app:
        enqueue(app)
        assert postgres_store(app).location.pooled
    assert jobs(url) == 1


@pytest.mark.parametrize("kind", [psycopg.errors.InvalidSqlStatementName, psycopg.errors.FeatureNotSupported])
def test_a_statement_that_must_be_prepared_again_is(app: Holdfast, url: str, kind: type[psycopg.Error]) -> None:
    """A pooler gave us another session, or somebody changed a table: nobody who calls us is to blame."""
    app.migrate()
    tries: list[str] = []

    def unlucky(moment: Moment) -> Op[list[Any]]:
        tries.append("once more")
        rows: list[Any] = yield Statement("lane_names")
        if len(tries) == 1:
            raise kind("cached plan must not change result type")
        return rows

    assert app.store.write(unlucky) == app.store.read(unlucky) == []
    tries.clear()
    assert app.store.read(unlucky) == []
    assert len(tries) == 2


def test_another_schema_holds_another_set_of_jobs(url: str) -> None:
    with app_on(f"{url}&schema=second") as second, app_on(url) as first:
        assert second.migrate() == ALL
        enqueue(second)
        assert (first.stats(), second.stats()) == ({}, {"work": {"ready": 1}})
        lease = second.claim()
        assert lease is not None
        assert second.finish(lease, 1).result == 1
    ask(url, "DROP SCHEMA second CASCADE")


def test_a_schema_that_is_renamed_keeps_its_jobs_apart_from_the_next_of_that_name() -> None:
    with new_database() as url:
        with app_on(url) as app:
            task = app.task_named("work")
            task.enqueue(0)
            old = app.enqueue_many(map(task.bind, range(5))).ids
        ask(url, "ALTER SCHEMA holdfast RENAME TO archive")
        with app_on(url) as app, app_on(f"{url}&schema=archive") as archive:
            app.task_named("work").enqueue(0)
            new = app.enqueue_many(map(task.bind, range(5))).ids
            assert [app.get(id) is None for id in (*old, *new)] == [True] * 5 + [False] * 5
            assert [archive.get(id) is None for id in (*old, *new)] == [False] * 5 + [True] * 5


# Its layout


def test_a_database_is_migrated_on_first_use() -> None:
    with new_database() as url, app_on(url) as app:
        assert app.store.version() == 0
        enqueue(app)
        assert app.store.version() == len(ALL)
        assert app.migrate() == []


MIGRATE = """
import sys
from holdfast import Holdfast
with Holdfast(sys.argv[1]) as app:
    sys.stdin.read()
    print(*app.migrate())
"""


def test_eight_processes_migrate_at_once_and_one_does_it() -> None:
    with new_database() as url:
        command = [sys.executable, "-c", MIGRATE, url]
        started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(8)]
        for process in started:
            assert process.stdin is not None
            process.stdin.close()
        said = [process.stdout.read().strip() for process in started if process.stdout is not None]
        assert [process.wait(30) for process in started] == [0] * 8
        assert sorted(said) == [""] * 7 + [" ".join(ALL)]


def test_a_migration_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with new_database() as url, app_on(url) as app:
        count = 0

        def probe(place: str) -> None:
            nonlocal count
            count += place == "migrate"
            if count == 5:
                raise RuntimeError("broken in the middle")

        app.store.probe = probe
        with pytest.raises(RuntimeError):
            app.migrate()
        app.store.probe = None
        assert app.store.version() == 0
        assert ask(url, "SELECT 1 FROM pg_namespace WHERE nspname = 'holdfast'") == []
        assert app.migrate() == ALL


def test_a_layout_from_the_future_is_refused() -> None:
    with new_database() as url, app_on(url) as app:
        app.migrate()
        ask(url, "INSERT INTO holdfast.migration VALUES (99, 0)")
        app.close()
        with pytest.raises(StoreUnavailable, match="schema version 99"):
            enqueue(app)


def test_a_script_is_cut_where_its_statements_end() -> None:
    script = "CREATE TABLE a (b int); -- so\nCREATE FUNCTION f() RETURNS int AS $$\nBEGIN\n  RETURN 1;\nEND;\n$$;\nSELECT 1;\n"
    assert [part.split()[1] for part in statements(script)] == ["TABLE", "FUNCTION", "1;"]


# Lost connections


def test_connections_that_were_killed_are_replaced_and_nobody_notices(app: Holdfast, url: str) -> None:
    for number in range(3):
        enqueue(app, number)
        lease = app.claim()
        assert lease is not None
        assert app.finish(lease, number).result == number
        assert app.stats() == {"work": {"succeeded": number + 1}}
        assert kill_connections(url) >= 3


def test_a_connection_that_dies_in_the_middle_of_a_transaction_is_replaced_and_it_is_done_again(app: Holdfast, url: str) -> None:
    enqueue(app)
    deaths = 0

    def kill(place: str) -> None:
        nonlocal deaths
        if place == "claim_jobs" and deaths < 2:
            deaths += 1
            kill_connections(url)

    app.store.probe = kill
    lease = app.claim()
    app.store.probe = None
    assert lease is not None
    assert deaths == 2
    assert (lease.job.attempt, lease.token) == (1, 1)
    assert app.finish(lease, 1).result == 1


def test_an_own_transaction_that_is_the_victim_of_a_deadlock_is_done_again(app: Holdfast) -> None:
    app.migrate()
    tries = 0

    def unlucky(moment: Moment) -> Op[int]:
        nonlocal tries
        tries += 1
        yield Statement("lane_names")
        if tries < 3:
            raise psycopg.errors.DeadlockDetected("deadlock detected")
        return tries

    assert app.store.write(unlucky) == 3


def lose_commits(monkeypatch: pytest.MonkeyPatch, url: str, after: bool) -> list[str]:
    """The next COMMIT is done or not, but in any case its connection is dead before it answers."""
    commit, lost = Connection.commit, list[str]()

    def losing(connection: Connection) -> None:
        if lost:
            return commit(connection)
        lost.append(str(connection.transaction))
        if after:
            commit(connection)
        ask(url, f"SELECT pg_terminate_backend({connection.raw.info.backend_pid}, 5000)")
        connection.raw.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(Connection, "commit", losing)
    return lost


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_a_commit_without_an_answer_is_looked_up(
    app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch, after: bool, together: bool
) -> None:
    """Kept: it is not done again. Not kept: it is. Either way there is one job."""
    app.migrate()
    lost = lose_commits(monkeypatch, url, after)
    if together:
        first, *_ = postgres_store(app)._writers
        first.commits._crowd = 2  # of the last commit: so nobody commits alone
    job = enqueue(app)
    assert len(lost) == 1
    assert ask(url, "SELECT id FROM holdfast.job_spec") == [(job,)]


def test_a_commit_whose_fate_nobody_knows_says_so(app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app.migrate()
    lose_commits(monkeypatch, url, after=True)
    monkeypatch.setattr(Connection, "fate", lambda *_: None)
    with pytest.raises(StoreUnavailable, match="the outcome is unknown") as refused:
        enqueue(app)
    assert "\n" not in str(refused.value)
    assert jobs(url) == 1


def test_another_server_is_not_asked_for_the_fate_of_a_commit(app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app.migrate()
    lose_commits(monkeypatch, url, after=True)
    timelines = iter(["00000001", "00000002"])
    monkeypatch.setattr("holdfast.store.postgres.connection._timeline", lambda raw: next(timelines, "00000002"))
    with pytest.raises(StoreUnavailable, match="the outcome is unknown"):
        enqueue(app)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("notifies", [False, True])
def test_a_single_statement_without_an_answer_is_kept_once(
    app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch, notifies: bool, after: bool
) -> None:
    enqueue(app)  # there is a lane from now on, so that what follows is a single statement
    run, lost = Connection.run_alone, list[str]()

    def losing(connection: Connection, statement: Statement, notify: bool) -> Any:
        assert notify == notifies
        if lost:
            return run(connection, statement, notify)
        lost.append(statement.verb)
        if after:
            run(connection, statement, notify)
        connection.raw.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(Connection, "run_alone", losing)
    monkeypatch.setattr(Notifier, "take_over", lambda _: notifies)
    id = enqueue(app)
    assert lost == ["add_job"]
    assert jobs(url) == ask(url, "SELECT count(*) FROM holdfast.ready")[0][0] == 2
    assert app.get(id) is not None


@pytest.mark.parametrize("after", [False, True])
def test_a_bulk_whose_commit_is_not_answered_is_kept_once(
    app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    enqueue(app)
    lost = lose_commits(monkeypatch, url, after)
    ids = app.enqueue_many(app.task_named("work").bind(number) for number in range(7)).ids
    assert len(lost) == 1
    assert jobs(url) == ask(url, "SELECT count(*) FROM holdfast.ready")[0][0] == 8
    assert all(app.get(id) is not None for id in ids)


def test_the_fate_of_a_transaction_that_asked_for_nothing_can_be_looked_up(
    app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number is asked for before its commit is sent, although none of its statements waits for an answer."""
    app.migrate()
    lost = lose_commits(monkeypatch, url, after=True)

    def silent(_: Moment) -> Op[str]:
        yield Statement("forget_notices")
        return "done"

    assert app.store.write(silent) == "done"
    assert len(lost) == 1


def test_a_number_that_is_taken_does_not_say_that_a_lost_statement_was_kept(
    app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a server that took over the rows of another, but not its sequences."""
    enqueue(app)
    ask(url, "SELECT setval('holdfast.job_seq', 1, false)")
    run, lost = Connection.run_alone, list[str]()

    def losing(connection: Connection, statement: Statement, notify: bool) -> Any:
        if lost:
            return run(connection, statement, notify)
        lost.append(statement.verb)
        connection.raw.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(Connection, "run_alone", losing)
    with pytest.raises(StoreUnavailable, match="the outcome is unknown"):
        enqueue(app)
    assert lost
    assert jobs(url) == 1


def test_a_bulk_whose_numbers_are_taken_is_refused_whole(app: Holdfast, url: str) -> None:
    enqueue(app)
    ask(url, "SELECT setval('holdfast.job_seq', 1, false)")
    with pytest.raises(StoreUnavailable, match="UniqueViolation"):
        app.enqueue_many(app.task_named("work").bind(number) for number in range(7))
    assert jobs(url) == 1


def test_a_single_statement_that_is_refused_leaves_the_connection_as_it_was() -> None:
    """Also with a word behind it: what the server says to that is not taken for the answer to the next."""
    with new_database() as url, app_on(url) as app:
        enqueue(app)
        ask(url, "ALTER TABLE holdfast.job_spec ADD CHECK (arguments NOT LIKE '%13%')")
        for number in (1, 13, 2, 13, 3):
            postgres_store(app)._notifier._sent_at = -1.0
            if number == 13:
                with pytest.raises(StoreUnavailable, match="CheckViolation") as refused:
                    enqueue(app, number)
                assert '{"number":13}' not in str(refused.value), "what a job was given is nobody's business"
            else:
                enqueue(app, number)
            assert postgres_store(app)._writers[0]._connection is not None
        assert jobs(url) == 4


def test_a_worker_does_not_queue_behind_those_who_read(app: Holdfast) -> None:
    """Its clerk renews leases, too: what other threads of the process read, however slowly, must not keep it."""
    inside, over, ran = threading.Semaphore(0), threading.Event(), threading.Event()

    def slowly(_: Moment) -> Op[None]:
        inside.release()
        assert over.wait(30)
        yield Statement("lanes")

    @app.task(name="signal")
    def signal() -> None:
        ran.set()

    with ThreadPoolExecutor(READERS_MAX) as pool:
        reads = [pool.submit(app.store.read, slowly) for _ in range(READERS_MAX)]
        try:
            assert all(inside.acquire(timeout=10) for _ in reads)
            with working(app):
                app.task_named("signal").enqueue()
                assert ran.wait(10)
        finally:
            over.set()


# Restarts


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_server() as server:
        yield server


def test_a_restart_is_waited_for(server: Server) -> None:
    with app_on(server.url) as app:
        first = enqueue(app)
        server.restart()
        lease = app.claim()
        assert lease is not None
        assert lease.job.id == first
        server.restart()
        assert app.get(first) is not None
        server.restart()
        assert app.finish(lease, 1).result == 1
        assert [event.kind for event in app.events(first)] == ["enqueued", "started", "succeeded"]


def test_a_server_that_stays_away_is_given_up_in_time_and_used_again_when_it_is_back(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer.Patience.__init__, "__defaults__", (0.3,))
    with app_on(server.url) as app:
        enqueue(app)
        before = app.stats()["work"]["ready"]
        server.stop()
        for act in (lambda: enqueue(app), app.stats, app.claim):
            started = time.monotonic()
            with pytest.raises(StoreUnavailable):
                act()
            assert time.monotonic() - started < 5
        server._server.ensure_postgres_running()
        assert app.stats()["work"]["ready"] == before
        enqueue(app)


def test_a_server_that_says_nothing_is_not_waited_for_for_ever(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped as by a debugger: its sockets are open, and nothing ever comes."""
    monkeypatch.setattr(Bounded, "bound_seconds", 0.3)
    monkeypatch.setattr(writer.Patience.__init__, "__defaults__", (0.0,))
    with app_on(server.url) as app:
        app.stats()
        (pid,) = [row[0] for row in ask(server.url, "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast'")]
        os.kill(pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            with pytest.raises(StoreUnavailable, match=r"no answer for 0\.3 seconds"):
                app.stats()
            assert time.monotonic() - started < 5
        finally:
            os.kill(pid, signal.SIGCONT)
        assert app.stats() is not None


def test_when_one_connection_is_silent_the_older_ones_are_not_tried_one_by_one(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Bounded, "bound_seconds", 0.3)
    monkeypatch.setattr(writer.Patience.__init__, "__defaults__", (0.0,))
    with app_on(server.url) as app:
        enqueue(app)
        app.stats()
        pids = [row[0] for row in ask(server.url, "SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast'")]
        assert len(pids) > 1
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable, match="no answer"):
                app.stats()
            started = time.monotonic()
            enqueue(app)
            assert time.monotonic() - started < 5  # its own connection would have been silent for 12
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


def test_a_transaction_whose_client_fell_silent_gives_back_its_locks(server: Server) -> None:
    with app_on(server.url) as app:
        enqueue(app)
        connection = postgres_store(app)._writers[1]._open()
        connection.command("SET idle_in_transaction_session_timeout = '200ms'")
        connection.begin(app.store.clock)
        with suppress(psycopg.Error), connection.piped():
            assert connection.run(Statement("workers")) == []
            gone = f"SELECT pid FROM pg_stat_activity WHERE pid = {connection.raw.info.backend_pid}"
            until(lambda: not ask(server.url, gone), "the server waits for no more")


# Locks


def test_a_row_that_somebody_else_holds_is_waited_for_so_long_and_no_longer(app: Holdfast, url: str) -> None:
    job = enqueue(app)
    store = postgres_store(app)
    for each in store._writers:
        each._open().raw.execute("SET lock_timeout = '100ms'")
    with psycopg.connect(url) as holder:
        holder.execute("SELECT FROM holdfast.ready FOR UPDATE")
        with pytest.raises(StoreUnavailable, match="is locked by another transaction"):
            app.cancel(job)
        second = enqueue(app)  # plain jobs wait for nobody
        lease = app.claim()
        assert lease is not None
        assert lease.job.id == second  # what is locked is skipped, not waited for
    assert app.cancel(job).state == "cancelled"


# Forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_connections_of_its_own(app: Holdfast, url: str) -> None:
    enqueue(app)
    app.stats()

    def child() -> None:
        assert app.stats() == {"work": {"ready": 1}}
        enqueue(app)
        app.close()

    assert in_child(child) == 0
    enqueue(app)
    assert app.stats() == {"work": {"ready": 3}}
    assert jobs(url) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_that_closes_a_watcher_leaves_the_parents_alone(app: Holdfast) -> None:
    watcher = app.store.watcher()
    assert in_child(watcher.close) == 0
    assert heard(watcher, lambda: enqueue(app))
    watcher.close()


def in_child(act: Callable[[], object]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads: the child touches nothing of theirs
        child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# Hearing of commits


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nothing is found by looking."""
    monkeypatch.setattr(listen, "LOOK_SECONDS", (60.0, 60.0))


def heard(watcher: Any, act: Callable[[], object]) -> bool:
    while watcher.wait(0.3):
        pass  # what came before
    act()
    return bool(watcher.wait(10))


@pytest.mark.usefixtures("deaf")
def test_a_commit_of_another_process_is_heard(app: Holdfast, url: str) -> None:
    app.migrate()
    watcher = app.store.watcher()
    with app_on(url) as other:
        assert heard(watcher, lambda: enqueue(other))
        assert isinstance(watcher, Listener)
        assert watcher.hears
        task = other.task_named("work")
        assert heard(watcher, lambda: other.enqueue_many([task.bind(1), task.bind(2)]))
        assert heard(watcher, lambda: task.using(run_after=3600).enqueue(1))
    watcher.close()


@pytest.mark.usefixtures("deaf")
def test_a_claim_and_its_end_are_heard_by_followers_and_wake_no_worker(
    app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "LOOK_HEARING_SECONDS", (60.0, 60.0))
    app.migrate()
    follower, worker = app.store.watcher(follows=True), app.store.watcher()
    with app_on(url) as other:
        for _ in range(2):
            enqueue(other)
        assert heard(worker, lambda: enqueue(other))
        leases = list[Any]()
        assert heard(follower, lambda: leases.append(other.claim()))
        assert heard(follower, lambda: other.finish(leases[0], 1))
        assert not worker.wait(0.3)
    follower.close()
    worker.close()


@pytest.mark.usefixtures("deaf")
def test_a_listener_that_was_killed_listens_again(app: Holdfast, url: str) -> None:
    enqueue(app)
    watcher = app.store.watcher()
    assert isinstance(watcher, Listener)
    for _ in range(2):
        while watcher.wait(0.3):
            pass
        kill_connections(url)
        assert watcher.wait(5)  # something may have been missed
        deadline = time.monotonic() + 20
        while not watcher.hears and time.monotonic() < deadline:
            watcher.wait(0.1)
        assert heard(watcher, lambda: enqueue(app))
    watcher.close()


def test_without_a_word_everything_is_found_by_looking(app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `listen_url` that leads nowhere, and a server that is not told: a worker still finds its work."""
    monkeypatch.setattr("holdfast.store.postgres.notifier.Notifier.request", lambda *_: None)
    with app_on(url, listen_url="postgresql://127.0.0.1:1/nowhere") as lonely:
        worker = lonely.worker(concurrency=1)
        thread = threading.Thread(target=worker.run)
        thread.start()
        assert app.wait(enqueue(app, 7), timeout=20).result == 7
        worker.stop()
        thread.join(20)


def test_a_nudge_ends_a_wait_at_once(app: Holdfast) -> None:
    app.migrate()
    watcher = app.store.watcher()
    watcher.wait(0.1)
    threading.Timer(0.05, watcher.nudge).start()
    started = time.monotonic()
    while not watcher.wait(5):
        pass
    assert time.monotonic() - started < 2
    watcher.close()
    watcher.nudge()
    watcher.close()


def test_many_commits_are_told_in_few_words(app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.store.postgres.notifier.GAP_SECONDS", 0.2)  # however slow this machine is at the moment
    app.migrate()
    with psycopg.connect(url, autocommit=True) as ear:
        ear.execute("LISTEN holdfast")
        for number in range(100):
            enqueue(app, number)
        app.close()
        words = len(list(ear.notifies(timeout=1)))
    assert 1 <= words < 100


# Time


def test_the_servers_clock_decides(app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's may say what it likes."""
    clock = app.store.clock
    assert isinstance(clock, ServerClock)
    clock._offset -= 86_400_000_000
    enqueue(app)
    ((now,),) = ask(url, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
    assert abs(clock.now() - now) < 5_000_000
    assert abs(ask(url, "SELECT created_at FROM holdfast.job")[0][0] - now) < 5_000_000
    assert clock.boot() == ""


def test_the_clock_is_read_again_in_passing(app: Holdfast) -> None:
    clock = app.store.clock
    assert isinstance(clock, ServerClock)
    for act in (lambda: enqueue(app), app.stats):
        act()
        assert not clock.is_stale()
        clock._read_at, before = 0, clock._offset
        clock._offset -= 3_600_000_000
        assert clock.is_stale()
        if act is app.stats:
            act()
        else:
            app.claim()
        assert abs(clock._offset - before) < 1_000_000


def test_several_writers_do_not_wait_for_each_other(url: str) -> None:
    store = PostgresStore(url)
    inside, leave = threading.Event(), threading.Event()

    def hold(moment: Moment) -> Op[None]:
        inside.set()
        assert leave.wait(30)
        yield Statement("lane_names")

    thread = threading.Thread(target=lambda: store.write(hold))
    thread.start()
    assert inside.wait(30)

    def lanes(moment: Moment) -> Op[int]:
        return len((yield Statement("lane_names")))

    assert store.write(lanes) == 0
    leave.set()
    thread.join(30)
    store.close()


def test_a_worker_with_much_to_say_at_once_is_understood(url: str) -> None:
    """More in one statement than a socket takes: the rest must be sent before the answer is waited for."""
    with app_on(url) as app:

        @app.task(name="floods")
        def floods(ctx: Context) -> None:
            for number in range(1_000):
                ctx.emit("word", {"n": number, "text": "x" * 5_000})

        job = floods.enqueue()
        begun = time.monotonic()
        app.worker(concurrency=1).run_until_empty()
        assert time.monotonic() - begun < 8  # a connection that hears nothing is given up after 10
        assert [event.data["n"] for event in app.events(job.id) if event.kind == "word"] == list(range(1_000))


def test_what_is_prepared_stays_so_after_a_rollback() -> None:
    """psycopg clears away everything with a ROLLBACK once it has prepared anything of its own, such as the look at the clock."""
    with new_database() as url, app_on(url) as app:
        store = postgres_store(app)
        del store._writers[1:]
        for _ in range(8):
            enqueue(app)
            store.clock._read_at = None  # type: ignore[attr-defined]
        with pytest.raises(JobNotFound):
            app.cancel("nobody")
        enqueue(app)
        assert store._prepares
        assert all(writer._connection is None or writer._connection.pipes for writer in store._writers)


def test_h2_a_connection_that_the_server_ended_is_told_of_in_the_servers_words(app: Holdfast, url: str) -> None:
    """libpq would say how it noticed: that it was "not in pipeline mode", or that the server closed the connection."""
    app.migrate()
    told: list[str] = []

    def ended(moment: Moment) -> Op[None]:
        yield Statement("notices", {"worker": 1})
        if told:
            return
        kill_connections(url)
        try:
            yield Statement("notices", {"worker": 1})
        except psycopg.Error as error:
            told.append(f"{type(error).__name__}: {error}")
            raise

    app.store.write(ended)
    assert told == ["AdminShutdown: terminating connection due to administrator command"]
