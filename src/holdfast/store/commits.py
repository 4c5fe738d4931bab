"""Callers that write at the same time share one transaction.

Who comes when nobody else does commits alone. Those that arrive while it syncs are the next batch: the first of them leads
and commits for all, and each is answered only after the commit that holds its work. How that is done is the database's to
say.

An interrupt can hit a leader anywhere, also as it hands the lead on. So who waits looks up now and then, and takes the
lead if nobody commits; what the interrupted one left behind comes first. Two leaders at once do no harm: they commit one
after the other, the second perhaps nothing.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, NamedTuple, TypeVar

from holdfast.store.op import Operation, shortcut

T = TypeVar("T")
BATCH_MAX: Final = 256
WAIT_SECONDS: Final = 1.0
JOIN_SECONDS: Final = 0.001


class Commits:
    """The callers that wait for a commit.

    alone       commits one operation, and answers with its value.
    commit      given a batch, answers all of its entries: none may be left undone, whatever it raises.
    afterwards  what is to be done after a commit that nobody has to wait for.
    elsewhere   runs a function in some thread, for callers that must not block in their own.
    """

    def __init__(
        self,
        alone: Callable[[Operation[Any]], Any],
        commit: Callable[[list[Entry[Any]]], None],
        afterwards: Callable[[], None],
        elsewhere: Callable[[Callable[[], None]], object],
    ) -> None:
        self._alone, self._commit, self._afterwards, self._elsewhere = alone, commit, afterwards, elsewhere
        self.forget()

    def forget(self) -> None:
        """Forget all waiting callers: a forked child has none of their threads."""
        self.mutex = threading.Lock()
        self.busy = threading.Lock()
        self.waiting: list[Entry[Any]] = []
        self._crowd = 0
        self._missing = 0
        self._all_here = threading.Lock()
        self._all_here.acquire()
        self._batch: list[Entry[Any]] = []
        self._watched: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        self._leading = False
        self._leader: int | None = None

    @contextmanager
    def paused(self, seconds: float | None = None) -> Iterator[bool]:
        """No commit runs meanwhile. False: one goes on for longer than that, or in the calling thread."""
        if self._leader == threading.get_ident():
            yield False
        elif seconds is None:
            with self.busy:  # an exception from a signal handler cannot leave it held
                yield True
        else:
            paused = self.busy.acquire(timeout=seconds)
            try:
                yield paused
            finally:
                if paused:
                    self.busy.release()

    def write(self, operation: Operation[T]) -> T:
        if not self.is_alone():
            return self._write_together(operation)
        try:
            with self.busy:
                try:
                    self._leader = threading.get_ident()
                    value: T = self._alone(operation)
                    self._afterwards()
                    return value
                finally:
                    self._leader = None
        finally:
            self._hand_on()

    def is_alone(self) -> bool:
        """True, and the caller leads, if no other caller writes or waits and the last commit was not shared."""
        with self.mutex:
            if self._leading or self.waiting or self._batch or self._crowd > 1:
                return False
            self._leading = True
            return True

    def _write_together(self, operation: Operation[T]) -> T:
        entry = ThreadEntry(operation)
        try:
            if not self.join(entry):
                while not (entry.done or entry.leads):
                    if not entry.wait(WAIT_SECONDS):
                        self._take_over(entry)
        except BaseException:
            self._abandon(entry)
            raise
        finally:
            entry.wake_next()
        if entry.leads:
            self._lead()
        return entry.answer()

    async def awrite(self, operation: Operation[T]) -> T:
        loop = asyncio.get_running_loop()
        entry = LoopEntry(operation, loop, self.lead_elsewhere)
        if loop not in self._watched:
            self._watch(loop)
        if self.join(entry):
            self.lead_elsewhere()
        return await entry.future

    def join(self, entry: Entry[Any]) -> bool:
        """Wait with the others; True if no caller leads yet, so that this one has to."""
        with self.mutex:
            self.waiting.append(entry)
            if self._missing:
                self._missing -= 1
                if not self._missing and self._all_here.locked():  # an interrupted leader may have left it open
                    self._all_here.release()
            if self._leading:
                return False
            self._leading = entry.leads = True
            return True

    def _take_over(self, entry: Entry[Any]) -> None:
        """It has waited for long: it leads if no other does."""
        with self.mutex:
            if not self.busy.locked():
                self._leading = entry.leads = True

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watched.add(loop)
        loop.call_later(WAIT_SECONDS, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """The same for the callers in an event loop, all at once: a timer for each would cost more than its write."""
        self._watched.discard(loop)
        with self.mutex:
            waiting, busy = bool(self.waiting or self._batch), self.busy.locked()
        if waiting:
            self._watch(loop)
        if waiting and not busy:
            self.lead_elsewhere()

    def _abandon(self, entry: ThreadEntry[Any]) -> None:
        """Its caller was interrupted while it waited; if the lead was handed to it meanwhile, the others still need it."""
        with self.mutex:
            entry.abandoned = True
            if entry in self.waiting and not entry.leads:
                self.waiting.remove(entry)
        if entry.leads:
            self._lead()

    def lead_elsewhere(self) -> None:
        try:
            self._elsewhere(self._lead)
        except RuntimeError:  # no thread can be started: this one leads
            self._lead()

    def _lead(self) -> None:
        """Commit what is waiting now, then hand the lead to the first of those that came meanwhile."""
        me = threading.get_ident()
        try:
            with self.busy:
                try:
                    self._leader = me
                    self._commit_waiting()
                finally:
                    self._leader = None
        finally:
            self._hand_on()

    def _commit_waiting(self) -> None:
        if self._crowd > 1:
            self._await_crowd()
        with self.mutex:
            self._batch, self.waiting = self._batch + self.waiting[:BATCH_MAX], self.waiting[BATCH_MAX:]
        undone = [entry for entry in self._batch if not entry.done]
        self._crowd = len(undone)
        try:
            if undone:
                self._commit(undone)
        finally:
            _wake_all(self._batch)
            self._batch = [entry for entry in self._batch if not entry.done]
        if undone:
            self._afterwards()

    def _await_crowd(self) -> None:
        """Callers that the last commit answered are about to write again: a short wait lets them share this one."""
        with self.mutex:
            self._missing = max(0, self._crowd - len(self.waiting))
            wait = self._missing > 0
        if wait and not self._all_here.acquire(timeout=JOIN_SECONDS):
            with self.mutex:
                late, self._missing = self._missing, 0
            if not late:  # the last one came as the time ran out
                self._all_here.acquire(timeout=JOIN_SECONDS)

    def _hand_on(self) -> None:
        with self.mutex:
            heir = self.waiting[0] if self.waiting else None
            self._leading = heir is not None
            if heir is not None:
                heir.leads = True
        if heir is not None:
            heir.inherit()


class Entry(ABC, Generic[T]):
    """One caller's operation, waiting for the commit that will hold it."""

    def __init__(self, operation: Operation[T]) -> None:
        self.operation = operation
        self.value: T | None = None
        self.error: BaseException | None = None
        self.done = False
        self.leads = False

    @abstractmethod
    def wake(self) -> None:
        """Wake the caller: it is done. Never raises, however often it is called: the others must be woken too."""

    @abstractmethod
    def inherit(self) -> None:
        """Wake the caller: it leads now."""


