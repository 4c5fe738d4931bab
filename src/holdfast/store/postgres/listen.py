"""Learn that somebody committed: by LISTEN where that works, by a look every second or so in any case.

The server's word can be lost: with the connection, or in a pooler that knows no sessions. So every wait also ends by itself
after a random time, which means "look for yourself", sooner if the word was not seen to get through: that is tried out.
"""

from __future__ import annotations

import logging
import os
import random
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import psycopg

from holdfast.domain.sanitize import one_line
from holdfast.errors import HoldfastError
from holdfast.store.postgres.notifier import CHANNEL, FOLLOWERS_CHANNEL
from holdfast.store.postgres.schema import Raw

log = logging.getLogger("holdfast.store")

LOOK_SECONDS: Final = (0.5, 1.0)
LOOK_HEARING_SECONDS: Final = (1.5, 2.5)
TRIAL_SECONDS: Final = 5.0
AGAIN_SECONDS: Final = (0.2, 30.0)

_chance: Final = random.SystemRandom()  # the program may have seeded the common one for itself
_inherited: list[Any] = []
"""Connections of a parent process: to close one here would end it there."""


class Listener:
    """For one waiting thread; `nudge` may be called from any. A forked child may only close its copy.

    connect  opens a connection to listen on.
    ask      sends a NOTIFY through another connection, to see whether it arrives.
    follows  hears also of commits that bring no work.
    """

    def __init__(self, connect: Callable[[], Raw], ask: Callable[[str], None], follows: bool = False) -> None:
        self._connect, self._ask, self._follows = connect, ask, follows
        self._owner = os.getpid()
        self._bell, self._ringer = os.pipe()
        for end in (self._bell, self._ringer):
            os.set_blocking(end, False)
        self._mutex = threading.RLock()
        self._closed = False
        self._raw: Raw | None = None
        self._watched: int | None = None
        self._failures = 0
        self._again_at = 0.0
        self._opening: threading.Thread | None = None
        self._trial: tuple[str, float] | None = None
        self._warned = False
        self._missed = False
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)
        self.notified = False
        self._look_at = self._next_look()
        self._open()

    @property
    def hears(self) -> bool:
        """Whether the server's word is known to get through."""
        return self._raw is not None and self._trial is None and not self._warned

    def wait(self, timeout_seconds: float) -> bool:
        """True as soon as somebody committed, it is time to look, or `nudge` was called; False when the time is up."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            nudged, told = self._nudged(), self._told()
            self.notified = told
            now = time.monotonic()
            if now >= self._look_at:
                self._look_at = self._next_look()
                told = True
            if nudged or told:
                return True
            if now >= deadline:
                return False
            self._keep_up(now)
            self._poll.poll(max(0.0, (min(deadline, self._look_at) - now) * 1000))

    def nudge(self) -> None:
        """End the wait that is going on, or the next one."""
        with self._mutex:  # never write to a descriptor that was closed and belongs to somebody else by now
            if not self._closed:
                with suppress(BlockingIOError):  # full: the waiter has not heard the others yet
                    os.write(self._ringer, b"!")

    def close(self) -> None:
        """Not while another thread waits."""
        ours = os.getpid() == self._owner
        if not ours:
            self._mutex = threading.RLock()  # a thread that the child does not have may hold the old one
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            raw, self._raw = self._raw, None
        if raw is not None and ours:
            raw.close()
        elif raw is not None:
            _inherited.append(raw)
        for end in (self._bell, self._ringer):
            os.close(end)

    # Hearing

    def _nudged(self) -> bool:
        nudged = False
        with suppress(BlockingIOError):
            while os.read(self._bell, 4096):
                nudged = True
        return nudged

    def _told(self) -> bool:
        """What arrived; a trial is not told on, for nobody committed."""
        raw, missed = self._raw, self._missed
        self._missed = False
        if raw is None:
            return missed
        told = missed
        try:
            if self._watched is None:
                descriptor = raw.fileno()
                self._poll.register(descriptor, select.POLLIN)
                self._watched = descriptor
            raw.pgconn.consume_input()
            while (word := raw.pgconn.notifies()) is not None:
                told = self._is_news(word.extra.decode()) or told
            if raw.pgconn.status == psycopg.pq.ConnStatus.BAD:
                raise psycopg.OperationalError("the connection was lost")
        except psycopg.Error as error:
            self._lose(raw, error)
            return True  # whatever was told while nobody listened
        return told

    def _is_news(self, word: str) -> bool:
        if not word:
            return True
        if self._trial is not None and word == self._trial[0]:
            self._trial, self._warned, self._failures = None, False, 0
        return False

    def _lose(self, raw: Raw, error: Exception) -> None:
        log.debug("nobody tells of commits (%s); looking every second until that is better", one_line(str(error)))
        if self._watched is not None:
            self._poll.unregister(self._watched)
            self._watched = None
        self._raw = self._trial = None
        with suppress(psycopg.Error):
            raw.close()
        self._fail()

    def _fail(self) -> None:
        low, high = AGAIN_SECONDS
        self._again_at = time.monotonic() + min(high, low * float(2 ** min(self._failures, 10))) * _chance.uniform(0.5, 1.0)
        self._failures += 1

    def _next_look(self) -> float:
        return time.monotonic() + _chance.uniform(*(LOOK_HEARING_SECONDS if self.hears else LOOK_SECONDS))

    # Keeping the line open

    def _keep_up(self, now: float) -> None:
        """Open a line that was lost, in a thread: a waiter must hear a nudge meanwhile. And see how the trial went."""
        if self._raw is None and self._opening is None and now >= self._again_at:
            self._opening = threading.Thread(target=self._open_quietly, name="holdfast-listen", daemon=True)
            self._opening.start()
        if self._trial is not None and now > self._trial[1]:
            self._trial = None
            if not self._warned:
                self._warned = True
                log.warning(
                    "LISTEN does not get through to this process, so it looks every second; "
                    "behind a pooler, give a listen_url that leads to the server itself"
                )

    def _open_quietly(self) -> None:
        try:
            self._open()
        finally:
            self._opening = None
            self.nudge()

    def _open(self) -> None:
        raw: Raw | None = None
        try:
            raw = self._connect()
            for channel in (CHANNEL, FOLLOWERS_CHANNEL) if self._follows else (CHANNEL,):
                raw.execute(f"LISTEN {channel}")
            trial = f"trial-{_chance.getrandbits(64):x}"
            self._trial = (trial, time.monotonic() + TRIAL_SECONDS)
            self._ask(trial)
        except (psycopg.Error, HoldfastError) as error:
            level = logging.DEBUG if self._failures else logging.WARNING
            log.log(level, "nobody tells of commits (%s); looking every second until that is better", one_line(str(error)))
            self._trial = None
            self._fail()
        else:
            with self._mutex:
                if not self._closed:
                    self._missed, self._raw = True, raw
                    return
        if raw is not None:
            raw.close()
