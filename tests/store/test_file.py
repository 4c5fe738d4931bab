"""Where a database may live, that it is private from its first moment, and what errors say to a person."""

from __future__ import annotations

import os
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.errors import StoreUnavailable
from holdfast.store.sqlite import file
from holdfast.store.sqlite.errors import explain
from holdfast.store.sqlite.file import check_file, create_private, file_system_of

NOBODY = 65534
MOUNTINFO = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
40 27 0:41 / /home rw,relatime shared:7 master:2 - nfs4 server:/home rw,vers=4.2
41 40 0:42 / /home/local rw,relatime - xfs /dev/vdb rw
42 27 0:43 / /mnt/two\\040words rw,relatime - fuse.sshfs me@host: rw
43 27 0:44 / /over rw,relatime - ext4 /dev/vdc rw
44 43 0:45 / /over rw,relatime - cifs //host/share rw
"""
MAC_MOUNTS = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
//me@host/share on /Volumes/on share (smbfs, nodev, nosuid, mounted by me)
map auto_home on /System/Volumes/Data/home (autofs, automounted, nobrowse)
"""


@contextmanager
def as_nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other users can reach: pytest's own is closed to them."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


def refusal(path: object) -> str:
    with pytest.raises(StoreUnavailable) as caught:
        check_file(str(path))
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_new_file_and_an_existing_one_are_fine(tmp_path: Path) -> None:
    check_file(str(tmp_path / "new.db"))
    create_private(str(tmp_path / "new.db"))
    check_file(str(tmp_path / "new.db"))


def test_a_relative_path_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_file("jobs.db")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path} is a directory; give the path of a file in it, such as {tmp_path}/jobs.db"


def test_a_missing_directory_is_refused(tmp_path: Path) -> None:
    assert f"{tmp_path}/none does not exist; create it" in refusal(tmp_path / "none" / "jobs.db")


@pytest.mark.parametrize("path", ["", "jobs\0.db"])
def test_what_cannot_be_a_path_is_refused(path: str) -> None:
    assert "is no path of a database file" in refusal(path)


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("jobs.db")
        assert "is not a regular file" in refusal("jobs.db")


def test_a_file_of_somebody_else_is_refused(open_directory: Path) -> None:
    path = open_directory / "jobs.db"
    path.touch(mode=0o400 if os.geteuid() else 0o600)
    with as_nobody():
        assert f"{path} may not be read and written by user" in refusal(path)


def test_a_directory_that_cannot_be_written_is_refused(open_directory: Path) -> None:
    if os.geteuid():
        open_directory.chmod(0o500)
    with as_nobody():
        assert "may not create files in" in refusal(open_directory / "jobs.db")
    open_directory.chmod(0o755)


def test_a_directory_where_anybody_may_replace_the_file_is_refused(open_directory: Path) -> None:
    open_directory.chmod(0o777)
    assert "(mode 0777); take that right away with chmod o-w" in refusal(open_directory / "jobs.db")


def test_a_sticky_directory_is_fine(open_directory: Path) -> None:
    open_directory.chmod(0o1777)
    check_file(str(open_directory / "jobs.db"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/jobs.db", "ext4"),
        ("/home/ann/jobs.db", "nfs4"),
        ("/homework/jobs.db", "ext4"),
        ("/home/local/jobs.db", "xfs"),
        ("/mnt/two words/jobs.db", "fuse.sshfs"),
        ("/over/jobs.db", "cifs"),
    ],
)
def test_the_longest_and_last_mount_point_decides(path: str, kind: str) -> None:
    assert file_system_of(path, file.parse_mountinfo(MOUNTINFO)) == kind


def test_mac_mounts_are_read_with_spaces_in_them() -> None:
    mounts = file.parse_mac_mounts(MAC_MOUNTS)
    assert file_system_of("/Volumes/on share/jobs.db", mounts) == "smbfs"
    assert file_system_of("/Users/ann/jobs.db", mounts) == "apfs"


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "lustre", "afs"])
def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(file, "_mounts", lambda: [("/", "ext4"), (str(tmp_path.resolve()), kind)])
    message = refusal(tmp_path / "jobs.db")
    assert f"on a network file system ({kind})" in message
    assert "local disk, or use postgresql://" in message


def test_a_link_into_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near.db").symlink_to(tmp_path / "far" / "jobs.db")
    monkeypatch.setattr(file, "_mounts", lambda: [("/", "ext4"), (str(tmp_path.resolve() / "far"), "nfs")])
    assert "network file system (nfs)" in refusal(tmp_path / "near.db")


@pytest.mark.skipif(sys.platform != "linux", reason="reads mountinfo")
def test_this_machines_own_mounts_can_be_read() -> None:
    assert file_system_of("/proc/self", file._mounts()) == "proc"