class ThreadEntry(Entry[T]):
    def __init__(self, operation: Operation[T]) -> None:
        super().__init__(operation)
        self.abandoned = False
        self.next: ThreadEntry[Any] | None = None
        """The one to be woken when this one is awake."""
        self._gate = threading.Lock()
        self._gate.acquire()

    def wait(self, seconds: float) -> bool:
        return self._gate.acquire(timeout=seconds)

    def wake(self) -> None:
        try:
            self._gate.release()
        except RuntimeError:
            return  # told before, as heir, and interrupted before it took notice

    def wake_next(self) -> None:
        if self.next is not None:
            self.next.wake()

    def inherit(self) -> None:
        self.wake()

    def answer(self) -> T:
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


class LoopEntry(Entry[T]):
    def __init__(self, operation: Operation[T], loop: asyncio.AbstractEventLoop, lead: Callable[[], None]) -> None:
        super().__init__(operation)
        self.future: asyncio.Future[T] = loop.create_future()
        self._loop = loop
        self._lead = lead

    def wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._settle)
        except RuntimeError:
            return  # that loop was closed while it waited

    def inherit(self) -> None:
        self._lead()

    def _settle(self) -> None:
        if self.future.done() or not self.done:
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)  # type: ignore[arg-type]


def _wake_all(batch: Sequence[Entry[Any]]) -> None:
    """Threads one after the other, each by the one before it: if all awoke at once they would only queue for the interpreter."""
    first: ThreadEntry[Any] | None = None
    for entry in reversed(batch):
        if isinstance(entry, ThreadEntry) and not (entry.leads or entry.abandoned):
            entry.next, first = first, entry
        else:
            entry.wake()
    if first is not None:
        first.wake()


class Share(NamedTuple):
    """The part of a batch that is run, and undone, as one: one caller's operation, or several that were joined."""

    entries: Sequence[Entry[Any]]
    operation: Operation[Any]

    def answer(self, value: Any) -> None:
        for entry, each in zip(self.entries, value if len(self.entries) > 1 else [value], strict=True):
            entry.value = each

    def fail(self, error: BaseException) -> None:
        for entry in self.entries:
            entry.error = error


def shares(batch: Sequence[Entry[Any]]) -> list[Share]:
    """Operations of one class that can be joined are run as one; every other one is run by itself."""
    joint: dict[type, list[Entry[Any]]] = {}
    single: list[Share] = []
    for entry in batch:
        short = shortcut(entry.operation)
        if short is not None and short.joins:
            joint.setdefault(type(short), []).append(entry)
        else:
            single.append(Share([entry], entry.operation))
    return [*(_joined(entries) for entries in joint.values()), *single]


def _joined(entries: list[Entry[Any]]) -> Share:
    first, *others = (entry.operation for entry in entries)
    short = shortcut(first)
    return Share(entries, short.joined(others) if short is not None and others else first)


def accept(batch: Sequence[Entry[Any]]) -> None:
    """Committed: what each was answered holds."""
    for entry in batch:
        entry.done = True


def refuse(batch: Sequence[Entry[Any]], reason: BaseException) -> None:
    """Nothing of the batch was kept."""
    for entry in batch:
        entry.value, entry.error, entry.done = None, reason, True
