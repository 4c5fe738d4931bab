"""What bounds a queue: how many jobs it accepts, how many of them run at once, and how fast they start.

All of it is declared (`app.queue(...)`), kept in the store and read when a claim decides: no job carries a copy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from holdfast.domain.bounds import INTEGER_MAX
from holdfast.domain.retry import Duration, seconds_of
from holdfast.domain.text import show
from holdfast.errors import SettingError

COUNT_MAX: Final = 1_000_000_000
RATES_MAX: Final = 4
NEVER: Final = INTEGER_MAX
"""A time that does not come by itself."""


class Rate(msgspec.Struct, frozen=True):
    """`Rate(60, per=60)`: sixty starts a minute, evenly, one each second.

    burst  How many may start at once after a pause; one, unless given. In any t seconds at most burst + t * starts / per start.
    """

    starts: float
    per: float | timedelta = 1.0
    burst: int | None = None

    def __post_init__(self) -> None:
        _number("rate", self.starts)
        msgspec.structs.force_setattr(self, "per", seconds_of("rate per", self.per, positive=True))
        if self.burst is not None:
            count_of("rate burst", self.burst)

    @property
    def at_once(self) -> int:
        """How many may start at once after a pause."""
        return self.burst or 1

    @property
    def interval(self) -> int:
        """Microseconds from one start to the next."""
        assert isinstance(self.per, float)
        return max(1, math.ceil(self.per * 1e6 / self.starts))


class Breaker(msgspec.Struct, frozen=True):
    """`Breaker(after=2, base=15, cap=300)`: runs of so many different jobs that fail in a row stop the queue for `base` seconds.

    Then one job is tried. If that fails too, the queue stops for twice as long, up to `cap`; the first success starts it again.
    """

    after: int = 2
    base: float | timedelta = 15.0
    cap: float | timedelta = 300.0

    def __post_init__(self) -> None:
        count_of("breaker after", self.after)
        base = seconds_of("breaker base", self.base, positive=True)
        cap = seconds_of("breaker cap", self.cap, positive=True)
        if cap < base:
            raise SettingError(f"breaker cap {cap:g} is less than its base {base:g}; give a cap of at least the base")
        msgspec.structs.force_setattr(self, "base", base)
        msgspec.structs.force_setattr(self, "cap", cap)

    def pause(self, opened: int) -> int:
        """Microseconds for which it stays open, when it has opened so many times in a row."""
        assert isinstance(self.base, float)
        assert isinstance(self.cap, float)
        return int(min(self.cap, self.base * 2.0 ** min(opened - 1, 60)) * 1e6)


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of one queue. None: there is none."""

    max_depth: int | None = None
    """Jobs accepted and not yet started; a new one beyond it is refused."""
    concurrency: int | None = None
    """Jobs that run at once, over all workers."""
    gap: float = 0.0
    """Seconds from the end of one run to the next start."""
    rates: tuple[Rate, ...] = ()
    """Starts per time; all of them hold."""
    breaker: Breaker | None = None
    paused: bool = False
    """Declared so: until it is resumed."""

    @property
    def is_bounded(self) -> bool:
        return self.max_depth is not None

    @property
    def governs_claims(self) -> bool:
        """Whether a claim has to look at the queue before it takes a job from it."""
        return self.paused or self.concurrency is not None or self.gap > 0 or bool(self.rates) or self.breaker is not None


NO_LIMITS: Final = Limits()
_decode = msgspec.json.Decoder(dict[str, Any]).decode
OPTIONS: Final = ("max_depth", "concurrency", "gap", "rate", "breaker", "paused")
"""What `app.queue` takes, as users write it."""


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `app.queue`, as fields of `Limits` that can be stored; a value that makes no sense is refused."""
    fields: dict[str, Any] = {}
    for name, value in options.items():
        check = _CHECKS.get(name)
        if check is None:
            raise SettingError(f"a queue has no option {show(name)}; use {', '.join(OPTIONS)}")
        fields["rates" if name == "rate" else name] = check(value)
    return fields


def limits_of(declared: str | None, live: str | None) -> Limits:
    """What holds: what was changed live over what is declared. Both are stored as JSON."""
    fields = {**(_decode(declared) if declared else {}), **(_decode(live) if live else {})}
    return msgspec.convert(fields, Limits) if fields else NO_LIMITS


def options_of(stored: str | None) -> dict[str, Any] | None:
    """What is stored, by the names that users write; a value of None: the limit was taken away."""
    if stored is None:
        return None
    fields = {"rate" if name == "rates" else name: value for name, value in _decode(stored).items()}
    return {name: value or None if name in ("rate", "gap") else value for name, value in fields.items()}


def shown(limits: Limits) -> dict[str, Any]:
    """Every limit by the name that users write; None: there is none."""
    return {
        "max_depth": limits.max_depth,
        "concurrency": limits.concurrency,
        "gap": limits.gap or None,
        "rate": [msgspec.to_builtins(rate) for rate in limits.rates] or None,
        "breaker": msgspec.to_builtins(limits.breaker),
        "paused": limits.paused,
    }


def count_of(what: str, count: int) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= COUNT_MAX:
        raise SettingError(f"{what} {show(count)} must be a whole number from 1 to {COUNT_MAX}; leave it out for none")
    return count


def _number(what: str, number: float) -> float:
    fine = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
    if not fine or not 0 < number <= COUNT_MAX:
        raise SettingError(f"{what} {show(number)} must be a number above 0, at most {COUNT_MAX}")
    return float(number)


def _maybe_count(what: str) -> Any:
    return lambda count: None if count is None else count_of(what, count)


def _rates(rate: Rate | tuple[Rate, ...] | list[Rate] | None) -> tuple[Rate, ...]:
    rates = () if rate is None else (rate,) if isinstance(rate, Rate) else tuple(rate) if isinstance(rate, list | tuple) else None
    if rates is None or not all(isinstance(each, Rate) for each in rates):
        raise SettingError(f"rate={show(rate)} is no Rate; use for example rate=Rate(60, per=60)")
    if len(rates) > RATES_MAX:
        raise SettingError(f"rate has {len(rates)} entries; at most {RATES_MAX} can hold at once")
    return rates


def _breaker(breaker: Breaker | None) -> Breaker | None:
    if breaker is not None and not isinstance(breaker, Breaker):
        raise SettingError(f"breaker={show(breaker)} is no Breaker; use for example breaker=Breaker(after=2, base=15, cap=300)")
    return breaker


def _gap(gap: Duration | None) -> float:
    return 0.0 if gap is None else seconds_of("gap", gap)


def _flag(flag: bool) -> bool:
    if not isinstance(flag, bool):
        raise SettingError(f"paused={show(flag)} must be True or False")
    return flag


_CHECKS: Final[dict[str, Any]] = {
    "max_depth": _maybe_count("max_depth"),
    "concurrency": _maybe_count("concurrency"),
    "gap": _gap,
    "rate": _rates,
    "breaker": _breaker,
    "paused": _flag,
}

__all__ = ["NEVER", "NO_LIMITS", "OPTIONS", "Breaker", "Limits", "Rate", "checked", "limits_of", "options_of", "shown"]
