"""Where the database file may live, and which users may read it.

Nothing here opens a database that exists: closing any descriptor of a file drops every POSIX lock that this
process holds on it, SQLite's included, and that corrupts it.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from typing import Final

from holdfast.errors import StoreUnavailable

# A write-ahead log needs memory that all its users share, and locks that work: one machine, one local disk.
# fmt: off
NETWORK_FILE_SYSTEMS: Final = frozenset((
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "afpfs", "webdav", "ncpfs", "9p", "afs", "coda", "ceph",
    "glusterfs", "lustre", "beegfs", "orangefs", "pvfs2", "gpfs", "panfs", "davfs", "fuse.sshfs",
    "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse",
    "fuse.goofys", "fuse.mount-s3", "fuse.davfs", "fuse.curlftpfs", "fuse.juicefs", "fuse.mfs",
    "fuse.moosefs", "fuse.seaweedfs", "fuse.smbnetfs",
))
# fmt: on
_MAC_MOUNT_LINE: Final = re.compile(r"^.* on (?P<point>/.*) \((?P<kind>[^,()]+)")

_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_creating = threading.Lock()

FileId = tuple[int, int]
"""Device and inode."""
Stamp = tuple[int, int, int]
"""Of a directory: device, inode, and when a file in it was last created, renamed or deleted."""

STAMP_STEP_NS: Final = 100_000_000
"""More than the kernel's clock for stamps is behind, and than its steps: 10 ms."""
STAMP_STEP_WHOLE_NS: Final = 3_000_000_000
"""The same for file systems whose stamps are whole seconds, or every second one."""


def _forget_lock_after_fork() -> None:
    global _creating
    _creating = threading.Lock()  # the thread that held it does not exist in the child


os.register_at_fork(after_in_child=_forget_lock_after_fork)


def check_file(path: str) -> None:
    """Refuse a path where a database would be lost, unreadable, or corrupted."""
    if not path or "\0" in path:
        raise StoreUnavailable(f"{path!r} is no path of a database file; give one such as jobs.db")
    resolved = os.path.realpath(path)
    directory = os.path.dirname(resolved)
    if os.path.isdir(resolved):
        raise StoreUnavailable(f"{path} is a directory; give the path of a file in it, such as {path}/jobs.db")
    if not os.path.isdir(directory):
        raise StoreUnavailable(f"{path}: the directory {directory} does not exist; create it first")
    _check_file_system(path, resolved)
    _check_rights(path, resolved, directory)


def _check_file_system(path: str, resolved: str) -> None:
    kind = file_system_of(resolved, _mounts())
    if kind in NETWORK_FILE_SYSTEMS:
        raise StoreUnavailable(
            f"{path} is on a network file system ({kind}), where SQLite loses data; put it on a local disk, or use postgresql://"
        )


def _check_rights(path: str, resolved: str, directory: str) -> None:
    _check_writable(path, directory)
    if os.path.exists(resolved):
        if not stat.S_ISREG(os.stat(resolved).st_mode):
            raise StoreUnavailable(f"{path} is not a regular file; give the path of a database file")
        if not _allowed(resolved, os.R_OK | os.W_OK):
            raise StoreUnavailable(f"{path} may not be read and written by {_who()}; change its owner or its mode")
    if not _allowed(directory, os.W_OK | os.X_OK):
        raise StoreUnavailable(
            f"{path}: {_who()} may not create files in {directory}, and SQLite needs two beside it; "
            "change the directory's owner or its mode"
        )
    mode = os.stat(directory).st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise StoreUnavailable(
            f"{path}: every user may replace files in {directory} (mode {stat.S_IMODE(mode):04o}); "
            "take that right away with chmod o-w"
        )


def _check_writable(path: str, directory: str) -> None:
    if is_read_only(directory):
        raise StoreUnavailable(f"{path} is on a file system that is mounted read-only; put it on one that can be written")


def is_read_only(directory: str) -> bool:
    return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)


def _allowed(path: str, rights: int) -> bool:
    return os.access(path, rights, effective_ids=os.access in os.supports_effective_ids)


def _who() -> str:
    return f"user {os.geteuid()}"


def file_system_of(resolved: str, mounts: Iterable[tuple[str, str]]) -> str:
    """What kind of file system holds this path: the longest mount point wins, then the one mounted last."""
    best, kind = "", ""
    for point, candidate in mounts:
        inside = resolved == point or resolved.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, candidate
    return kind


def _mounts() -> list[tuple[str, str]]:
    try:
        if sys.platform == "darwin":
            listing = subprocess.run(["/sbin/mount"], capture_output=True, text=True, timeout=5, check=True)
            return parse_mac_mounts(listing.stdout)
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mountinfo:
            return parse_mountinfo(mountinfo.read())
    except (OSError, subprocess.SubprocessError):
        return []  # a system that does not tell: SQLite's own checks are what is left


def parse_mountinfo(text: str) -> list[tuple[str, str]]:
    """Pairs of mount point and kind, from the text of Linux's mountinfo."""
    found = []
    for line in text.split("\n"):
        before, dash, after = line.partition(" - ")
        fields = before.split(" ")
        if dash and len(fields) > 4:
            found.append((_unescape(fields[4]), after.split(" ")[0]))
    return found


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def parse_mac_mounts(text: str) -> list[tuple[str, str]]:
    """Pairs of mount point and kind, from what `mount` prints on macOS."""
    matches = (_MAC_MOUNT_LINE.match(line) for line in text.splitlines())
    return [(match["point"], match["kind"].strip()) for match in matches if match]


def file_id(path: str) -> FileId | None:
    """Tells a file from another one at the same path; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def stamp_of(directory: str) -> Stamp | None:
    """While a settled stamp stays the same, no file of the directory is deleted or replaced. None: there is no directory."""
    try:
        status = os.stat(directory)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns


def is_settled(stamp: Stamp) -> bool:
    """Whether any later change gives another stamp. If the clock was set back it may be long before this holds."""
    changed = stamp[2]
    return time.time_ns() - changed > (STAMP_STEP_NS if changed % 1_000_000_000 else STAMP_STEP_WHOLE_NS)


def is_open_here(path: str) -> bool:
    """Whether this process has a descriptor of the file."""
    wanted = file_id(path)
    return wanted is not None and any(_id_of(descriptor) == wanted for descriptor in _descriptors())


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return []  # a system that does not tell


def _id_of(descriptor: int) -> FileId | None:
    try:
        status = os.fstat(descriptor)
    except OSError:
        return None  # that of the listing itself
    return status.st_dev, status.st_ino


def create_private(path: str) -> bool:
    """Create the file, empty and for its owner only, unless it is there; True if this call created it.

    SQLite gives `-wal` and `-shm` the mode of the database. Call this before every connect, in every thread.
    """
    # The one open() of a database that is permitted: O_EXCL means that the file did not exist, so nobody can
    # hold a lock on it that our close() would drop. Another thread of ours could connect between our open and
    # our close, and lose its locks: every thread passes here before it connects, so the lock keeps it out.
    # For the same reason nobody asks before the lock whether the file is there.
    with _creating:
        try:
            descriptor = os.open(os.path.realpath(path), _NEW, 0o600)
        except FileExistsError:
            return False
        except OSError as error:
            raise StoreUnavailable(f"{path} cannot be created: {error.strerror}; check the directory") from error
        try:
            os.fchmod(descriptor, 0o600)  # a umask may have taken the owner's rights too
        finally:
            os.close(descriptor)
        return True
