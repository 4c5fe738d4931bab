"""A waiter hears of every commit by another process, of nothing else, and costs nothing while it waits."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.store.sqlite import wake
from holdfast.store.sqlite.wake import Watcher

LONG = 20.0
WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA synchronous = FULL")
print("ready", flush=True)
for order in sys.stdin:
    connection.execute(order)
    print("done", flush=True)
"""


class Writer:
    """Another process with a connection of its own."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", WRITER, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def execute(self, statement: str) -> None:
        self.begin(statement)
        self._answer()

    def begin(self, statement: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(statement + "\n")
        self._process.stdin.flush()

    def _answer(self) -> None:
        assert self._process.stdout
        assert self._process.stdout.readline()

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE t (x)")
    yield connection
    connection.close()


@pytest.fixture
def writer(tmp_path: Path, connection: sqlite3.Connection) -> Iterator[Writer]:
    writer = Writer(tmp_path / "jobs.db")
    yield writer
    writer.close()


@pytest.fixture(params=["told", "polling"])
def teller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to learn of a write: the system tells, or we look."""
    if request.param == "polling":
        monkeypatch.setattr(wake, "open_inotify", lambda directory: None)
    elif sys.platform != "linux":
        pytest.skip("only Linux tells")
    return str(request.param)


Watch = Callable[..., Watcher]


@pytest.fixture
def watch(tmp_path: Path, connection: sqlite3.Connection, teller: str) -> Iterator[Watch]:
    opened: list[Watcher] = []

    def version() -> int:
        return int(connection.execute("PRAGMA data_version").fetchone()[0])

    def open_watcher(path: Path | None = None) -> Watcher:
        opened.append(Watcher(str(path or tmp_path / "jobs.db"), version))
        return opened[-1]

    yield open_watcher
    for watcher in opened:
        watcher.close()


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])


def test_the_time_is_up_when_nothing_happens(watch: Watch) -> None:
    watcher, begun = watch(), time.monotonic()
    assert watcher.wait(0.05) is False  # blocks on purpose
    assert time.monotonic() - begun >= 0.05


def test_a_wait_of_nothing_returns_at_once(watch: Watch) -> None:
    assert watch().wait(0) is False


def test_every_commit_of_another_process_can_be_read_when_the_wait_ends(
    watch: Watch, writer: Writer, connection: sqlite3.Connection
) -> None:
    watcher = watch()
    for number in range(1, 30):
        writer.begin("INSERT INTO t VALUES (1)")
        assert watcher.wait(LONG) is True
        assert count(connection) == number
        writer._answer()


def test_a_commit_before_the_wait_is_not_missed(watch: Watch, writer: Writer) -> None:
    watcher = watch()
    writer.execute("INSERT INTO t VALUES (1)")
    assert watcher.wait(LONG) is True


def test_many_commits_are_one_wake_up(watch: Watch, writer: Writer) -> None:
    watcher = watch()
    for _ in range(20):
        writer.execute("INSERT INTO t VALUES (1)")
    assert watcher.wait(LONG) is True
    assert watcher.wait(0.05) is False  # blocks on purpose


def test_a_commit_whose_write_was_heard_together_with_the_one_before_is_not_missed(tmp_path: Path) -> None:
    versions, wal = [1], tmp_path / "jobs.db-wal"
    watcher = Watcher(str(tmp_path / "jobs.db"), lambda: versions[-1])
    wal.write_bytes(b"first")
    versions.append(2)
    wal.write_bytes(b"second")  # it is still being synced when the first is found
    assert watcher.wait(LONG) is True
    versions.append(3)
    assert watcher.wait(LONG) is True
    watcher.close()


def test_own_commits_end_no_wait(watch: Watch, connection: sqlite3.Connection) -> None:
    watcher = watch()
    connection.execute("INSERT INTO t VALUES (1)")
    assert watcher.wait(0.05) is False  # blocks on purpose


def test_a_commit_after_an_own_one_is_heard(watch: Watch, writer: Writer, connection: sqlite3.Connection) -> None:
    watcher = watch()
    connection.execute("INSERT INTO t VALUES (1)")
    assert watcher.wait(0.01) is False  # blocks on purpose
    writer.begin("INSERT INTO t VALUES (2)")
    assert watcher.wait(LONG) is True
    writer._answer()


def test_what_was_rolled_back_ends_no_wait(watch: Watch, writer: Writer) -> None:
    watcher = watch()
    for statement in (
        "PRAGMA cache_size = 1",  # so that it spills to the log before its end
        "BEGIN IMMEDIATE",
        "INSERT INTO t SELECT zeroblob(4000) FROM (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9))",
        "ROLLBACK",
    ):
        writer.execute(statement)
    assert watcher.wait(0.05) is False  # blocks on purpose


