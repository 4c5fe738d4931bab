"""What somebody wants of a queue: bodies of `PATCH /api/queues/{name}` and of a pause."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.domain.bounds import REASON_CHARS_MAX, SECONDS_MAX
from holdfast.domain.limits import COUNT_MAX, RATES_MAX, Breaker, Rate
from holdfast.errors import SettingError
from holdfast.web.new_job import Seconds, read_body
from holdfast.web.problem import misfit

Count = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
Starts = Annotated[float, Meta(gt=0, le=COUNT_MAX)]
SomeSeconds = Annotated[float, Meta(gt=0, le=SECONDS_MAX)]


class RateWanted(msgspec.Struct, forbid_unknown_fields=True):
    """So many starts per so many seconds."""

    starts: Starts
    per: SomeSeconds = 1.0
    burst: Count | None = None


class BreakerWanted(msgspec.Struct, forbid_unknown_fields=True):
    """Runs of `after` different jobs that fail in a row stop the queue for `base` seconds, then for longer, up to `cap`."""

    after: Count = 2
    base: SomeSeconds = 15.0
    cap: SomeSeconds = 300.0


class LimitsWanted(msgspec.Struct, forbid_unknown_fields=True):
    """Limits to be changed live. null takes one away; what is left out stays."""

    max_depth: Count | UnsetType | None = UNSET
    concurrency: Count | UnsetType | None = UNSET
    gap: Seconds | UnsetType | None = UNSET
    rate: RateWanted | Annotated[list[RateWanted], Meta(max_length=RATES_MAX)] | UnsetType | None = UNSET
    breaker: BreakerWanted | UnsetType | None = UNSET


class PauseWanted(msgspec.Struct, forbid_unknown_fields=True):
    """For how long, and why; both may be left out."""

    seconds: SomeSeconds | None = None
    reason: Annotated[str, Meta(max_length=REASON_CHARS_MAX)] = ""


_decode_limits: Final = msgspec.json.Decoder(LimitsWanted).decode
_decode_pause: Final = msgspec.json.Decoder(PauseWanted).decode


def read_limits(body: bytes) -> dict[str, Any]:
    """The options of `app.change_queue` that this body gives."""
    wanted = read_body(_decode_limits, body)
    options: dict[str, Any] = {}
    for name in wanted.__struct_fields__:
        value = getattr(wanted, name)
        if value is not UNSET:
            try:
                options[name] = _option(value)
            except SettingError as error:
                raise misfit(f"/{name}", str(error)) from None
    if not options:
        raise misfit("", 'no limit is given; send for example {"concurrency": 2}')
    return options


def read_pause(body: bytes) -> PauseWanted:
    """The body may be left out."""
    return read_body(_decode_pause, body or b"{}")


def _option(value: Any) -> Any:
    if isinstance(value, RateWanted):
        return Rate(value.starts, value.per, value.burst)
    if isinstance(value, BreakerWanted):
        return Breaker(value.after, value.base, value.cap)
    return tuple(map(_option, value)) if isinstance(value, list) else value
