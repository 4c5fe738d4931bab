"""Every error that Holdfast raises on purpose.

A message says what was wrong, with the value, and what to do about it, in one line: the CLI prints it as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.domain.job import Job


class HoldfastError(Exception):
    """The parent of all errors here."""


class PayloadError(HoldfastError, ValueError):
    """A value cannot be stored: not JSON, too large, or not what the task's signature asks for.

    `.argument` is the parameter that it is about, if it is about one, and `.place` where in its value the fault is.
    """

    def __init__(self, message: str, argument: str | None = None, place: str = "") -> None:
        super().__init__(message)
        self.argument, self.place = argument, place


class UnknownTask(HoldfastError, LookupError):
    """No task of that name is registered with this app."""


class JobNotFound(HoldfastError, LookupError):
    """There is no job with that id (any more)."""


class IllegalMove(HoldfastError):
    """The job's state does not allow this verb."""


class LeaseLost(HoldfastError):
    """The job was taken from this holder: its token is not the current one, and nothing was written."""


class Conflict(HoldfastError):
    """The key (or the caller-chosen id) is held by another job: see `.job`."""

    def __init__(self, message: str, job: Job | None = None) -> None:
        super().__init__(message)
        self.job = job


class Changed(Conflict):
    """The job has moved on, or the queue was changed, since the caller looked, and the caller asked to act only if not."""


class QueueFull(HoldfastError):
    """The queue is at its bound; `.retry_after` says in how many seconds it is worth another try.

    Of an `enqueue_many`, `.accepted` are the jobs that there was room for: the others can follow from there.
    """

    def __init__(
        self, message: str, retry_after: float, *, depth: int = 0, max_depth: int = 0, accepted: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.retry_after, self.depth, self.max_depth, self.accepted = retry_after, depth, max_depth, accepted


class StoreUnavailable(HoldfastError):
    """The database cannot be opened, read or written now. Nothing was acknowledged."""


class SettingError(HoldfastError, ValueError):
    """A setting, an option or an argument to Holdfast itself has a value that makes no sense."""


def check_platform(platform: str) -> None:
    """Called when the package is imported, before anything that this platform lacks is."""
    if platform in ("win32", "cygwin"):
        raise ImportError("Holdfast does not run on Windows: it needs fork, POSIX signals and locks; use WSL 2 or a container")


check_platform(sys.platform)
