"""What both drivers share: connections that are lent for reading, and threads for callers in an event loop."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

T = TypeVar("T")
WAIT_SECONDS: Final = 0.001
"""How often a reader looks whether a connection came back, or the pool is open again after a fork."""


class Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class Loan(Generic[C]):
    """One use of a connection. The pool knows of it as long as it exists, whatever interrupts its user."""

    def __init__(self, connection: C | None, kept: list[C]) -> None:
        self.connection, self.kept = connection, kept


class Pool(Generic[C]):
    """Connections for reading.

    open    Opens another.
    keeps   How many are kept for the next reader.
    spoils  Errors after which a connection is closed and not lent again, as it is after every interrupt.
    usable  Whether one that was kept may still be used.
    """

    def __init__(
        self,
        open: Callable[[], C],
        keeps: int,
        spoils: tuple[type[BaseException], ...],
        usable: Callable[[C], bool] = lambda _: True,
    ) -> None:
        self._open, self._keeps, self._spoils, self._usable = open, keeps, spoils, usable
        self.forget()

    def forget(self) -> list[C]:
        """In a forked child, which has no right to them: the connections that were kept."""
        inherited: list[C] = getattr(self, "kept", [])
        self._mutex = threading.Lock()
        self._shut = False
        self._loans: weakref.WeakSet[Loan[C]] = weakref.WeakSet()
        self.kept: list[C] = []
        return inherited

    @contextmanager
    def lent(self, most: int | None = None, seconds: float = math.inf) -> Iterator[C]:
        """most  While so many are lent, one of them is waited for, up to so many seconds: then TimeoutError."""
        loan = self._lend(most, time.monotonic() + seconds)
        try:
            connection = self._usable_one(loan)
            yield connection
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, self._spoils) and loan.connection is not None:
                self._give_back(loan, loan.connection)
            elif loan.connection is not None:
                loan.connection.close()
            raise
        else:
            self._give_back(loan, connection)
        finally:
            self._loans.discard(loan)

    def _lend(self, most: int | None, deadline: float) -> Loan[C]:
        while True:
            with self._mutex:
                if not self._shut and (most is None or len(self._loans) < most):
                    loan = Loan(self.kept.pop() if self.kept else None, self.kept)
                    self._loans.add(loan)
                    return loan
            if time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(WAIT_SECONDS)

    def _usable_one(self, loan: Loan[C]) -> C:
        while loan.connection is not None and not self._usable(loan.connection):
            loan.connection.close()
            with self._mutex:
                loan.connection = self.kept.pop() if self.kept else None
        if loan.connection is None:
            loan.connection = self._open()
        return loan.connection

    def _give_back(self, loan: Loan[C], connection: C) -> None:
        """Unless the pool was closed since it was lent."""
        usable = self._usable(connection)
        with self._mutex:
            keep = loan.kept is self.kept and len(self.kept) < self._keeps and usable
            if keep:
                self.kept.append(connection)
            self._loans.discard(loan)
        if not keep:
            connection.close()

    def close(self) -> None:
        """Connections that are lent are closed when they come back."""
        with self._mutex:
            kept, self.kept = self.kept, []
        for connection in kept:
            connection.close()

    @contextmanager
    def emptied(self, seconds: float) -> Iterator[None]:
        """Meanwhile no connection is open, if those that are lent come back in time; new readers wait."""
        try:
            with self._mutex:
                self._shut = True
            deadline = time.monotonic() + seconds
            while self._loans and time.monotonic() < deadline:
                time.sleep(WAIT_SECONDS)
            self.close()
            yield
        finally:
            self._shut = False


class Threads:
    """For work that would block an event loop; started on first use."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.forget()

    def forget(self) -> ThreadPoolExecutor | None:
        """In a forked child, which has none of the threads."""
        inherited = getattr(self, "_executor", None)
        self._mutex = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        return inherited

    def submit(self, work: Callable[[], T]) -> Future[T]:
        with self._mutex:  # so that the executor is not closed between the look at it and its use
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._most, thread_name_prefix="holdfast-store")
            return self._executor.submit(work)

    def close(self) -> None:
        with self._mutex:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)
