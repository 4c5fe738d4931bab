"""The same commands on a PostgreSQL server, what its doctor finds, and the roles that the documentation gives."""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from chaos.private_server import PrivateServer

from holdfast import Context, Holdfast, Key, Retry, StoreUnavailable
from holdfast.cli import doctor_postgres, doctor_vacuum
from holdfast.store.postgres.schema import verbs
from tests.cli.conftest import MODULE, Answer, Run, assert_one_line, start
from tests.servers import migrated_database, new_database, shared_url
from tests.until import until

DOCUMENT = Path(__file__).parents[2] / "docs" / "postgresql.md"
SECRET = "h-u.s_h"
NOWHERE = f"postgresql://somebody:{SECRET}@127.0.0.1:1/shop"
Pair = tuple[PrivateServer, PrivateServer]
ASKING: list[list[str]] = [
    ["jobs"], ["stats"], ["show", "x"], ["cancel", "x"], ["tail", "x"], ["retry", "x"], ["skip", "x"], ["doctor"],
    ["prune", "--older-than", "1d"],
]  # fmt: skip


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """A worker that runs in this process sets up logging; the test's output is closed when the server says its last words."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture
def url(here: Path) -> Iterator[str]:
    """Of a database with our tables, which `tasks.py` uses too."""
    with migrated_database() as url:
        use(here, url)
        yield url


@pytest.fixture
def bare() -> Iterator[str]:
    """Of a database without our tables."""
    with new_database() as url:
        yield url


def use(here: Path, url: str) -> None:
    (here / "tasks.py").write_text(MODULE.replace("sqlite:///jobs.db", url), encoding="utf-8")


def with_user(url: str, user: str, password: str = SECRET) -> str:
    return re.sub(r"//([^@/]*@)?", f"//{user}:{password}@", url, count=1)


def schemas(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information)'")]


def checks(answer: Answer, name: str) -> list[tuple[str, str]]:
    return [(check["status"], check["detail"]) for check in answer.json["checks"] if check["name"] == name]


# Every command


def test_a_job_from_the_prompt_to_its_end_and_out(cli: Run, url: str) -> None:
    to = ("--url", url)
    added = cli("enqueue", "tasks", "add", "first=1", "--key", "once", "--tag", "eu", "--json").json
    assert cli("enqueue", "tasks", "add", "first=1", "--key", "once", "--json").json["id"] == added["id"]
    failing = cli("enqueue", "tasks", "hopeless", "--json").json["id"]
    later = cli("enqueue", "tasks", "add", "first=2", "--run-after", "1h", "--json").json["id"]
    assert [job["state"] for job in cli("jobs", *to, "--json").json] == ["scheduled", "ready", "ready"]
    assert cli("worker", "tasks", "--drain").code == 0
    assert cli("stats", *to, "--json").json == {"tasks.add": {"scheduled": 1, "succeeded": 1}, "tasks.hopeless": {"failed": 1}}
    assert [job["id"] for job in cli("jobs", *to, "--state", "failed", "--json").json] == [failing]
    assert cli("show", added["id"][:20], *to, "--json").json["result"] == 2
    assert (cli("tail", failing, *to).code, cli("tail", added["id"], *to).code) == (1, 0)
    assert cli("cancel", later, *to, "--reason", "enough", "--json").json[0]["state"] == "cancelled"
    assert cli("retry", failing, later, *to).code == 0
    assert cli("skip", failing, *to, "--json").json[0]["state"] == "skipped"
    assert_one_line(cli("retry", added["id"], *to), 1, "succeeded")
    assert cli("worker", "tasks", "--drain").code == 0
    assert cli("prune", "--older-than", "0s", "--yes", *to, "--json").json["pruned"] == 3
    assert cli("jobs", *to, "--json").json == []


def test_enqueue_waits_for_a_worker_elsewhere(cli: Run, url: str, here: Path) -> None:
    with start("worker", "tasks", here=here) as worker:
        answer = cli("enqueue", "tasks", "add", "first=41", "--wait", "--json")
        worker.terminate()
        worker.wait(20)
    assert (answer.code, answer.json["result"]) == (0, 42)


@pytest.mark.parametrize("command", ASKING, ids=lambda command: str(command[0]))
def test_asking_creates_nothing(cli: Run, bare: str, command: list[str]) -> None:
    before = schemas(bare)
    assert_one_line(cli(*command, "--url", bare), 1, "has no Holdfast tables", "holdfast migrate --url postgresql://")
    missing = re.sub(r"/holdfast_\w+", "/not_there", bare)
    assert_one_line(cli(*command, "--url", missing), 1, "there is no database at", "/not_there; check --url")
    assert schemas(bare) == before


def test_migrating_a_database_that_is_not_there_is_one_line(cli: Run, bare: str) -> None:
    missing = re.sub(r"/holdfast_\w+", "/not_there", bare)
    for flags in ([], ["--print"]):
        assert_one_line(cli("migrate", *flags, "--url", missing), 1, "there is no database at", "createdb")


def test_migrate_once(cli: Run, bare: str) -> None:
    first, again = cli("migrate", "--url", bare, "--json").json, cli("migrate", "--url", bare, "--json").json
    assert first["applied"]
    assert (again["applied"], again["version"]) == ([], first["version"])
    assert "nothing to do" in cli("migrate", "--url", bare).out
    assert cli("migrate", "--print", "--url", bare).out == "-- nothing to do\n"


LAYOUT = r"""
SELECT 'column', relname::text, attname::text, format_type(atttypid, atttypmod), attnotnull::text, attidentity::text,
       attcollation::regcollation::text
  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = 'NAME'::regnamespace AND attnum > 0
