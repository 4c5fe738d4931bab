"""What jobs metered, summed: the days that are asked for, and one sum."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final

import msgspec

from holdfast.errors import SettingError

METER_DAYS: Final = 30
"""How many days are read, today included, unless it is said since when."""


class Meter(msgspec.Struct, frozen=True):
    """What the jobs of one task in one queue metered under one name (`ctx.meter(tokens=1800)`) on one day, in UTC."""

    day: date
    queue: str
    task: str
    name: str
    amount: float


def days_of(now: int, since: date | None, until: date | None) -> tuple[str, str]:
    """The first and the last day that are read, as they are stored; `now` in wall microseconds."""
    today = datetime.fromtimestamp(now / 1e6, UTC).date()
    for name, day in (("since", since), ("until", until)):
        if day is not None and (not isinstance(day, date) or isinstance(day, datetime)):
            raise SettingError(f"{name}={day!r} is not a day; use a date, for example date(2030, 1, 31)")
    last = until or today
    first = since or date.fromordinal(max(1, last.toordinal() - METER_DAYS + 1))
    return first.isoformat(), last.isoformat()
