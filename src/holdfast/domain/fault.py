"""The slow pass: where in a value the fault is, in one line that says what to do about it.

Nothing here is called for plain data: it is for values that may be refused, and for JSON that did not fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import isfinite, isnan
from pathlib import PurePath
from types import NoneType
from typing import Any, Final, NamedTuple, NoReturn
from uuid import UUID

import msgspec

from holdfast.domain.bounds import INTEGER_MAX, INTEGER_MIN, JSON_DEPTH_MAX
from holdfast.domain.simple import JSON_KINDS, PARENTS, covered, dump, from_json, is_model, to_json
from holdfast.domain.text import SHOWN_CHARS_MAX, name_of, shorten, show
from holdfast.errors import PayloadError

_KEYS: Final = frozenset({str, int, float, date, datetime, time, timedelta, UUID, Decimal, bytes})
_SCALARS: Final = (*(kind for kind, _ in PARENTS), bool, NoneType, bytes, bytearray, memoryview)
_MISFIT: Final = re.compile(r"(.*?)(?: - at (`key` in )?`\$(.*)`)?", re.DOTALL)
_GOT: Final = re.compile(r"got `(\w+)`$")
_STEP: Final = re.compile(r"\.[^.\[]+|\[\.\.\.\]|\[\d+\]")
_MODEL_PLACE: Final = re.compile(r"((?:\.\w+|\[\d+\])+): ")


def inspect(value: object, what: str) -> None:
    """Raise the PayloadError that says where in `value` the first fault is, if there is one."""
    _inspect(value, _Path(None, what, value, 0))


def misfit(error: Exception, text: str) -> PayloadError:
    """What decoding `text` came to grief on: the place, the value there, and what was expected."""
    if not isinstance(error, msgspec.ValidationError):
        cause = "malformed JSON" if isinstance(error, msgspec.DecodeError) else name_of(type(error))
        return PayloadError(f"{cause}: {show(error)}")
    parts = _MISFIT.fullmatch(str(error))
    message, in_key, place = parts.groups() if parts else (str(error), None, None)
    own_words = isinstance(error.__cause__, ValueError)  # a model's: they name the value already
    found = None if in_key or own_words else _offender(text, place or "", _GOT.search(message))
    inner = _MODEL_PLACE.match(message) if own_words else None
    message = " ".join(message.replace("`", "").split())
    message = message[:1].lower() + message[1:] + (f" ({show(found[0])})" if found else "")
    where = f"at {place}: " if place else ""
    place = (place or "") + (inner[1] if inner else "")
    return PayloadError(f"{where}a key: {message}" if in_key else f"{where}{message}", place=place)


def _offender(text: str, place: str, got: re.Match[str] | None) -> tuple[object] | None:
    """The value a message is about. msgspec writes any key of a dict as [...]; as it reads in order and stops
    at the first misfit, that is the first value there of the kind it got."""
    steps = _STEP.findall(place)
    if "".join(steps) != place or ("[...]" in steps and not got):
        return None
    try:
        values = _matches(from_json(text), steps)
        return next((value,) for value in values if not got or JSON_KINDS[type(value)] == got[1])
    except (msgspec.DecodeError, StopIteration):  # such as 1e400, which is no value at all
        return None


def _matches(value: Any, steps: list[str]) -> Iterator[object]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        children = list(value.values()) if step == "[...]" else [value[key] for key in [step[1:]] if key in value]
    elif isinstance(value, list):
        children = value if step == "[...]" else value[int(step[1:-1]) :][:1] if step[0] == "[" else []
    else:
        children = []
    for child in children:
        yield from _matches(child, rest)


def model_fault(error: Exception) -> str:
    """The first of the faults that a pydantic model found."""
    listed = error.errors() if hasattr(error, "errors") else []
    if not listed:
        return show(error)
    place = "".join(_step(step) for step in listed[0]["loc"])
    return f"{place}: " * bool(place) + f"{listed[0]['msg']}, got {show(listed[0]['input'])}"


class _Path(NamedTuple):
    """Where the slow pass is: a chain back to the root, whose step is what the root is called."""

    parent: _Path | None
    step: object
    value: object
    depth: int

    def chain(self) -> list[_Path]:
        links = [self]
        while (parent := links[-1].parent) is not None:
            links.append(parent)
        return links[::-1]

    def refuse(self, fault: str) -> NoReturn:
        root, *steps = self.chain()
        place = shorten("".join(_step(link.step) for link in steps), 2 * SHOWN_CHARS_MAX)
        raise PayloadError(f"{root.step}: at {place}: {fault}" if place else f"{root.step}: {fault}", place=place)


def _step(step: object) -> str:
    return f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{show(step)}]"


def _inspect(value: object, path: _Path) -> None:
    if isinstance(value, Enum):
        return _inspect(value.value, path)
    if is_model(type(value)):
        return _inspect_model(value, path)
    children = _children(value)
    if children is None:
        if fault := _fault(value):
            path.refuse(fault)
        return None
    if path.depth == JSON_DEPTH_MAX:
        _refuse_depth(path)
    if isinstance(value, dict):
        _inspect_keys(value, path)
    for step, child in children:
        _inspect(child, _Path(path, step, child, path.depth + 1))
    return None


def _inspect_model(model: Any, path: _Path) -> None:
    plain = dump(model)
    way = covered(plain, model.model_dump(by_alias=True, round_trip=True))
    if way is not None:
        for step in way:
            path = _Path(path, step, None, path.depth + 1)
        path.refuse("pydantic writes a secret as stars; declare this as Annotated[str, Secret()], which only the task is shown")
    _inspect(plain, path)


def _children(value: Any) -> Iterable[tuple[object, object]] | None:
    kind = type(value)
    if isinstance(value, dict):
        return value.items()
    if isinstance(value, list | tuple | set | frozenset):
        return enumerate(value)
    if isinstance(value, msgspec.Struct):
        names: Iterable[str] = value.__struct_fields__
    elif hasattr(kind, "__dataclass_fields__"):
        names = (field.name for field in fields(value))
    elif hasattr(kind, "__attrs_attrs__"):
        names = (attribute.name for attribute in kind.__attrs_attrs__)
    else:
        return None
    pairs = ((name, getattr(value, name, msgspec.UNSET)) for name in names)
    return (pair for pair in pairs if pair[1] is not msgspec.UNSET)


def _inspect_keys(value: dict[Any, Any], path: _Path) -> None:
    for key in value:
        plain = key.value if isinstance(key, Enum) else key
        if type(plain) not in _KEYS and not isinstance(plain, str):
            path.refuse(f"the key {show(key)} is of type {name_of(type(key))} and cannot be a JSON key; use a string")
        if fault := _fault(plain):
            path.refuse(f"in the key {show(key)}: {fault}")
    if any(type(key) is not str for key in value):
        names = from_json(to_json(dict.fromkeys(value)))
        if len(names) < len(value):
            path.refuse(f"two keys of {show(value)} are the same text in JSON; use strings that differ")


def _fault(value: object) -> str | None:
    """What is wrong with a single value, and what to do about it."""
    if isinstance(value, str | PurePath):
        return _text_fault(str(value))
    if isinstance(value, int) and not INTEGER_MIN <= value <= INTEGER_MAX:
        return f"the integer {show(value)} does not fit in 64 bits; pass it as a string"
    if isinstance(value, float) and not isfinite(value):
        name = "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"{name} is not JSON; use None or a string"
    if isinstance(value, datetime | time):
        return _time_fault(value)
    if isinstance(value, _SCALARS):
        return None
    return (
        f"a value of type {name_of(type(value))} cannot be made JSON; "
        "pass plain data, a dataclass, a msgspec Struct or a pydantic model"
    )


def _text_fault(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = f"{shorten(ascii(text))} has the lone surrogate {text[error.start]!a}"
        return f"{found} at character {error.start}; drop it, e.g. text.encode('utf-8', 'replace').decode()"
    return None


def _time_fault(value: datetime | time) -> str | None:
    offset = value.utcoffset()
    if offset is None:
        naive = isinstance(value, datetime)
        return f"{value} has no timezone; give it one, e.g. datetime.now(UTC)" if naive else None
    if offset % timedelta(minutes=1):
        return f"{value} has a UTC offset that is not in whole minutes; convert it with .astimezone(UTC)"
    return None


def _refuse_depth(path: _Path) -> NoReturn:
    seen: set[int] = set()
    for link in path.chain():
        if id(link.value) in seen:
            link.refuse(f"this {name_of(type(link.value))} contains itself; pass a copy without the cycle")
        seen.add(id(link.value))
    path.refuse(f"nested more than {JSON_DEPTH_MAX} levels deep; flatten it, or pass it as a string of JSON")
