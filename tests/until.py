"""Waiting for what other threads and processes do: as long as it takes, up to a bound that only a failure reaches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE: Final = 30.0
T = TypeVar("T")


def until(condition: Callable[[], T], what: str, seconds: float = PATIENCE) -> T:
    """What the condition gives as soon as it gives anything; fails with `what` when the time is up."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        threading.Event().wait(0.01)
    return found
