"""Limits as people type and read them: `concurrency=2 rate=60/min gap=10 breaker=2,15,300`; `none` takes one away."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from holdfast.cli.times import seconds_in
from holdfast.cli.trouble import Trouble, usage
from holdfast.domain.limits import Breaker, Limits, Rate
from holdfast.domain.sanitize import clean

NONE: Final = "none"
_PERS: Final = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "hour": 3600.0, "d": 86_400.0, "day": 86_400.0}
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)/([0-9.]*[a-z]+)(?::(\d+))?", re.IGNORECASE)


def options_in(words: Iterable[str]) -> dict[str, Any]:
    """`concurrency=2 rate=60/min` as the options of `app.change_queue`."""
    options: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise usage(f"{word!r} sets no limit; use NAME=VALUE, for example concurrency=2")
        read = _READERS.get(name)
        if read is None:
            raise usage(f"a queue has no limit {name!r}; use {', '.join(_READERS)}")
        if name in options:
            raise usage(f"{name} is given twice; give it once")
        options[name] = None if text.strip().lower() == NONE else read(text.strip())
    return options


def limits_text(limits: Limits) -> str:
    """All limits, in the words that set them."""
    pairs = {
        "max_depth": limits.max_depth,
        "concurrency": limits.concurrency,
        "rate": ",".join(map(rate_text, limits.rates)),
        "gap": _seconds_text(limits.gap),
        "breaker": breaker_text(limits.breaker),
        "paused": "declared" if limits.paused else None,
    }
    return " ".join(f"{name}={value}" for name, value in pairs.items() if value) or "no limits"


def detail_text(name: str, value: Any) -> str:
    """A limit as an entry of a queue's log has it."""
    if value is None or (name == "gap" and not value):
        return f"{name}={NONE}"
    if name == "rate":
        return f"rate={','.join(rate_text(msgspec.convert(each, Rate)) for each in value)}"
    if name == "breaker":
        return f"breaker={breaker_text(msgspec.convert(value, Breaker))}"
    return f"{clean(name)}={clean(value) if isinstance(value, str) else f'{value:g}'}"


def pace_text(limits: Limits) -> str:
    """How fast jobs may start."""
    gap = f"gap {_seconds_text(limits.gap)}" if limits.gap else ""
    return ", ".join(filter(None, [*map(rate_text, limits.rates), gap]))


def rate_text(rate: Rate) -> str:
    assert isinstance(rate.per, float)
    units = {1.0: "s", 60.0: "min", 3600.0: "h", 86_400.0: "day"}
    return f"{rate.starts:g}/{units.get(rate.per) or f'{rate.per:g}s'}{f':{rate.burst}' if rate.burst else ''}"


def breaker_text(breaker: Breaker | None) -> str:
    return "" if breaker is None else f"{breaker.after},{breaker.base:g},{breaker.cap:g}"


def _seconds_text(seconds: float) -> str:
    return f"{seconds:g}s" if seconds else ""


def _count(name: str) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit():
            raise usage(f"{name} {text!r} is not a whole number; use for example {name}=2, or {name}={NONE} for no limit")
        return int(text)

    return read


def _rates(text: str) -> tuple[Rate, ...]:
    return tuple(_rate(each.strip()) for each in text.split(","))


def _rate(text: str) -> Rate:
    wrong = usage(f"rate {text!r} is no rate; use for example rate=60/min, rate=5/s, or rate=60/min:10 for bursts of 10")
    found = _RATE.fullmatch(text)
    if found is None:
        raise wrong
    starts, unit, burst = found.groups()
    try:
        per = _PERS.get(unit.lower()) or seconds_in("rate", unit)
    except Trouble:
        raise wrong from None
    return Rate(float(starts), per, None if burst is None else int(burst))


def _breaker(text: str) -> Breaker:
    after, *seconds = text.split(",")
    if not after.strip().isdigit() or len(seconds) > 2:
        raise usage(f"breaker {text!r} is no breaker; use AFTER,BASE,CAP, for example breaker=2,15,300, or breaker={NONE}")
    return Breaker(int(after), *(seconds_in("breaker", each) for each in seconds))


_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "concurrency": _count("concurrency"),
    "rate": _rates,
    "gap": lambda text: seconds_in("gap", text),
    "max_depth": _count("max_depth"),
    "breaker": _breaker,
}
