"""Each mistake gets one line that names the value and the remedy, and nothing is written."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, HoldfastError, Key, PayloadError, Retry, SettingError, StoreUnavailable, Task, UnknownTask
from holdfast.domain.bounds import NAME_CHARS_MAX
from holdfast.store.sqlite.file import NETWORK_FILE_SYSTEMS, file_system_of, parse_mountinfo
from tests.store.inside import sqlite_store

NAIVE = datetime(2030, 1, 1)
NOBODY = 65534
Analyse = Task[Callable[[Any], None]]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{tmp_path / 'jobs.db'}") as app:

        @app.task(name="analyse")
        def analyse(document: Any) -> None: ...

        app.migrate()
        analyse.enqueue("the one that is there before")
        yield app


@pytest.fixture
def analyse(app: Holdfast) -> Analyse:
    return app.task_named("analyse")


def rows(path: str) -> dict[str, int]:
    """How many rows each of our tables has."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}


def refused(call: Callable[[], object], kind: type[HoldfastError], *words: str, path: str | None = None) -> str:
    """The message of the error: one line, with these words; and nothing was written."""
    before = rows(path) if path else None
    with pytest.raises(kind) as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said
    assert said.isprintable()
    assert len(said) < 600
    for word in words:
        assert word in said, said
    assert before is None or rows(path or "") == before
    return said


# What is passed


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (object(), ("argument 'document'", "a value of type object cannot be made JSON", "pass plain data")),
        ({"pages": [1, {"image": {3 + 4j}}]}, ("argument 'document'", "at .pages[1].image[0]", "type complex")),
        ({"a": [0, float("nan")]}, ("argument 'document'", "at .a[1]", "NaN is not JSON", "use None or a string")),
        (float("inf"), ("Infinity is not JSON", "use None or a string")),
        ("broken \ud800 text", ("argument 'document'", "lone surrogate '\\ud800' at character 7", "drop it")),
        ({"\udfff": 1}, ("in the key", "lone surrogate")),
        ({"at": NAIVE}, ("at .at", "2030-01-01 00:00:00 has no timezone", "datetime.now(UTC)")),
        ("x" * 2 * 1024 * 1024, ("argument 'document'", "2,097,154 bytes as JSON", "1,048,576", "pass a reference to it")),
        (2**63, ("9223372036854775808 does not fit in 64 bits", "pass it as a string")),
        ({(1, 2): 3}, ("cannot be a JSON key", "use a string")),
        (lambda: None, ("type function", "pass plain data")),
    ],
    ids=["object", "path", "nan", "inf", "surrogate", "key", "naive", "2MB", "int", "tuple-key", "function"],
)
def test_an_argument_that_cannot_be_stored(app: Holdfast, analyse: Analyse, document: Any, words: tuple[str, ...]) -> None:
    path = app.store.path
    refused(lambda: analyse.enqueue(document), PayloadError, *words, path=path)
    refused(lambda: analyse.bind(document), PayloadError, *words, path=path)
    refused(lambda: asyncio.run(analyse.aenqueue(document)), PayloadError, *words, path=path)


def test_one_bad_job_among_many_refuses_its_chunk_whole(app: Holdfast, analyse: Analyse) -> None:
    documents: list[Any] = [*range(10), {"n": float("nan")}, 11]
    refused(
        lambda: app.enqueue_many(analyse.bind(document) for document in documents), PayloadError, "at .n", path=app.store.path
    )


def test_arguments_that_the_function_does_not_take(app: Holdfast, analyse: Any) -> None:
    path = app.store.path
    refused(lambda: analyse.enqueue(), PayloadError, "arguments of", "analyse", "document", path=path)
    refused(lambda: analyse.enqueue(1, 2), PayloadError, "too many positional arguments", path=path)
    refused(lambda: analyse.enqueue(dokument="a"), PayloadError, "document", path=path)


def test_an_argument_of_the_wrong_type(app: Holdfast) -> None:
    @app.task(name="typed")
    def typed(document: str, pages: list[int]) -> None: ...

    refused(lambda: typed.enqueue(3, [1]), PayloadError, "argument 'document'", "str", "int", path=app.store.path)  # type: ignore[arg-type]
    refused(lambda: typed.enqueue("a", [1, "2"]), PayloadError, "argument 'pages'", "[1]", path=app.store.path)  # type: ignore[list-item]