def test_the_check_never_opens_the_database(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.touch()
    opened: list[str] = []
    listening = True

    def hook(event: str, details: tuple[object, ...]) -> None:
        if listening and event == "open":
            opened.append(str(details[0]))

    sys.addaudithook(hook)
    check_file(str(path))
    create_private(str(path))
    listening = False
    assert [name for name in opened if "mountinfo" not in name] == [str(path.resolve())]  # refused by O_EXCL


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_a_created_file_is_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    path = tmp_path / "jobs.db"
    before = os.umask(mask)
    try:
        assert create_private(str(path)) is True
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_files_beside_the_database_are_private_too(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    before = os.umask(0)
    try:
        create_private(str(path))
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (x)")
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        connection.close()
    finally:
        os.umask(before)
    assert modes == {"jobs.db": 0o600, "jobs.db-wal": 0o600, "jobs.db-shm": 0o600}


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    path.write_bytes(b"kept")
    path.chmod(0o640)
    assert create_private(str(path)) is False
    assert path.read_bytes() == b"kept"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_to_nothing_creates_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "jobs.db")
    assert create_private(str(tmp_path / "link.db")) is True
    assert (tmp_path / "jobs.db").exists()


def test_a_file_that_cannot_be_created_says_why(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="cannot be created: No such file or directory; check"):
        create_private(str(tmp_path / "none" / "jobs.db"))


def test_one_of_many_threads_creates_the_file(tmp_path: Path) -> None:
    path, gate = str(tmp_path / "jobs.db"), threading.Barrier(16)
    created: list[bool] = []

    def begin() -> None:
        gate.wait()
        created.append(create_private(path))

    threads = [threading.Thread(target=begin) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created) == [False] * 15 + [True]


def test_one_of_many_processes_creates_the_file(tmp_path: Path) -> None:
    program = "import sys; from holdfast.store.sqlite.file import *; print(create_private(sys.argv[1]))"
    command = [sys.executable, "-c", program, str(tmp_path / "jobs.db")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    starters = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) for _ in range(6)]
    assert sorted(starter.communicate()[0].strip() for starter in starters) == ["False"] * 5 + ["True"]


def test_a_lock_held_by_another_connection_survives_the_check(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    create_private(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    check_file(path)
    create_private(path)
    program = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN IMMEDIATE')"
    other = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
    holder.close()
    assert "database is locked" in other.stderr


def error_from(connection: sqlite3.Connection, *statements: str) -> sqlite3.Error:
    try:
        for statement in statements:
            connection.execute(statement)
    except sqlite3.Error as error:
        return error
    finally:
        connection.close()
    raise AssertionError(f"none of {statements} failed")


def test_a_full_database_is_explained(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "jobs.db")
    fill = "INSERT INTO t VALUES (zeroblob(100000))"
    error = error_from(connection, "PRAGMA max_page_count = 2", "CREATE TABLE t (x)", fill)
    assert str(explain(error, "jobs.db")) == (
        "jobs.db cannot grow: the disk is full (SQLITE_FULL: database or disk is full); "
        "free some space; nothing of this write was kept"
    )


def test_a_file_that_is_no_database_is_explained(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be read as one\n" * 100)
    error = error_from(sqlite3.connect(tmp_path / "notes.txt"), "SELECT * FROM sqlite_master")
    assert "notes.txt is not an SQLite database (SQLITE_NOTADB: " in str(explain(error, "notes.txt"))


def test_a_busy_database_is_explained(tmp_path: Path) -> None:
    holder = sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    error = error_from(sqlite3.connect(tmp_path / "jobs.db", timeout=0), "CREATE TABLE t (x)")
    holder.close()
    assert "is locked by another process (SQLITE_BUSY: database is locked); try again" in str(explain(error, "j"))


def test_a_read_only_database_is_explained(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "jobs.db").execute("CREATE TABLE t (x)")
    connection = sqlite3.connect(f"file:{tmp_path / 'jobs.db'}?mode=ro", uri=True)
    assert "j cannot be written (SQLITE_READONLY: " in str(explain(error_from(connection, "DROP TABLE t"), "j"))


def test_a_file_that_cannot_be_opened_is_explained(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.Error) as caught:
        sqlite3.connect(tmp_path / "none" / "jobs.db")
    assert "j cannot be opened (SQLITE_CANTOPEN: " in str(explain(caught.value, "j"))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("SQLITE_CORRUPT", "is damaged"),
        ("SQLITE_CORRUPT_INDEX", "run PRAGMA integrity_check, and restore a backup"),
        ("SQLITE_IOERR_FSYNC", "check the disk"),
        ("SQLITE_IOERR_NOMEM", "more memory"),
        ("SQLITE_READONLY_DBMOVED", "was moved or deleted while in use"),
        ("SQLITE_READONLY_ROLLBACK", "cannot be written"),
        ("SQLITE_BUSY_SNAPSHOT", "BEGIN IMMEDIATE"),
        ("SQLITE_BUSY_RECOVERY", "is locked by another process"),
        ("SQLITE_SOMETHING_NEW", "cannot be used"),
    ],
)
def test_every_error_has_one_line_with_a_remedy(name: str, says: str) -> None:
    error = sqlite3.OperationalError("it went\nwrong")
    error.sqlite_errorname = name
    message = str(explain(error, "jobs.db"))
    assert says in message
    assert f"({name}: it went wrong); " in message


def test_an_error_of_the_module_itself_is_explained() -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    error = error_from(connection, "SELECT 1")
    assert "(ProgrammingError: Cannot operate on a closed database.)" in str(explain(error, "jobs.db"))


def test_f30_a_read_only_file_system_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "is_read_only", lambda directory: directory == str(tmp_path))
    with pytest.raises(StoreUnavailable, match="mounted read-only; put it on one that can be written"):
        check_file(str(tmp_path / "jobs.db"))
