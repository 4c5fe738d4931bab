"""What stores do when their process forks: multiprocessing, a prefork server, a daemon."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final

WAIT_SECONDS: Final = 5.0
"""How long a fork waits for transactions and reads of other threads. If they do not end, the child refuses to use that store."""


class ForkAware:
    """A store that must act on a fork, as long as it exists."""

    def __init__(self) -> None:
        _stores.add(self)

    def before_fork(self) -> None:
        """Let go of what a child must not inherit."""

    def after_fork(self) -> None:
        """In the parent: go on."""

    def after_fork_in_child(self) -> None:
        """The parent's threads do not exist here; its connections must neither be used nor closed."""


_stores: weakref.WeakSet[ForkAware] = weakref.WeakSet()
_forking = threading.Lock()


def _before() -> None:
    _forking.acquire(timeout=WAIT_SECONDS)  # one fork at a time
    for store in list(_stores):
        store.before_fork()


def _after() -> None:
    for store in list(_stores):
        store.after_fork()
    if _forking.locked():
        _forking.release()


def _after_in_child() -> None:
    global _forking
    _forking = threading.Lock()
    for store in list(_stores):
        store.after_fork_in_child()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