def test_a_result_that_cannot_be_stored(app: Holdfast, analyse: Analyse) -> None:
    lease = app.claim()
    assert lease is not None
    refused(lambda: app.finish(lease, {"score": float("nan")}), PayloadError, "at .score", "NaN", path=app.store.path)
    refused(lambda: app.finish(lease, "x" * 2_000_000), PayloadError, "2,000,002 bytes", path=app.store.path)
    refused(lambda: app.finish(lease, None, meter={"gpu": float("nan")}), SettingError, "meter gpu=nan", path=app.store.path)
    assert app.finish(lease, None).state == "succeeded"


def test_an_unknown_task(app: Holdfast) -> None:
    refused(lambda: app.task_named("analyze"), UnknownTask, "'analyze'", "registered: analyse")


def test_a_task_that_no_app_knows_any_more_stays_where_it_is(app: Holdfast, tmp_path: Path) -> None:
    with Holdfast(f"sqlite:///{tmp_path / 'jobs.db'}") as other:
        other.worker().run_until_empty()
        assert [job.state for job in other.jobs()] == ["ready"]


# Options


@pytest.mark.parametrize(
    ("using", "words"),
    [
        ({"run_after": NAIVE}, ("2030-01-01T00:00:00 has no timezone", "datetime.now(UTC)")),
        ({"run_after": -1}, ("run_after -1", "0 or more seconds")),
        ({"run_after": float("nan")}, ("run_after nan", "0 or more seconds")),
        ({"run_after": "tomorrow"}, ("run_after 'tomorrow' is not a duration", "seconds or a timedelta")),
        ({"run_after": timedelta(days=40_000)}, ("run_after", "at most")),
        ({"attempts": -1}, ("attempts -1 must be a whole number from 1 to",)),
        ({"attempts": 0}, ("attempts 0 must be",)),
        ({"attempts": True}, ("attempts True must be",)),
        ({"attempts": 2.5}, ("attempts 2.5 must be",)),
        ({"priority": "high"}, ("priority 'high' must be a whole number", "lower one runs first")),
        ({"priority": 2**31}, ("priority 2147483648 must be",)),
        ({"priority": 1.5}, ("priority 1.5 must be",)),
        ({"priority": True}, ("priority True must be",)),
        ({"queue": "a'; DROP TABLE holdfast_job; --"}, ("queue", "DROP", "letters, digits and _ . : -")),
        ({"queue": "%s"}, ("queue '%s' is not a name",)),
        ({"queue": '"'}, ("queue '\"' is not a name",)),
        ({"queue": "a\nb"}, ("queue 'a\\nb' is not a name",)),
        ({"queue": "\x1b[31mred"}, ("\\x1b",)),
        ({"queue": ""}, ("queue '' is not a name",)),
        ({"queue": "ü"}, ("queue 'ü' is not a name",)),
        ({"queue": "q" * 300}, ("is not a name", f"1 to {NAME_CHARS_MAX}")),
        ({"queue": 7}, ("queue 7 is not a name",)),
        ({"tags": "eu"}, ("tags 'eu' must be a list",)),
        ({"tags": ["t"] * 10_000}, ("at most 32 names",)),
        ({"tags": ["x" * 100_000]}, ("tag", "is not a name")),
        ({"tags": ["a b"]}, ("tag 'a b' is not a name",)),
        ({"tags": [None]}, ("tag None is not a name",)),
        ({"tags": 5}, ("tags 5 must be a list",)),
        ({"id": "a b"}, ("job id 'a b' cannot be used", "1 to 200 letters")),
        ({"id": ""}, ("job id '' cannot be used",)),
        ({"id": "x" * 300}, ("cannot be used: 1 to 200",)),
        ({"id": 7}, ("job id 7 cannot be used",)),
        ({"id": "new\nline"}, ("job id 'new\\nline' cannot be used",)),
        ({"parent": "a b"}, ("'a b' cannot be used",)),
        ({"meta": ["no dict"]}, ("meta ['no dict'] must be a dict",)),
        ({"meta": {"x": float("nan")}}, ("meta: at .x: NaN",)),
        ({"meta": {"x": "y" * 100_000}}, ("meta:", "at most 65,536")),
        ({"key": ()}, ("a key needs at least one part",)),
        ({"key": (1.5,)}, ("key part 1.5 is a float; use text and whole numbers only",)),
        ({"key": (None,)}, ("key part None is a NoneType",)),
        ({"key": (True,)}, ("key part True is a bool",)),
        ({"key": ("a\0b",)}, ("holds a NUL",)),
        ({"key": ("\ud800",)}, ("key", "\\ud800", "cannot be stored")),
        ({"key": (2**70,)}, ("key part 1180591620717411303424 does not fit in 64 bits; use text",)),
        ({"key": ("k" * 5_000,)}, ("key of 5004 bytes is over 1000; use a hash of the long part",)),
        ({"on": object()}, ("on= cannot be a builtins.object", "pass an open connection of sqlite3 or aiosqlite")),
    ],
)
def test_an_option_that_makes_no_sense(app: Holdfast, analyse: Analyse, using: dict[str, Any], words: tuple[str, ...]) -> None:
    refused(
        lambda: analyse.using(**using).enqueue("a"),
        SettingError if "meta" not in using else HoldfastError,
        *words,
        path=app.store.path,
    )


