"""Times as people type and read them: 30s, 5m, 2h, 7d."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from holdfast.cli.trouble import usage

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.IGNORECASE)
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")


def seconds_in(flag: str, text: str) -> float:
    """`90`, `30s`, `5m`, `1h30m`, `7d` as seconds."""
    plain = text.strip()
    if _NUMBER.fullmatch(plain):
        return float(plain)
    if not _WHOLE.fullmatch(plain):
        raise usage(f"{flag} {text!r} is not a duration; use for example 30s, 5m, 2h or 7d")
    return sum(float(amount) * _UNITS[unit.lower()] for amount, unit in _PART.findall(plain))


def age_in(flag: str, text: str) -> float:
    """As `seconds_in`, but with its unit: for what cannot be undone, 7 must not mean seconds to one and days to another."""
    plain = text.strip()
    if _NUMBER.fullmatch(plain):
        raise usage(f"{flag} {text!r} has no unit; use {plain}d for days or {plain}s for seconds")
    return seconds_in(flag, text)


def moment_in(flag: str, text: str, *, needs_unit: bool = False) -> datetime | float:
    """A duration from now, or an ISO time that says its timezone."""
    if needs_unit and _NUMBER.fullmatch(text.strip()):
        return age_in(flag, text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        moment = None
    if moment is None or _NUMBER.fullmatch(text.strip()):
        try:
            return seconds_in(flag, text)
        except Exception:
            raise usage(f"{flag} {text!r} is no time; use for example 10m or 2030-01-31T09:00Z") from None
    if moment.tzinfo is None:
        raise usage(f"{flag} {text!r} has no timezone; add Z for UTC, or an offset such as +02:00")
    return moment


def span(seconds: float) -> str:
    """A duration in a few characters: 35ms, 0.4s, 12s, 5m, 3h, 6d."""
    if seconds < 0.0995:
        return f"{max(seconds, 0.0) * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    for unit, size, limit in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172_800)):
        if seconds < limit:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds / 86_400:.0f}d"


def age(moment: datetime, now: datetime | None = None) -> float:
    return ((now or datetime.now(UTC)) - moment).total_seconds()


def since(moment: datetime) -> str:
    """`5m ago`, or `in 5m`."""
    seconds = age(moment)
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def clock(moment: datetime) -> str:
    """The time of day, here."""
    return f"{moment.astimezone():%H:%M:%S}"


def calendar(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S %Z}"
