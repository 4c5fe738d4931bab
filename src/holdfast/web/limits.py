"""How much one caller may ask: a bucket of tokens that refills, and a count of streams. In memory, and bounded itself."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from holdfast.store.clock import Clock
from holdfast.web.problem import Problem

BUCKETS_MAX: Final = 10_000


class Buckets:
    """One bucket per name. Which of too many is forgotten: the one that was not used for longest, and so is the fullest."""

    def __init__(self, per_second: float, burst: float, clock: Clock) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._left: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def take(self, name: str) -> None:
        """One token, or a 429 that says when there is the next."""
        self.check(name)
        left, tick = self._level(name)
        self._left[name] = (left - 1, tick)
        self._left.move_to_end(name)
        if len(self._left) > BUCKETS_MAX:
            self._left.popitem(last=False)

    def check(self, name: str) -> None:
        """The same without taking it."""
        left, _ = self._level(name)
        if left < 1:
            wait = max(1, math.ceil((1 - left) / self._per_second))
            raise Problem(429, f"too many requests; try again in {wait} s", headers={"retry-after": str(wait)})

    def _level(self, name: str) -> tuple[float, int]:
        now = self._clock.tick()
        left, then = self._left.get(name, (self._burst, now))
        return min(self._burst, left + max(0, now - then) / 1e6 * self._per_second), now

    def __len__(self) -> int:
        return len(self._left)


class Streams:
    """How many streams each caller has open."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def enter(self, name: str) -> None:
        if self._open[name] >= self._most:
            raise Problem(
                429, f"{self._most} streams are open, which is the most; close some of them", headers={"retry-after": "5"}
            )
        self._open[name] += 1

    def leave(self, name: str) -> None:
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]

    def __len__(self) -> int:
        return sum(self._open.values())


def neighbourhood(address: str) -> str:
    """Who is one and the same for a limit: of IPv6, all that one customer has."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped) if parsed.ipv4_mapped else str(ip_network((parsed, 64), strict=False))