def test_key_settings_that_make_no_sense() -> None:
    refused(lambda: Key("a", scope="always"), SettingError, "key scope 'always' is unknown", "'forever', 'active'")  # type: ignore[arg-type]
    refused(lambda: Key("a", scope=-1), SettingError, "key scope -1")
    refused(lambda: Key("a", scope=True), SettingError, "key scope True")
    refused(lambda: Key("a", conflict="ignore"), SettingError, "key conflict 'ignore'", "'return', 'raise' or 'replace'")  # type: ignore[arg-type]
    refused(lambda: Key("a", failed="maybe"), SettingError, "failed='maybe'", "'free' or 'hold'")  # type: ignore[arg-type]


def test_a_retry_that_makes_no_sense() -> None:
    refused(lambda: Retry(-1), SettingError, "attempts -1 must be a whole number from 1 to")
    refused(lambda: Retry(0), SettingError, "attempts 0")
    refused(lambda: Retry(10**9), SettingError, "attempts 1000000000")
    refused(lambda: Retry(delays=[-5]), SettingError, "retry delay -5")
    refused(lambda: Retry(delays=[float("nan")]), SettingError, "retry delay nan")
    refused(lambda: Retry(jitter=2), SettingError, "retry jitter 2", "0 to 1")
    refused(lambda: Retry(factor=0.5), SettingError, "retry factor 0.5", "1 to 100")
    refused(lambda: Retry(base=-1), SettingError, "retry base -1")
    refused(lambda: Retry(on=("OSError",)), SettingError, "retry on='OSError' is not an exception class")  # type: ignore[arg-type]
    refused(lambda: Retry(never=int), SettingError, "retry never=", "is not an exception class")  # type: ignore[arg-type]


def test_a_task_or_worker_that_makes_no_sense(app: Holdfast) -> None:
    def fine() -> None: ...

    refused(lambda: app.task(timeout=0)(fine), SettingError, "timeout 0 must be more than 0 seconds")
    refused(lambda: app.task(timeout=-1)(fine), SettingError, "timeout -1")
    refused(lambda: app.task(lease=0.01)(fine), SettingError, "lease 0.01 is too short", "0.2 seconds or more")
    refused(lambda: app.task(queue="a b")(fine), SettingError, "queue 'a b' is not a name")
    refused(lambda: app.task(name="a b")(fine), SettingError, "task 'a b' is not a name")
    refused(lambda: app.task(name="n" * 300)(fine), SettingError, "is not a name")
    refused(lambda: app.task(priority=None)(fine), SettingError, "priority None")  # type: ignore[call-overload]
    refused(lambda: app.task(name="analyse")(fine), SettingError, "task 'analyse' is registered twice", "name=")
    refused(lambda: app.task(3), SettingError, "@app.task got 3; it takes a function")  # type: ignore[call-overload]
    refused(lambda: app.worker(concurrency=0), SettingError, "concurrency 0 must be a whole number from 1 to")
    refused(lambda: app.worker(concurrency=-5), SettingError, "concurrency -5")
    refused(lambda: app.worker(concurrency=10**6), SettingError, "concurrency 1000000")
    refused(lambda: app.worker(concurrency=1.5), SettingError, "concurrency 1.5")  # type: ignore[arg-type]
    refused(lambda: app.worker(lease=0), SettingError, "lease 0")
    refused(lambda: app.worker(lease=0.1), SettingError, "lease 0.1 is too short")
    refused(lambda: app.worker(grace=-1), SettingError, "grace -1")
    refused(lambda: app.worker(queues=["a b"]), SettingError, "queue 'a b' is not a name")
    refused(lambda: app.claim(seconds=0), SettingError, "lease 0 must be more than 0 seconds")
    refused(lambda: app.claim(seconds=-1), SettingError, "lease -1")


