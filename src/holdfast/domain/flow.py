"""What a queue lets start now, and why not: pure decisions, for the claim, for `explain` and for simulations alike.

A `Flow` is one queue at one moment: its limits, what is remembered of it, and what runs. `blocks` lists every reason why no job
may start; a job may start when there is none. Each start and each end gives the next `Memory`. Times are wall microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from holdfast.domain.limits import NEVER, Limits, Rate

SUCCESSES: Final = frozenset({"succeeded"})
FAILURES: Final = frozenset({"failed", "backed_off", "expired"})
"""Events that end a run, and what they mean for a breaker; every other end says nothing about what the job calls."""


SKEW_MICROS: Final = 5 * 1_000_000
"""A clock that is behind by less is another process's, which measures the server's time a little otherwise."""


class Memory(msgspec.Struct, frozen=True):
    """What a queue remembers from claim to claim."""

    seen_at: int = 0
    """The latest time at which it was looked at."""
    ended_at: int = 0
    """When a run ended last."""
    next_at: dict[int, int] = {}
    """By the interval of a rate: when the next start would be due if starts came evenly. So a rate keeps its own, whatever other
    rates come and go."""
    failed: tuple[int, ...] = ()
    """The jobs whose runs failed since the last success, each once, the last few."""
    opened: int = 0
    """How often the breaker has opened since the last success."""
    open_until: int = 0
    """0: closed. After this time one job may be tried."""
    open_for: int = 0
    """How long that was to be, in microseconds."""
    probe: int | None = None
    """The job that is being tried."""


class End(NamedTuple):
    """A run that ended: the job's number, the event that says how, and when."""

    seq: int
    kind: str
    at: int
    stops: int = 0
    """Microseconds for which the task asked to stop the whole queue."""


class Pause(NamedTuple):
    """A person stopped the queue."""

    until: int
    """`NEVER`: until somebody resumes it."""


class Block(NamedTuple):
    """A reason why no job of the queue may start."""

    kind: str
    """paused, breaker, probe, concurrency, gap or rate."""
    until: int
    """When it ends by itself; `NEVER`: with the end of a run, or by somebody's hand."""


class Flow:
    def __init__(self, limits: Limits, memory: Memory, now: int, running: int, pause: Pause | None = None) -> None:
        # Between processes whose clocks differ, time stands still; to go back with each of them would give starts away.
        self.now = memory.seen_at if 0 < memory.seen_at - now < SKEW_MICROS else now
        self.limits, self.running, self.pause = limits, running, pause
        self.memory = _healed(memory, limits, self.now)

    # Starts

    def blocks(self) -> list[Block]:
        found = (self._paused(), self._stopped(), self._full(), self._too_soon(), *self._too_fast())
        return [block for block in found if block is not None]

    def take(self, seq: int) -> bool:
        """Whether this job starts now; it then counts."""
        if self.blocks():
            return False
        memory = self.memory
        probe = seq if memory.open_until else None
        next_at = {interval: max(self.now, at) + interval for interval, at in memory.next_at.items()}
        self.memory = msgspec.structs.replace(memory, next_at=next_at, probe=probe)
        self.running += 1
        return True

    @property
    def closed_until(self) -> int:
        """Before this time no job may start, unless a run ends or the limits change. 0: one may start now."""
        return max((block.until for block in self.blocks()), default=0)

    def _paused(self) -> Block | None:
        until = NEVER if self.limits.paused else 0 if self.pause is None else self.pause.until
        return Block("paused", until) if until > self.now else None

    def _stopped(self) -> Block | None:
        if self.memory.open_until > self.now:
            return Block("breaker", self.memory.open_until)
        # If nothing runs, the job that was tried has ended, whatever became of it.
        return Block("probe", NEVER) if self.memory.probe is not None and self.running else None

    def _full(self) -> Block | None:
        most = self.limits.concurrency
        return Block("concurrency", NEVER) if most is not None and self.running >= most else None

    def _too_soon(self) -> Block | None:
        until = self.memory.ended_at + int(self.limits.gap * 1e6)
        return Block("gap", until) if self.limits.gap and until > self.now else None

    def _too_fast(self) -> Iterable[Block]:
        for rate in self.limits.rates:
            until = self.memory.next_at[rate.interval] - (rate.at_once - 1) * rate.interval
            if until > self.now:
                yield Block("rate", until)

    # Ends

    def end(self, ends: Iterable[End]) -> None:
        """Runs that ended, in any order, and are not counted as running any more."""
        for each in sorted(ends, key=lambda end: (end.at, end.seq)):
            self.memory = self._after(each)

    def _after(self, end: End) -> Memory:
        at = min(end.at, self.now)
        tried, is_open = self.memory.probe == end.seq, self.memory.open_until > 0
        memory = msgspec.structs.replace(
            self.memory, ended_at=max(self.memory.ended_at, at), probe=None if tried else self.memory.probe
        )
        if end.stops:
            until = max(memory.open_until, at + end.stops)
            return msgspec.structs.replace(memory, open_until=until, open_for=max(memory.open_for, end.stops))
        if is_open and not tried:
            return memory  # a run that began before it opened says nothing new
        if end.kind in SUCCESSES:
            return msgspec.structs.replace(memory, failed=(), opened=0, open_until=0, open_for=0)
        return self._after_failure(memory, end.seq, at, tried) if end.kind in FAILURES else memory

    def _after_failure(self, memory: Memory, seq: int, at: int, tried: bool) -> Memory:
        breaker = self.limits.breaker
        if breaker is None:
            return memory
        failed = (*(other for other in memory.failed if other != seq), seq)[-breaker.after :]
        if not tried and len(failed) < breaker.after:
            return msgspec.structs.replace(memory, failed=failed)
        pause = breaker.pause(memory.opened + 1)
        return msgspec.structs.replace(memory, failed=failed, opened=memory.opened + 1, open_until=at + pause, open_for=pause)


def _healed(memory: Memory, limits: Limits, now: int) -> Memory:
    """Whatever was stored: other limits than now, or times beyond what they could have set (the clock was set back)."""
    if limits.breaker is None and memory.opened:  # it was taken away while it was open
        memory = msgspec.structs.replace(memory, failed=(), opened=0, open_until=0, open_for=0, probe=None)
    return msgspec.structs.replace(
        memory,
        seen_at=now,
        next_at=dict(_next_at(memory, limits.rates, now)),
        ended_at=min(memory.ended_at, now),
        open_until=min(memory.open_until, now + memory.open_for),
    )


def _next_at(memory: Memory, rates: Iterable[Rate], now: int) -> Iterable[tuple[int, int]]:
    """A rate that is new begins where the others are, so that to change a rate gives no start away."""
    others = max(memory.next_at.values(), default=0)
    for rate in rates:
        yield rate.interval, min(memory.next_at.get(rate.interval, others), now + rate.at_once * rate.interval)
