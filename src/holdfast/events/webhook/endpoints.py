"""Manners towards those who are called: only some calls at a time to one endpoint, and none while it is out of order.

For one process: what others do is not known here, and need not be.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

AT_A_TIME: Final = 4
FAILURES_MAX: Final = 5
"""So many calls in a row without an answer, and the endpoint counts as out of order."""
REST_SECONDS: Final = 30.0
"""How long it is left alone then; afterwards one call finds out how it is."""
_KNOWN_MAX: Final = 1_000
_SHORTEST_SECONDS: Final = 0.05


class Endpoint:
    __slots__ = ("active", "failures", "next_at", "rests_until", "seconds")

    def __init__(self) -> None:
        self.active = self.failures = 0
        self.next_at = self.rests_until = 0.0
        self.seconds = 1.0
        """How long a call takes, of late."""


class Resting(Exception):
    """It has not answered for a while, and is left alone."""


class Endpoints:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, Endpoint] = {}

    def enter(self, name: str, *, urgent: bool = False) -> float:
        """0: go, and `leave` afterwards. Else it is crowded: come back in so many seconds, which are others for each that asks.

        urgent  it is the last try: also where the endpoint is out of order.
        """
        now = self._clock()
        with self._lock:
            endpoint = self._endpoint(name)
            if endpoint.rests_until > now and not urgent:
                raise Resting(f"{name} was not called: it gave no answer {endpoint.failures} times in a row, and is left alone")
            if endpoint.active < AT_A_TIME:
                endpoint.active += 1
                if endpoint.failures >= FAILURES_MAX:
                    endpoint.rests_until = now + REST_SECONDS  # for all but this one
                return 0.0
            # Ten thousand that wait for one endpoint shall not all come back every second: each gets a turn of its own.
            endpoint.next_at = max(now, endpoint.next_at) + endpoint.seconds / AT_A_TIME
            return endpoint.next_at - now + endpoint.seconds

    def leave(self, name: str, seconds: float, answered: bool) -> None:
        now = self._clock()
        with self._lock:
            endpoint = self._endpoint(name)
            endpoint.active = max(0, endpoint.active - 1)
            endpoint.seconds += 0.3 * (max(_SHORTEST_SECONDS, seconds) - endpoint.seconds)
            endpoint.failures = 0 if answered else endpoint.failures + 1
            endpoint.rests_until = now + REST_SECONDS if endpoint.failures >= FAILURES_MAX else 0.0

    def _endpoint(self, name: str) -> Endpoint:
        endpoint = self._known.get(name)
        if endpoint is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known = {other: each for other, each in self._known.items() if each.active}
            endpoint = self._known[name] = Endpoint()
        return endpoint