def test_a_question_that_makes_no_sense(app: Holdfast) -> None:
    refused(lambda: app.jobs(state="done"), SettingError, "state 'done' is unknown", "scheduled, ready, running")
    refused(lambda: app.jobs(limit=0), SettingError, "limit 0 must be from 1 to 1000")
    refused(lambda: app.jobs(limit=10**9), SettingError, "limit 1000000000", "after=")
    refused(lambda: app.jobs(after="nobody"), HoldfastError, "there is no job 'nobody'")
    refused(lambda: app.prune(older_than=-1), SettingError, "older_than -1")
    refused(lambda: app.wait("nobody"), HoldfastError, "there is no job 'nobody'")
    refused(lambda: list(app.events("nobody")), HoldfastError, "there is no job 'nobody'")


def test_questions_with_odd_names_find_nothing_and_break_nothing(app: Holdfast) -> None:
    before = rows(app.store.path)
    for odd in ("a'; DROP TABLE holdfast_job; --", "%s", '"', "\x00", "\x1b[31m", "x" * 10_000, "ü", "?1", ":id", "' OR '1'='1"):
        assert app.get(odd) is None
        assert app.find(odd) is None if "\x00" not in odd and len(odd) < 900 else True
        assert app.jobs(queue=odd) == app.jobs(task=odd) == app.jobs(tag=odd) == app.jobs(parent=odd) == []
        assert app.claim(queues=[odd]) is None
        refused(lambda odd=odd: app.cancel(odd), HoldfastError, "there is no job")  # type: ignore[misc]
    assert rows(app.store.path) == before


def test_text_of_any_kind_goes_through_unharmed(app: Holdfast, analyse: Analyse) -> None:
    odd = ["a'; DROP TABLE holdfast_job; --", "%s ? :id $1", '"', "\x00", "\x1b[31m", "\u2028\u202e", "🐎", "\r\n", "\\u0000"]
    jobs = [analyse.using(key=Key(text.replace("\0", ""))).enqueue({text: text}) for text in odd]
    for job, text in zip(jobs, odd, strict=True):
        found = app.get(job.id)
        assert found is not None
        assert found.arguments == {"document": {text: text}}


# Where it is


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("jobs.db", ("database URL 'jobs.db' has no scheme; use sqlite:///jobs.db",)),
        ("mysql://localhost/jobs", ("scheme 'mysql' is unknown", "use sqlite:///jobs.db")),
        ("redis://me:secret@host/0", ("scheme 'redis' is unknown", "redis://…@host/0")),
        ("postgresql://me:secret@host/jobs?schema=Jobs", ("schema='Jobs'", "use schema=holdfast")),
        ("sqlite://", ("names no file", "sqlite:///jobs.db")),
        ("sqlite:///", ("names no file",)),
        ("sqlite:///:memory:", ("'sqlite:///:memory:' names no file", "sqlite:///jobs.db")),
        ("sqlite://jobs.db", ("names no file", "sqlite:///jobs.db (relative)")),
        ("sqlite:///file:jobs.db", ("names no file",)),
        ("sqlite:///jobs.db?mode=ro", ("has parameters", "use sqlite:///jobs.db")),
    ],
)
def test_a_url_that_makes_no_sense(url: str, words: tuple[str, ...]) -> None:
    said = refused(lambda: Holdfast(url), HoldfastError, *words)
    assert "secret" not in said


def app_at(path: Path) -> Callable[[], object]:
    def enqueue() -> object:
        with Holdfast(f"sqlite:///{path}") as app:

            @app.task(name="analyse")
            def analyse() -> None: ...

            return analyse.enqueue()

    return enqueue


