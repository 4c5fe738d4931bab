"""Idempotency keys: one job per key within a scope, whoever asks and however often."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, NamedTuple

import msgspec

from holdfast.domain.bounds import INTEGER_MAX, KEY_BYTES_MAX
from holdfast.domain.retry import seconds_of
from holdfast.domain.states import FINAL, State
from holdfast.domain.text import show
from holdfast.errors import SettingError

Part = str | int
Conflict_ = Literal["return", "raise", "replace"]


class Key:
    """`Key("client-7", "req-1")`: the first job enqueued under it is the one that everybody gets.

    scope     "forever": also after the job has ended and was pruned; "active": until it ends; a number of seconds (or a
              timedelta): that long after it was enqueued.
    conflict  "return" gives the first job unchanged, "raise" raises `Conflict`, "replace" cancels the first, unless it has
              ended, and lets the new one have the key.
    failed    "free": a job that failed for good does not keep its key; "hold": it does.
    """

    __slots__ = ("conflict", "failed", "parts", "scope", "text")

    def __init__(
        self,
        *parts: Part,
        scope: Literal["forever", "active"] | float | timedelta = "forever",
        conflict: Conflict_ = "return",
        failed: Literal["free", "hold"] = "free",
    ) -> None:
        self.parts = parts
        self.text = key_text(parts)
        self.scope: Literal["forever", "active"] | float = _scope(scope)
        if conflict not in ("return", "raise", "replace"):
            raise SettingError(f"key conflict {conflict!r} is unknown; use 'return', 'raise' or 'replace'")
        if failed not in ("free", "hold"):
            raise SettingError(f"key failed={failed!r} is unknown; use 'free' or 'hold'")
        self.conflict: Conflict_ = conflict
        self.failed: Literal["free", "hold"] = failed

    def __repr__(self) -> str:
        return f"Key({', '.join(map(repr, self.parts))}, scope={self.scope!r}, conflict={self.conflict!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def key_text(parts: tuple[Part, ...]) -> str:
    """The parts as one JSON array: what the store compares. `("a", "bc")` and `("ab", "c")` stay apart."""
    if not parts:
        raise SettingError("a key needs at least one part, for example Key('client-7', 'req-1')")
    for part in parts:
        if type(part) is not str and type(part) is not int:
            raise SettingError(f"key part {show(part)} is a {type(part).__name__}; use text and whole numbers only")
        if isinstance(part, int) and abs(part) > INTEGER_MAX:
            raise SettingError(f"key part {show(part)} does not fit in 64 bits; use text")
        if isinstance(part, str) and "\0" in part:
            raise SettingError(f"key part {show(part)} holds a NUL; leave it out")
    try:
        encoded = msgspec.json.encode(parts)
    except (UnicodeEncodeError, OverflowError) as error:
        raise SettingError(f"key {show(parts)} cannot be stored ({error}); use valid text and 64-bit numbers") from None
    if len(encoded) > KEY_BYTES_MAX:
        raise SettingError(f"key of {len(encoded)} bytes is over {KEY_BYTES_MAX}; use a hash of the long part")
    return encoded.decode()


def key_of(value: Key | Part | tuple[Part, ...] | list[Part]) -> Key:
    """What a caller may pass where a key is asked for: a Key, one part, or the parts in a row."""
    if isinstance(value, Key):
        return value
    return Key(*value) if isinstance(value, tuple | list) else Key(value)


def _scope(scope: object) -> Literal["forever", "active"] | float:
    if scope == "forever":
        return "forever"
    if scope == "active":
        return "active"
    if isinstance(scope, int | float | timedelta) and not isinstance(scope, bool):
        return seconds_of("key scope", scope, positive=True)
    raise SettingError(f"key scope {scope!r} is unknown; use 'forever', 'active' or a number of seconds")


class Holder(NamedTuple):
    """Who has a key: the columns of `key_holder.sql`. `state` is None while that job is only just being written."""

    seq: int
    id: str
    scope: str
    until: int | None
    failed: str
    ended: str | None
    created_at: int
    task: str
    queue: str
    state: str | None


def holds(holder: Holder, now: int) -> bool:
    """Whether the holder still keeps others from its key."""
    state = holder.ended or holder.state
    if state == State.FAILED and holder.failed == "free":
        return False
    if holder.scope == "active":
        return state is None or State(state) not in FINAL
    if holder.scope == "seconds":
        return holder.until is not None and now < holder.until
    return True