UNION ALL
SELECT 'table', relname::text, relkind::text, array_to_string(reloptions, ','), relpersistence::text, '', ''
  FROM pg_class WHERE relnamespace = 'NAME'::regnamespace
UNION ALL
SELECT 'index', indexname::text, replace(indexdef, 'NAME', ''), '', '', '', '' FROM pg_indexes WHERE schemaname = 'NAME'
UNION ALL
SELECT 'view', viewname::text, regexp_replace(definition, '([^''])NAME\.', '\1', 'g'), '', '', '', ''
  FROM pg_views WHERE schemaname = 'NAME'
UNION ALL
SELECT 'sequence', sequencename::text, increment_by::text, min_value::text, start_value::text, cache_size::text, ''
  FROM pg_sequences WHERE schemaname = 'NAME'
UNION ALL
SELECT 'version', version::text, '', '', '', '', '' FROM NAME.migration
 ORDER BY 1, 2, 3
"""


def layout(url: str, schema: str = "holdfast") -> list[tuple[str, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(LAYOUT.replace("NAME", schema).encode()).fetchall()


def through_psycopg(url: str, script: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(script.encode())


def through_psql(url: str, script: str) -> None:
    psql = shutil.which("psql")
    if psql is None:
        pytest.skip("there is no psql here")
    command = [psql, "--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", url]
    ran = subprocess.run(command, input=script, text=True, capture_output=True, timeout=30, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("run", [through_psycopg, through_psql])
@pytest.mark.parametrize("schema", ["holdfast", "jobs"])
def test_the_printed_sql_does_the_same(cli: Run, bare: str, run: Callable[[str, str], None], schema: str) -> None:
    query = f"{'&' if '?' in bare else '?'}schema={schema}"
    script = cli("migrate", "--print", "--url", bare + query).out
    assert schema not in schemas(bare)
    run(bare, script)
    assert cli("migrate", "--url", bare + query, "--json").json["applied"] == []
    with new_database() as other:
        cli("migrate", "--url", other)
        assert layout(bare, schema) == layout(other)


def test_the_printed_sql_creates_a_schema_only_if_there_is_none(cli: Run, bare: str) -> None:
    assert 'CREATE SCHEMA "holdfast";' in cli("migrate", "--print", "--url", bare).out
    through_psycopg(bare, "CREATE SCHEMA holdfast")
    script = cli("migrate", "--print", "--url", bare).out
    assert "CREATE SCHEMA" not in script
    through_psycopg(bare, script)
    assert cli("stats", "--url", bare).code == 0


def test_a_newer_schema_is_one_line(cli: Run, bare: str) -> None:
    cli("migrate", "--url", bare)
    through_psycopg(bare, "INSERT INTO holdfast.migration VALUES (9999, 0)")
    for command in (["jobs"], ["migrate"], ["migrate", "--print"]):
        assert_one_line(cli(*command, "--url", bare), 1, "schema version 9999", "upgrade Holdfast")
    answer = cli("doctor", "--url", bare, "--json")
    assert (answer.code, checks(answer, "schema")[0][0]) == (1, "failed")


# Passwords


@pytest.mark.parametrize("command", [*ASKING, ["migrate"], ["migrate", "--print"]], ids=" ".join)
def test_no_password_when_the_server_cannot_be_reached(cli: Run, command: list[str]) -> None:
    answer = cli(*command, "--url", NOWHERE)
    assert_one_line(answer, 1, "127.0.0.1:1/shop cannot be reached")
    traced = cli(*command, "--url", NOWHERE, "--traceback")
    assert SECRET not in answer.err + traced.out + traced.err


@pytest.mark.parametrize("command", [*ASKING, ["migrate"], ["migrate", "--print"]], ids=" ".join)
def test_no_password_when_all_is_well(cli: Run, url: str, command: list[str]) -> None:
    secret = re.sub(r"//([^:@/]*)(:[^@/]*)?@", rf"//\1:{SECRET}@", url, count=1)
    assert SECRET in secret
    cli("enqueue", "tasks", "hopeless", "--id", "x")
    cli("skip", "x", "--url", url)
    for flags in ([], [] if "--print" in command else ["--json"]):
        answer = cli(*command, "--url", secret, *flags)
        assert SECRET not in answer.out + answer.err


@pytest.mark.parametrize("password", ["hu/sh", "hu?sh", "hu@sh", "hu%sh", "hu#/sh", "%zzhush"])
def test_a_password_that_is_no_part_of_a_url_is_not_taken_for_something_else(cli: Run, password: str) -> None:
    answer = cli("jobs", "--url", f"postgresql://me:{password}@127.0.0.1:1/shop")
    assert_one_line(answer, 2, "%40 for @")
    assert "hu" not in answer.err.replace("should", "")
    assert "sh" not in answer.err


# The doctor


def test_a_healthy_server(cli: Run, url: str) -> None:
    answer = cli("doctor", "--url", url, "--deep", "--json")
    assert answer.code == 0
    assert answer.json["ok"] is True
    assert set(answer.json) == {
        "ok", "at", "path", "checks", "counts", "oldest_ready", "workers",
        "clock_skew_seconds", "held_back", "tables", "connections", "listener",
    }  # fmt: skip
    found = {check["name"]: check["status"] for check in answer.json["checks"]}
    names = ("server", "schema", "clock", "dead rows", "size", "connections", "listener", "jobs", "workers", "integrity")
    assert {found[name] for name in names} == {"ok"}
    assert checks(answer, "server")[0][1].startswith("PostgreSQL 1")
    assert abs(answer.json["clock_skew_seconds"]) < 1
    assert {"job_spec", "job_state", "ready", "running", "event"} <= {table["name"] for table in answer.json["tables"]}
    assert all(table["index_bytes"] >= 0 and table["dead"] >= 0 for table in answer.json["tables"])
    connections = answer.json["connections"]
    assert 0 < connections["holdfast"] <= connections["used"] < connections["max"]
    shown = cli("doctor", "--url", url).out
    assert re.search(r"^ok +listener +NOTIFY arrives", shown, re.MULTILINE)
    assert re.search(r"^TABLE +ROWS +DEAD +SIZE +INDEXES +AUTOVACUUM$", shown, re.MULTILINE)


def test_a_transaction_that_holds_back_vacuum_is_shown(cli: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_vacuum, "HELD_SECONDS", 0.05)
    with psycopg.connect(url, application_name="report\x1b") as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 'hunter2' AS password, pg_sleep(0.1) -- " + "x" * 200)
        pid, user = holder.info.backend_pid, holder.info.user
        answer, shown = cli("doctor", "--url", url, "--json"), cli("doctor", "--url", url).out
    assert answer.code == 0
    [(status, detail)] = [found for found in checks(answer, "vacuum") if f"pid {pid} " in found[1]]
    assert status == "warning"
    assert f"SELECT pg_terminate_backend({pid})" in detail
    assert "idle in transaction" in detail
    [held] = [each for each in answer.json["held_back"] if each["pid"] == pid]
    assert (held["kind"], held["state"]) == ("transaction", "idle in transaction")
    assert held["seconds"] >= 0.1
    assert held["user"] == user
    assert re.fullmatch(r"SELECT '…' AS password, pg_sleep\(0.1\) -- x+…", held["query"])
    assert f"pid {pid} " in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("ALTER ROLE me\n PASSWORD 'hush'; SELECT 1", "ALTER ROLE me PASSWORD '…'; SELECT 1"),
        ("SELECT 'it''s', 'hush", "SELECT '…', '…'"),
        (r"SELECT E'it\'s', 'a\', me", "SELECT '…', '…', me"),
        ("DO $x$ hush $$ hush $x$; SELECT $1", "DO '…'; SELECT $1"),
        ("DO $$ hush", "DO '…'"),
        ("SELECT 1 " * 100, f"{'SELECT 1 ' * 8}SELECT …"),
        (None, ""),
    ],
)
def test_a_statement_is_shortened_and_its_texts_are_left_out(query: str | None, shown: str) -> None:
    assert doctor_vacuum._shortened(query) == shown


def test_dead_rows_that_nobody_removes(cli: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_postgres, "DEAD_ROWS_MAX", 0)
    monkeypatch.setattr(doctor_postgres, "UNVACUUMED_SECONDS", -1.0)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO holdfast.meter SELECT n, 'day', 'name', 1 FROM generate_series(1, 40) AS n")
        connection.execute("DELETE FROM holdfast.meter")
        connection.execute("SELECT pg_stat_force_next_flush()")
    answer = cli("doctor", "--url", url, "--json")
    assert any(status == "warning" and " in meter, last vacuumed" in detail for status, detail in checks(answer, "dead rows"))
    assert next(table["dead"] for table in answer.json["tables"] if table["name"] == "meter") >= 40


@pytest.mark.parametrize(("ahead", "words"), [(30.0, "30s behind"), (-30.0, "30s ahead of")])
def test_clocks_that_differ(cli: Run, url: str, monkeypatch: pytest.MonkeyPatch, ahead: float, words: str) -> None:
    now = doctor_postgres._own_clock
    monkeypatch.setattr(doctor_postgres, "_own_clock", lambda: now() + ahead)
    [(status, detail)] = checks(cli("doctor", "--url", url, "--json"), "clock")
    assert status == "warning"
    assert words in detail
    assert "NTP" in detail


def test_a_listener_that_hears_nothing(cli: Run, url: str, bare: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another database stands in for a pooler: one may listen there, and nothing ever comes."""
    monkeypatch.setenv("HOLDFAST_LISTEN_URL", bare)
    monkeypatch.setattr(doctor_postgres, "HEARING_SECONDS", 0.3)
    answer = cli("doctor", "--url", url, "--json")
    [(status, detail)] = checks(answer, "listener")
    assert (answer.code, status, answer.json["listener"]["hears"]) == (0, "warning", False)
    assert "there may be a pooler in between: give a listen_url" in detail
    pooled = f"{url}{'&' if '?' in url else '?'}pooler=transaction"
    assert "behind a pooler in transaction mode that is so" in cli("doctor", "--url", pooled).out