def test_a_slow_commit_is_heard_when_it_is_done_and_not_before(
    watch: Watch, writer: Writer, connection: sqlite3.Connection
) -> None:
    watcher = watch()
    writer.execute("PRAGMA cache_size = 1")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO t SELECT zeroblob(4000) FROM (VALUES (1),(2),(3),(4),(5),(6),(7),(8),(9))")
    assert watcher.wait(0.05) is False  # blocks on purpose
    writer.execute("COMMIT")
    assert watcher.wait(LONG) is True
    assert count(connection) == 9


def test_other_files_in_the_directory_end_no_wait(watch: Watch, tmp_path: Path) -> None:
    watcher = watch()
    for name in ("notes.txt", "jobs.db-wal2", "other.db-wal", "xjobs.db-wal"):
        (tmp_path / name).write_text("written")
    assert watcher.wait(0.02) is False  # blocks on purpose
    assert watch().wait(0.02) is False  # blocks on purpose


def test_another_database_in_the_directory_ends_no_wait(watch: Watch, tmp_path: Path) -> None:
    watcher = watch()
    other = sqlite3.connect(tmp_path / "other.db", isolation_level=None)
    other.execute("PRAGMA journal_mode = WAL")
    other.execute("CREATE TABLE t (x)")
    assert watcher.wait(0.02) is False  # blocks on purpose
    other.close()


def test_a_log_that_is_deleted_and_made_again_is_heard(tmp_path: Path, teller: str) -> None:
    path = tmp_path / "late.db"
    sqlite3.connect(path).execute("PRAGMA journal_mode = WAL").connection.close()
    log = path.with_name("late.db-wal")
    watcher = Watcher(str(path), lambda: log.stat().st_mtime_ns if log.exists() else 0)  # a connection would keep the log
    for _ in range(3):
        short = sqlite3.connect(path, isolation_level=None)
        short.execute("CREATE TABLE IF NOT EXISTS t (x)")
        short.execute("INSERT INTO t VALUES (1)")
        assert watcher.wait(LONG) is True
        short.close()
        assert not log.exists()
    watcher.close()


def test_a_path_through_a_link_hears_the_file_behind_it(watch: Watch, writer: Writer, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "link.db").symlink_to(tmp_path / "jobs.db")
    watcher = watch(path=elsewhere / "link.db")
    writer.execute("INSERT INTO t VALUES (1)")
    assert watcher.wait(LONG) is True


def test_a_nudge_from_another_thread_ends_the_wait(watch: Watch) -> None:
    watcher = watch()
    thread = threading.Thread(target=watcher.nudge)
    thread.start()
    assert watcher.wait(LONG) is True
    thread.join()


def test_many_nudges_are_one_wake_up(watch: Watch) -> None:
    watcher = watch()
    for _ in range(100_000):  # more than a pipe holds
        watcher.nudge()
    assert watcher.wait(0) is True
    assert watcher.wait(0) is False


def test_a_nudge_after_closing_does_nothing(watch: Watch) -> None:
    watcher = watch()
    watcher.close()
    watcher.close()
    watcher.nudge()


def test_closing_gives_every_descriptor_back(watch: Watch) -> None:
    before = os.listdir("/dev/fd")
    for _ in range(5):
        watch().close()
    assert len(os.listdir("/dev/fd")) == len(before)


def test_closing_in_a_forked_child_leaves_the_parent_watching(watch: Watch, writer: Writer) -> None:
    watcher = watch()
    if not (child := os.fork()):
        watcher.close()
        os._exit(0)
    os.waitpid(child, 0)
    writer.begin("INSERT INTO t VALUES (1)")
    assert watcher.wait(LONG) is True
    writer._answer()
    watcher.nudge()
    assert watcher.wait(LONG) is True


def test_waiting_costs_next_to_nothing(watch: Watch, teller: str) -> None:
    watcher, spent = watch(), time.thread_time()
    assert watcher.wait(1.0) is False  # blocks on purpose
    assert time.thread_time() - spent < (0.005 if teller == "told" else 0.03)


@pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")
def test_a_directory_that_cannot_be_watched_is_polled(tmp_path: Path) -> None:
    assert wake.open_inotify(str(tmp_path / "none")) is None
    assert Watcher(str(tmp_path / "none" / "jobs.db"), lambda: 1).polling is True


def test_a_full_event_queue_counts_as_a_write() -> None:
    overflow = wake._EVENT.pack(-1, wake._IN_Q_OVERFLOW, 0, 0)
    named = wake._EVENT.pack(1, wake._IN_MODIFY, 0, 16) + b"jobs.db-wal".ljust(16, b"\0")
    assert list(wake.parse_events(overflow + named)) == [
        (wake._IN_Q_OVERFLOW, b""),
        (wake._IN_MODIFY, b"jobs.db-wal"),
    ]