def test_a_directory_as_path(tmp_path: Path) -> None:
    refused(app_at(tmp_path), StoreUnavailable, f"{tmp_path} is a directory", f"such as {tmp_path}/jobs.db")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    refused(app_at(tmp_path / "no" / "jobs.db"), StoreUnavailable, "does not exist; create it first")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, " * 1_000)
    refused(app_at(path), StoreUnavailable, str(path), "is not an SQLite database", "give another path; the file was not touched")
    assert path.read_text() == "Dear diary, " * 1_000


def test_a_database_from_a_newer_version(app: Holdfast, analyse: Analyse) -> None:
    path = app.store.path
    app.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO holdfast_migration VALUES (42, 0)")
    refused(lambda: analyse.enqueue("a"), StoreUnavailable, path, "schema version 42", "upgrade Holdfast", path=path)


def test_a_database_that_has_other_tables_of_the_same_names(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE holdfast_job (mine TEXT)")
    refused(app_at(path), StoreUnavailable, str(path), "holdfast_job already exists")


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other users can reach: pytest's own is closed to them."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777 | stat.S_ISVTX)
        yield Path(name)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write everywhere."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(was)


def test_a_read_only_file(open_directory: Path) -> None:
    path = open_directory / "jobs.db"
    app_at(path)()
    os.chmod(path, 0o444)
    before = rows(str(path))
    with as_nobody():
        refused(app_at(path), StoreUnavailable, f"{path} may not be read and written by user", "change its owner or its mode")
    assert rows(str(path)) == before


def test_a_directory_that_may_not_be_written(open_directory: Path) -> None:
    os.chmod(open_directory, 0o555)
    with as_nobody():
        refused(
            app_at(open_directory / "jobs.db"),
            StoreUnavailable,
            "may not create files in",
            "change the directory's owner or its mode",
        )
    assert list(open_directory.iterdir()) == []


def test_a_file_that_becomes_read_only_under_a_running_app(app: Holdfast, analyse: Analyse) -> None:
    with closing(sqlite3.connect(app.store.path)) as connection:
        connection.execute("PRAGMA query_only = ON")
        said = refused(
            lambda: analyse.using(on=connection).enqueue("a"), StoreUnavailable, "the database of on= cannot be written"
        )
        assert "SQLITE_READONLY" in said


def test_a_full_disk(app: Holdfast) -> None:
    """A limit on the size of files stands in for it: SQLite sees the same error from write()."""
    path = app.store.path
    sqlite_store(app).checkpoint()
    app.close()
    before = rows(path)
    script = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from holdfast import Holdfast, HoldfastError
app = Holdfast("sqlite:///" + sys.argv[1])
@app.task(name="analyse")
def analyse(document: str) -> None: ...
app.jobs()
resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 1024, resource.RLIM_INFINITY))
for _ in range(2):
    try:
        print(analyse.enqueue("a" * 500_000))
    except HoldfastError as error:
        print(type(error).__name__, error)
print(len(app.jobs()))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(analyse.enqueue("there is room again").state)
"""
    ended = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    first, second, jobs, state = ended.stdout.splitlines()
    for said in (first, second):
        assert said.startswith(f"StoreUnavailable {path} ")
        assert "SQLITE_FULL" in said or "SQLITE_IOERR" in said
        assert "disk" in said
    assert (jobs, state) == ("1", "ready")
    assert rows(path)["holdfast_job_spec"] == before["holdfast_job_spec"] + 1
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = parse_mountinfo(f"27 1 254:0 / / rw - ext4 /dev/vda rw\n40 27 0:41 / {tmp_path} rw - nfs4 server:/x rw\n")
    assert file_system_of(str(tmp_path / "jobs.db"), mounts) == "nfs4"
    assert "nfs4" in NETWORK_FILE_SYSTEMS
    monkeypatch.setattr("holdfast.store.sqlite.file._mounts", lambda: mounts)
    refused(app_at(tmp_path / "jobs.db"), StoreUnavailable, "is on a network file system (nfs4)", "put it on a local disk")
    assert list(tmp_path.iterdir()) == []


# Time


def test_a_datetime_with_a_timezone_is_fine(app: Holdfast, analyse: Analyse) -> None:
    when = datetime.now(UTC) + timedelta(hours=1)
    job = analyse.using(run_after=when).enqueue({"at": when})
    assert (job.state, job.run_after) == ("scheduled", when)
