"""Callers that write at the same time share one transaction.

The first to come leads: it commits for all who wait. Those that arrive while it syncs are the next batch, and each is
answered only after the commit that holds its work. How a batch is committed is the database's to say.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from holdfast.store.enqueue import Plain
from holdfast.store.op import Make

T = TypeVar("T")
BATCH_MAX: Final = 256


class Commits:
    """Those who wait for a commit.

    commit     given a batch, answers all of its entries: none may be left undone, whatever it raises.
    elsewhere  runs a function in some thread, for callers that must not block in their own.
    """

    def __init__(self, commit: Callable[[list[Entry[Any]]], None], elsewhere: Callable[[Callable[[], None]], object]) -> None:
        self._commit, self._elsewhere = commit, elsewhere
        self.forget()

    def forget(self) -> None:
        """Nobody waits any more: in a forked child, which has none of the threads that did."""
        self.mutex = threading.Lock()
        self.waiting: list[Entry[Any]] = []
        self._leading = False

    def write(self, make: Make[T]) -> T:
        entry = ThreadEntry(make)
        try:
            if not self.join(entry):
                entry.wait()
        except BaseException:
            self._abandon(entry)
            raise
        if entry.leads:
            self._lead()
        return entry.answer()

    async def awrite(self, make: Make[T]) -> T:
        entry = LoopEntry(make, asyncio.get_running_loop(), self._lead_elsewhere)
        if self.join(entry):
            self._lead_elsewhere()
        return await entry.future

    def join(self, entry: Entry[Any]) -> bool:
        """Wait with the others; True if there is nobody to lead them yet, so that this one has to."""
        with self.mutex:
            self.waiting.append(entry)
            if self._leading:
                return False
            self._leading = entry.leads = True
            return True

    def _abandon(self, entry: Entry[Any]) -> None:
        """Its caller was interrupted while it waited; if the lead was handed to it meanwhile, the others still need it."""
        with self.mutex:
            if entry in self.waiting and not entry.leads:
                self.waiting.remove(entry)
        if entry.leads:
            self._lead()

    def _lead_elsewhere(self) -> None:
        self._elsewhere(self._lead)

    def _lead(self) -> None:
        """Commit what is waiting now, then hand the lead to the first of those that came meanwhile."""
        with self.mutex:
            batch, self.waiting = self.waiting[:BATCH_MAX], self.waiting[BATCH_MAX:]
        try:
            self._commit(batch)
        finally:
            with self.mutex:
                heir = self.waiting[0] if self.waiting else None
                if heir is None:
                    self._leading = False
                else:
                    heir.leads = True
            for entry in batch:
                entry.wake()
            if heir is not None:
                heir.wake()


class Entry(ABC, Generic[T]):
    """One caller's operation, waiting for the commit that will hold it."""

    def __init__(self, make: Make[T]) -> None:
        self.make = make
        self.value: T | None = None
        self.error: BaseException | None = None
        self.done = False
        self.leads = False

    @abstractmethod
    def wake(self) -> None:
        """Tell the caller that it is done, or that it leads now."""


class ThreadEntry(Entry[T]):
    def __init__(self, make: Make[T]) -> None:
        super().__init__(make)
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait(self) -> None:
        self._gate.acquire()

    def wake(self) -> None:
        self._gate.release()

    def answer(self) -> T:
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


class LoopEntry(Entry[T]):
    def __init__(self, make: Make[T], loop: asyncio.AbstractEventLoop, lead: Callable[[], None]) -> None:
        super().__init__(make)
        self.future: asyncio.Future[T] = loop.create_future()
        self._loop = loop
        self._lead = lead

    def wake(self) -> None:
        if not self.done:
            return self._lead()
        try:
            self._loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            return None  # that loop was closed while it waited; the others of the batch must be told all the same

    def _settle(self) -> None:
        if self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)  # type: ignore[arg-type]


class Share(NamedTuple):
    """The part of a batch that is run, and undone, as one: one caller's work, or that of several who asked for the same."""

    entries: Sequence[Entry[Any]]
    make: Make[Any]

    def answer(self, value: Any) -> None:
        for entry, each in zip(self.entries, value if len(self.entries) > 1 else [value], strict=True):
            entry.value = each

    def fail(self, error: BaseException) -> None:
        for entry in self.entries:
            entry.error = error


def shares(batch: Sequence[Entry[Any]]) -> list[Share]:
    """Jobs that callers enqueue with nothing special about them go in together; everything else goes one by one."""
    joint = [entry for entry in batch if isinstance(entry.make, Plain)] if len(batch) > 1 else []
    if len(joint) < 2:
        return [Share([entry], entry.make) for entry in batch]
    first, *others = [entry.make for entry in joint if isinstance(entry.make, Plain)]
    single = [Share([entry], entry.make) for entry in batch if not isinstance(entry.make, Plain)]
    return [Share(joint, first.together(others)), *single]


def refuse(batch: Sequence[Entry[Any]], reason: BaseException) -> None:
    """Nothing of the batch was kept."""
    for entry in batch:
        entry.value, entry.error, entry.done = None, reason, True
