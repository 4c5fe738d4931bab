"""A follower: a bounded mailbox, and a way to wait for what comes into it, for a thread or for a coroutine.

Who does not keep up is `behind`: nothing more is put into its mailbox, and it reads from the store what it missed.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from holdfast.domain.event import Event
from holdfast.store.wakeup import Wakeup

MAIL_MAX: Final = 1_000


class Follower(ABC):
    """Filled by the thread that watches, emptied by its owner.

    key    the number of the job that it follows; None: all jobs
    place  where it is when its mailbox is empty: a number of the job's, or a cursor. Its owner's to change while it is behind
    """

    __slots__ = ("behind", "gone", "key", "mail", "over", "place", "silent")

    def __init__(self, key: int | None, place: Any, *, silent: bool = False) -> None:
        self.key, self.place, self.silent = key, place, silent
        self.mail: deque[Event] = deque()
        self.behind = True
        self.over = False
        """Nothing comes any more: the job has ended."""
        self.gone = False
        """Its owner does not follow any more."""

    def put(self, events: Sequence[Event], place: Any) -> None:
        if len(self.mail) + len(events) > MAIL_MAX:
            self.behind = True
        else:
            self.mail.extend(events)
            self.place = place

    def take(self) -> list[Event]:
        taken: list[Event] = []
        while self.mail:
            taken.append(self.mail.popleft())
        return taken

    @abstractmethod
    def wake(self) -> asyncio.AbstractEventLoop | None:
        """Tell its owner; or name the loop in which `woken` must be called, which can be done for many at once."""


class ThreadFollower(Follower):
    __slots__ = ("_bell",)

    def __init__(self, key: int | None, place: Any, *, silent: bool = False) -> None:
        super().__init__(key, place, silent=silent)
        self._bell = Wakeup()

    def wake(self) -> None:
        self._bell.set()

    def wait(self, timeout_seconds: float | None = None) -> None:
        """Until it was woken since this was last called."""
        self._bell.wait(timeout_seconds)


class LoopFollower(Follower):
    __slots__ = ("_loop", "_told", "_waiter")

    def __init__(self, key: int | None, place: Any, *, silent: bool = False) -> None:
        super().__init__(key, place, silent=silent)
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._told = False

    def wake(self) -> asyncio.AbstractEventLoop | None:
        if self._told:
            return None  # and has not heard of it yet
        self._told = True
        return self._loop

    def woken(self) -> None:
        self._told = False
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Until it is woken. What came since its owner last looked was put before that, so it is not missed."""
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


def wake_all(followers: Sequence[Follower]) -> list[Follower]:
    """One call per loop; those of loops that are closed come back."""
    loops: dict[asyncio.AbstractEventLoop, list[LoopFollower]] = {}
    for follower in followers:
        loop = follower.wake()
        if loop is not None and isinstance(follower, LoopFollower):
            loops.setdefault(loop, []).append(follower)
    lost: list[Follower] = []
    for loop, its in loops.items():
        try:
            loop.call_soon_threadsafe(_woken, its)
        except RuntimeError:
            lost += its
    return lost


def _woken(followers: Sequence[LoopFollower]) -> None:
    for follower in followers:
        follower.woken()