def test_a_listener_that_cannot_connect(cli: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LISTEN_URL", NOWHERE)
    answer = cli("doctor", "--url", url, "--json")
    [(status, detail)] = checks(answer, "listener")
    assert (status, answer.err) == ("warning", "")
    assert "127.0.0.1" in detail
    assert SECRET not in answer.out


def test_connections_that_run_out(cli: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_postgres, "CONNECTIONS_SHARE_MAX", 0.0)
    [(status, detail)] = checks(cli("doctor", "--url", url, "--json"), "connections")
    assert status == "warning"
    assert "max_connections" in detail


def test_workers_their_last_beat_and_the_oldest_job(cli: Run, url: str) -> None:
    first = cli("enqueue", "tasks", "add", "first=1", "--json").json["id"]
    oldest = cli("enqueue", "tasks", "add", "first=2", "--json").json["id"]
    with Holdfast(url) as app:
        lease = app.claim(worker="by\x1bhand")
        assert lease is not None
        assert lease.job.id == first
        columns = "id, pid, started_at, beat_at, beat_tick, lease_min, by_hand, slots, name, host, boot"
        values = "9, 1, beat_at, beat_at - 120000000, 0, 1, 0, 1, 'gone', 'host', ''"
        through_psycopg(url, f"INSERT INTO holdfast.worker ({columns}) SELECT {values} FROM holdfast.worker")
        answer = cli("doctor", "--url", url, "--json")
        shown = cli("doctor", "--url", url).out
    assert answer.json["oldest_ready"] == oldest
    workers = {worker["name"]: worker for worker in answer.json["workers"]}
    assert (workers["by\x1bhand"]["running"], workers["by\x1bhand"]["silent"]) == (1, False)
    assert workers["gone"]["silent"]
    assert checks(answer, "worker") == [("warning", "gone has not been heard of for 2m")]
    assert checks(answer, "workers")[0][0] == "warning"
    assert "by\\x1bhand (by hand)" in shown


def test_an_old_layout_fails_and_is_not_migrated(cli: Run, bare: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("migrate", "--url", bare)
    from holdfast.store import migrate

    known = migrate.migrations

    def newer(package: str) -> tuple[migrate.Migration, ...]:
        next_one = migrate.Migration(len(known(package)) + 1, "next", "CREATE TABLE holdfast.next (number bigint);")
        return (*known(package), next_one)

    monkeypatch.setattr(migrate, "migrations", newer)
    monkeypatch.setattr("holdfast.cli.doctor.migrations", newer)
    answer = cli("doctor", "--url", bare, "--deep", "--json")
    assert answer.code == 1
    [(status, detail)] = checks(answer, "schema")
    assert status == "failed"
    have = len(known("holdfast.store.postgres"))
    assert f"version {have}, this Holdfast needs {have + 1}; run: holdfast migrate --url" in detail
    assert answer.json["counts"] is None
    assert ("table", "next") not in [row[:2] for row in layout(bare)]


def test_a_job_that_is_not_where_its_state_says_is_found_by_looking_deep(cli: Run, url: str) -> None:
    cli("enqueue", "tasks", "add", "first=1")
    cli("enqueue", "tasks", "add", "first=1", "--run-after", "1h")
    assert checks(cli("doctor", "--url", url, "--deep", "--json"), "integrity")[0][0] == "ok"
    through_psycopg(url, "DELETE FROM holdfast.ready")
    answer = cli("doctor", "--url", url, "--deep", "--json")
    assert (answer.code, checks(answer, "integrity")[0][0]) == (1, "failed")


# Servers of our own, with settings that need a restart, and passwords


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A primary and a standby that tells it what its queries still want to see."""
    primary = PrivateServer.new()
    try:
        through_psycopg(primary.url("postgres"), "ALTER SYSTEM SET max_prepared_transactions = 5")
        primary.restart("fast")
        standby = primary.standby()
        try:
            for setting in ("hot_standby_feedback = on", "wal_receiver_status_interval = 1"):
                set_up(standby, setting)
            set_up(primary, "synchronous_standby_names = ''")
            yield primary, standby
        finally:
            standby.close()
    finally:
        primary.close()


def set_up(server: PrivateServer, setting: str) -> None:
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute(f"ALTER SYSTEM SET {setting}".encode())
        connection.execute("SELECT pg_reload_conf()")


def vacuum_says(cli: Run, url: str, *words: str) -> tuple[str, str]:
    """As soon as it does: a standby speaks once a second."""

    def fitting() -> list[tuple[str, str]]:
        found = checks(cli("doctor", "--url", url, "--json"), "vacuum")
        return [check for check in found if all(word in check[1] for word in words)]

    return until(fitting, f"doctor says {' and '.join(words)}")[0]


@contextmanager
def looking(server: PrivateServer) -> Iterator[None]:
    """A report that sees the database as it was."""
    with psycopg.connect(server.url("postgres")) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT count(*) FROM pg_class")
        yield


def test_a_real_server_with_passwords(cli: Run, pair: Pair) -> None:
    primary, standby = pair
    url = primary.url()
    assert cli("migrate", "--url", url).code == 0
    answer = cli("doctor", "--url", url, "--json")
    assert checks(answer, "durability") == [("ok", "a commit is on disk before it is acknowledged")]
    assert primary.password not in answer.out
    for command in (*ASKING, ["migrate"]):
        wrong = cli(*command, "--url", url.replace(primary.password, SECRET))
        assert_one_line(wrong, 1, "password authentication failed")
        assert SECRET not in wrong.err
    both = cli("doctor", "--url", primary.url_with(standby), "--json")
    assert (both.code, primary.password in both.out) == (0, False)
    [(status, detail)] = checks(cli("doctor", "--url", standby.url(), "--json"), "server")
    assert status == "warning"
    assert "a standby, where jobs can only be looked at" in detail
    assert cli("jobs", "--url", standby.url()).out == "No jobs.\n"


def test_a_prepared_transaction_holds_back_vacuum(cli: Run, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_vacuum, "HELD_SECONDS", 0.0)
    url = pair[0].url()
    cli("migrate", "--url", url)
    through_psycopg(url, "BEGIN; CREATE TABLE mine (x int); PREPARE TRANSACTION 'left behind'")
    try:
        status, detail = vacuum_says(cli, url, "the prepared transaction 'left behind' of holdfast")
        assert status == "warning"
        assert "ROLLBACK PREPARED 'left behind'" in detail
    finally:
        through_psycopg(url, "ROLLBACK PREPARED 'left behind'")


def test_a_standby_and_its_slot_hold_back_vacuum(cli: Run, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_vacuum, "HELD_TRANSACTIONS", 0)
    primary, standby = pair
    cli("migrate", "--url", primary.url())
    with looking(standby):
        status, detail = vacuum_says(cli, primary.url("postgres"), "a query on the standby standby")
        assert status == "warning"
        assert "hot_standby_feedback = off" in detail
        through_psycopg(primary.url("postgres"), "SELECT pg_create_physical_replication_slot('slot')")
        set_up(standby, "primary_slot_name = 'slot'")
        assert vacuum_says(cli, primary.url(), "the active replication slot slot")[0] == "warning"
    set_up(standby, "primary_slot_name = ''")
    status, detail = vacuum_says(cli, primary.url(), "the inactive replication slot slot")
    assert status == "warning"
    assert "SELECT pg_drop_replication_slot('slot')" in detail
    through_psycopg(primary.url("postgres"), "SELECT pg_drop_replication_slot('slot')")


def test_commits_that_wait_for_a_standby_that_is_not_there(cli: Run, pair: Pair) -> None:
    primary, _ = pair
    cli("migrate", "--url", primary.url())
    set_up(primary, "synchronous_standby_names = 'nobody'")
    try:
        answer = cli("doctor", "--url", primary.url("postgres"), "--json")
    finally:
        set_up(primary, "synchronous_standby_names = ''")
    assert (answer.code, checks(answer, "standby")[0][0]) == (1, "failed")
    assert "every commit waits for nobody" in checks(answer, "standby")[0][1]


# The roles


class Roles(NamedTuple):
    """One database, by who comes; and what the role of applications is called."""

    admin: str
    owner: str
    app: str
    reader: str
    app_name: str


@pytest.fixture
def roles(cli: Run, here: Path) -> Iterator[Roles]:
    """Made by the statements of the document."""
    suffix = uuid.uuid4().hex[:8]
    first, then = (
        re.sub(r"'choose-one'|'choose-another'|'and-a-third'", f"'{SECRET}'", re.sub(r"holdfast_(\w+)", rf"h{suffix}_\1", block))
        for block in re.findall(r"^```sql\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    )
    names = [f"h{suffix}_{role}" for role in ("owner", "app", "reader")]
    try:
        with new_database() as admin:
            through_psycopg(admin, first)
            owner, app, reader = (with_user(admin, name) for name in names)
            made = cli("migrate", "--url", owner)
            assert (made.code, made.err) == (0, "")
            through_psycopg(owner, then)
            use(here, app)
            yield Roles(admin, owner, app, reader, names[1])
    finally:
        with psycopg.connect(shared_url(), autocommit=True) as connection:
            for name in names:
                connection.execute(f"DROP ROLE IF EXISTS {name}".encode())


def test_the_application_role_does_what_an_app_and_a_worker_do(cli: Run, roles: Roles) -> None:
    with Holdfast(roles.app) as app:

        @app.task(name="work", retry=Retry(delays=[0]))
        def work(ctx: Context, number: int) -> int:
            ctx.progress(1, 2)
            ctx.emit("said", {"number": number})
            ctx.meter(tokens=number)
            if number < 0:
                raise ValueError("negative")
            return number

        first = work.using(key=Key("a"), tags=["x"], meta={"a": 1}).enqueue(1)
        assert work.using(key=Key("a")).enqueue(1).id == first.id
        work.using(parent=first.id).enqueue(-1)
        app.enqueue_many(work.bind(n) for n in range(20))
        later = work.using(run_after=3600).enqueue(1)
        lease = app.claim()
        assert lease is not None
        app.renew(lease)
        app.finish(lease, result=1)
        with psycopg.connect(roles.app) as connection:
            work.using(on=connection).enqueue(5)
        app.worker().run_until_empty()
        app.cancel(later)
        app.retry(later)
        app.skip(later, "enough")
        app.delete(later)
        assert app.stats() == {"work": {"succeeded": 22, "failed": 1}}
        assert len(app.jobs(tag="x")) == len(app.jobs(parent=first.id)) == 1
        assert app.find(Key("a")) is not None
        assert app.prune(0) == 23
    id = cli("enqueue", "tasks", "add", "first=1", "--json").json["id"]
    assert cli("worker", "tasks", "--drain").code == 0
    for command in (
        ["show", id],
        ["tail", id],
        ["jobs"],
        ["stats"],
        ["doctor"],
        ["prune", "--older-than", "0s", "--yes"],
        ["migrate"],
    ):
        answer = cli(*command, "--url", roles.app)
        assert (answer.code, answer.err) == (0, ""), command
        assert SECRET not in answer.out


def test_the_application_role_has_no_right_more_than_it_needs(roles: Roles) -> None:
    """The server checks rights when it plans: every verb must pass with all of them, and some verb must fail without any one."""
    with psycopg.connect(roles.admin, cursor_factory=psycopg.RawCursor) as connection:
        rights = connection.execute(GRANTED, (roles.app_name,)).fetchall()
        assert len(rights) > 40
        connection.execute(f"SET ROLE {roles.app_name}".encode())
        plan_all(connection)
        connection.commit()
        for table, right in rights:
            if table not in ("server_epoch", "migration", "identity"):  # read when a connection is opened, too
                connection.execute("RESET ROLE")
                connection.execute(f"REVOKE {right} ON holdfast.{table} FROM {roles.app_name}".encode())
                connection.execute(f"SET ROLE {roles.app_name}".encode())
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    plan_all(connection, f"holdfast.{table}")
                connection.rollback()


GRANTED = b"""
SELECT relname::text, privilege_type FROM pg_class, aclexplode(relacl)
 WHERE relnamespace = 'holdfast'::regnamespace AND relkind IN ('r', 'v') AND grantee = $1::text::regrole
"""


def plan_all(connection: psycopg.Connection[Any], word: str = "") -> None:
    """Every verb that has this word in it."""
    for sql in verbs().values():
        if sql.positional and word in sql.positional:
            connection.execute(f"EXPLAIN {sql.positional}".encode(), [None] * len(sql.names))


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE holdfast.job_state",
        "DROP SCHEMA holdfast CASCADE",
        "DROP VIEW holdfast.jobs",
        "TRUNCATE holdfast.notice",
        "ALTER TABLE holdfast.job_state ADD COLUMN x int",
        "ALTER SEQUENCE holdfast.job_seq RESTART",
        "SELECT setval('holdfast.job_seq', 1)",
        "CREATE TABLE holdfast.mine (x int)",
        "CREATE INDEX mine ON holdfast.job_state (state)",
        "INSERT INTO holdfast.migration VALUES (2, 0)",
        "UPDATE holdfast.identity SET mark = 'mine'",
        "UPDATE holdfast.event SET kind = 'forged'",
        "UPDATE holdfast.job_spec SET arguments = 'forged'",
    ],
)
def test_neither_role_can_change_the_layout_or_history(roles: Roles, statement: str) -> None:
    for url in (roles.app, roles.reader):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), psycopg.connect(url) as connection:
            connection.execute(statement.encode())


def test_the_reader_looks_and_writes_nothing(cli: Run, roles: Roles) -> None:
    id = cli("enqueue", "tasks", "hopeless", "--json").json["id"]
    cli("worker", "tasks", "--drain")
    as_reader = ("--url", roles.reader)
    assert cli("tail", id, *as_reader).code == 1  # it failed
    for command in (["jobs"], ["show", id], ["stats"], ["doctor", "--deep"], ["migrate"], ["migrate", "--print"]):
        answer = cli(*command, *as_reader)
        assert (answer.code, answer.err) == (0, ""), command
    for command in (["cancel", id], ["retry", id], ["skip", id], ["prune", "--older-than", "0s", "--yes"]):
        answer = cli(*command, *as_reader)
        assert (answer.code, answer.err.count("\n")) == (1, 1), command
        assert "permission denied" in answer.err
    with Holdfast(roles.reader) as app:
        app.task(name="work")(print)
        with pytest.raises(StoreUnavailable, match="permission denied"):
            app.task_named("work").enqueue()
    with psycopg.connect(roles.reader) as connection:
        assert connection.execute("SELECT id, state FROM holdfast.jobs").fetchall() == [(id, "failed")]


def test_migrate_is_refused_to_an_application_in_one_line(cli: Run, roles: Roles, bare: str) -> None:
    for url in (with_user(bare, roles.app_name), roles.app):
        through_psycopg(roles.admin, "DELETE FROM holdfast.migration")  # as if this were an older layout
        assert_one_line(cli("migrate", "--url", url), 1, "permission denied", "let another user run `holdfast migrate`")
    assert schemas(bare) == ["public"]


def test_a_doctor_that_may_not_see_others_says_so(cli: Run, roles: Roles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_vacuum, "HELD_SECONDS", 0.0)
    with psycopg.connect(roles.admin) as holder:
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT 1")
        pid = holder.info.backend_pid
        [(status, detail)] = checks(cli("doctor", "--url", roles.app, "--json"), "vacuum")
        assert status == "warning"
        assert detail.startswith("1 session of other users cannot be looked at")
        assert f"GRANT pg_read_all_stats TO {roles.app_name}" in detail
        found = checks(cli("doctor", "--url", roles.reader, "--json"), "vacuum")
        assert any(f"pid {pid} " in detail for _, detail in found)
