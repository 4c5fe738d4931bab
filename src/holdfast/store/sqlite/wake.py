"""Notices that another process wrote to the database, without asking it again and again.

Linux notifies those who watch the directory that `-wal` was written. That is before the commit can be read: the writer still has
to sync, and no notification follows. So a notification only starts a series of looks at the data version, each twice as far off
as the last, and the wait ends when a look finds a commit by another connection. Where there is no inotify, looks come at a steady
pace. Nothing here opens the database or its `-shm`: closing them again would drop SQLite's locks.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

POLL_FIRST_SECONDS: Final = 0.010
POLL_LAST_SECONDS: Final = 0.060  # every 10 ms costs 1.5 % of a processor, nearly all of it for waking up
POLL_GROWTH: Final = 1.1

LOOK_FIRST_SECONDS: Final = 0.000_1
LOOK_LAST_SECONDS: Final = 4.0
LOOK_GROWTH: Final = 2.0

_IN_MODIFY: Final = 0x0000_0002
_IN_MOVED_TO: Final = 0x0000_0080
_IN_CREATE: Final = 0x0000_0100
_IN_UNMOUNT: Final = 0x0000_2000
_IN_Q_OVERFLOW: Final = 0x0000_4000
_IN_IGNORED: Final = 0x0000_8000
_IN_ONLYDIR: Final = 0x0100_0000
_WATCHED: Final = _IN_MODIFY | _IN_CREATE | _IN_MOVED_TO | _IN_ONLYDIR
_BLIND: Final = _IN_UNMOUNT | _IN_Q_OVERFLOW | _IN_IGNORED  # something was missed: look for yourself
_EVENT: Final = struct.Struct("iIII")
_READ_BYTES: Final = 64 * 1024


class Watcher:
    """Waits for commits by others to one database. For one waiting thread; `nudge` may be called from any.

    `version` asks the waiter's own connection for `PRAGMA data_version`: a wait ends when a commit by another connection can be
    read, and own commits do not end it. A forked child may only close its copy.
    """

    notified = True

    def __init__(self, path: str, version: Callable[[], object]) -> None:
        wal = os.path.realpath(path) + "-wal"
        self._wal_name = os.fsencode(os.path.basename(wal))
        self._version = version
        self._owner = os.getpid()
        self._closing = threading.RLock()
        self._closed = False
        self._bell, self._ringer = _open_pipe()
        self._inotify = open_inotify(os.path.dirname(wal))
        self._poll = select.poll()
        for descriptor in (self._inotify, self._bell):
            if descriptor is not None:
                self._poll.register(descriptor, select.POLLIN)
        self._look_at = self._look_gap = 0.0  # a gap of 0: no look is planned
        if self._inotify is not None:
            self._look_gap = LOOK_FIRST_SECONDS  # what was written before the watch began may be committed only now
        self._poll_at, self._poll_gap = 0.0, POLL_FIRST_SECONDS
        self._seen = version()

    @property
    def polling(self) -> bool:
        """True where the system does not tell of writes, so that every wait looks at a steady pace."""
        return self._inotify is None

    def wait(self, timeout_seconds: float) -> bool:
        """True as soon as somebody else committed, or `nudge` was called; False when the time is up."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            nudged = self._nudged()
            now = time.monotonic()
            if self._told(now):
                self._look_at = min(self._look_at, now + LOOK_FIRST_SECONDS) if self._look_gap else now
                self._look_gap = LOOK_FIRST_SECONDS
            if self._look(now) or nudged:
                return True
            if now >= deadline:
                return False
            self._sleep(min(deadline, self._planned() or deadline) - now)

    def nudge(self) -> None:
        """End the wait that is going on, or the next one."""
        with self._closing:  # never write to a descriptor that was closed and belongs to somebody else by now
            if not self._closed:
                _ring(self._ringer)

    def close(self) -> None:
        """Not while another thread waits. In a forked child this leaves the parent's watch alone."""
        if os.getpid() != self._owner:
            self._closing = threading.RLock()  # a thread that the child does not have may hold the old one
        with self._closing:
            if self._closed:
                return
            self._closed = True
        # No watch and no registration is removed here: the parent of a fork shares them. Closing is enough.
        for descriptor in (self._inotify, self._bell, self._ringer):
            if descriptor is not None:
                os.close(descriptor)

    def _nudged(self) -> bool:
        nudged = False
        while _read(self._bell):
            nudged = True
        return nudged

    def _told(self, now: float) -> bool:
        """True if somebody wrote to `-wal`: by the system's word, or else by our own polling."""
        if self._inotify is None:
            return self._poll_differs(now)
        told = False
        while events := _read(self._inotify):
            told |= any(name == self._wal_name or mask & _BLIND for mask, name in parse_events(events))
        return told

    def _poll_differs(self, now: float) -> bool:
        if now < self._poll_at:
            return False
        differs = self._differs()
        self._poll_gap = POLL_FIRST_SECONDS if differs else min(self._poll_gap * POLL_GROWTH, POLL_LAST_SECONDS)
        self._poll_at = now + self._poll_gap
        return differs

    def _look(self, now: float) -> bool:
        """True if a look is due and finds a commit."""
        if not self._look_gap or now < self._look_at:
            return False
        self._look_at = now + self._look_gap
        # Also after a find: the same word may have told of a second write, whose commit cannot be read yet.
        self._look_gap = 0.0 if self.polling else _after(self._look_gap)
        return self.polling or self._differs()

    def _planned(self) -> float | None:
        look = self._look_at if self._look_gap else None
        if not self.polling:
            return look
        return self._poll_at if look is None else min(look, self._poll_at)

    def _differs(self) -> bool:
        before, self._seen = self._seen, self._version()
        return self._seen != before

    def _sleep(self, seconds: float) -> None:
        if seconds < 0.001:
            time.sleep(max(0.0, seconds))  # poll() counts whole milliseconds
        else:
            self._poll.poll(seconds * 1000)


def _after(gap: float) -> float:
    """The next gap; 0 when it is time to give up: the write was our own, or was rolled back."""
    return gap * LOOK_GROWTH if gap < LOOK_LAST_SECONDS else 0.0


def open_inotify(directory: str) -> int | None:
    """A descriptor that tells of writes in this directory; None where the system has none, or none left."""
    if sys.platform != "linux":
        return None
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            return None
        if libc.inotify_add_watch(descriptor, os.fsencode(directory), ctypes.c_uint32(_WATCHED)) < 0:
            os.close(descriptor)
            return None
    except (OSError, AttributeError):
        return None
    return descriptor


def parse_events(events: bytes) -> Iterator[tuple[int, bytes]]:
    """Pairs of mask and file name."""
    at = 0
    while at < len(events):
        _, mask, _, length = _EVENT.unpack_from(events, at)
        at += _EVENT.size + length
        yield mask, events[at - length : at].rstrip(b"\0")


def _open_pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def _ring(ringer: int) -> None:
    with suppress(BlockingIOError):  # full: the waiter has not heard the others yet
        os.write(ringer, b"!")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return b""
