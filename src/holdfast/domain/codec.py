"""One strict JSON codec for everything that is stored: arguments, results, events, progress.

A value is refused at the border, by its path, if JSON or one of the databases would bend it. Plain data takes a
quick pass that only says yes or no; the rest takes a slow one that knows rich types and finds the place of a
fault. A pydantic model is known by its methods: pydantic is never imported here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from math import isfinite, isnan
from pathlib import PurePath
from types import NoneType
from typing import Any, Final, NamedTuple, NoReturn
from uuid import UUID

import msgspec
from msgspec.inspect import CustomType, type_info

from holdfast.domain.bounds import INTEGER_MAX, JSON_DEPTH_MAX
from holdfast.errors import PayloadError

_INTEGER_MIN: Final = -INTEGER_MAX  # not -2**63: what can be said can also be negated
_SHOWN_CHARS_MAX: Final = 80
_DECODERS_MAX: Final = 1_024

_ATOMS: Final = frozenset({NoneType, bool, date, timedelta, UUID, Decimal, bytes})
_KEYS: Final = frozenset({str, int, float, date, datetime, time, timedelta, UUID, Decimal, bytes})
# msgspec takes these types exactly; a subclass (numpy.float64, pandas.Timestamp, …) is stored as its parent.
_PARENTS: Final[tuple[tuple[type, Callable[[Any], object]], ...]] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (date, lambda value: value.isoformat()),
    (time, lambda value: value.isoformat()),
    (timedelta, lambda value: timedelta(value.days, value.seconds, value.microseconds)),
    (UUID, str),
    (Decimal, str),
    (PurePath, str),
)
_SCALARS: Final = (*(kind for kind, _ in _PARENTS), bool, NoneType, bytes, bytearray, memoryview)
_JSON_KINDS: Final = {
    dict: "object", list: "array", str: "str", int: "int", float: "float", bool: "bool", NoneType: "null"
}  # fmt: skip
_MISFIT: Final = re.compile(r"(.*?)(?: - at (`key` in )?`\$(.*)`)?", re.DOTALL)
_GOT: Final = re.compile(r"got `(\w+)`$")
_STEP: Final = re.compile(r"\.[^.\[]+|\[\.\.\.\]|\[\d+\]")


def encode(value: object, what: str, bytes_max: int) -> str:
    """`value` as compact JSON text; `what` names it in the error, as in "argument 'document'"."""
    try:
        if not _is_plain(value):
            _inspect(value, _Path(None, what, value, 0))
        data = _encode(value)
    except PayloadError:
        raise
    except UnicodeEncodeError as error:
        _inspect(value, _Path(None, what, value, 0))
        raise PayloadError(f"{what}: {show(error)}") from error
    except Exception as error:
        raise PayloadError(f"{what}: cannot be made JSON: {_name(type(error))}: {show(error)}") from error
    if len(data) > bytes_max:
        raise PayloadError(
            f"{what}: {len(data):,} bytes as JSON, and at most {bytes_max:,} can be stored; "
            "keep the data elsewhere and pass a reference to it"
        )
    return data.decode()


def decode(text: str) -> Any:
    """JSON text as plain builtins."""
    try:
        return _decode(text)
    except Exception as error:
        raise _misfit(error, text) from error


def decoder(annotation: Any) -> Callable[[str], Any]:
    """A function from JSON text to a value of that annotation; a misfit is a PayloadError that says where."""
    try:
        return _decoder(annotation)
    except TypeError:  # an annotation that cannot be hashed cannot be cached
        return _decoder.__wrapped__(annotation)


def typed(annotation: Any) -> msgspec.json.Decoder[Any]:
    """The bare msgspec decoder, for callers that word their own errors."""
    return msgspec.json.Decoder(annotation, dec_hook=_revive)


def decodable(annotation: Any) -> Any:
    """The annotation itself where values can be decoded by it, else Any."""
    try:
        typed(annotation)
        return Any if _holds_custom(type_info(annotation), set()) else annotation
    except Exception:  # annotations are the user's, and so is what evaluating them raises
        return Any


def is_model(kind: type) -> bool:
    """Whether this class is a pydantic model, told by what it can do."""
    return hasattr(kind, "model_dump") and hasattr(kind, "model_validate_json")


def clip(text: str, chars_max: int) -> str:
    """`text` made storable: lone surrogates and NUL spelled out, the middle left out if it is too long."""
    text = text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    if len(text) <= chars_max:
        return text
    room = chars_max - len(_gap(len(text)))
    if room < 2:
        return text[:chars_max]
    head = room // 2
    return text[:head] + _gap(len(text) - room) + text[len(text) - (room - head) :]


def show(value: object) -> str:
    """A value in an error message: on one line and short."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"of {value.bit_length():,} bits"
    try:
        text = str(value) if isinstance(value, Exception) else repr(value)
    except Exception:  # a broken __repr__ must not hide the error that is being told
        text = f"<{_name(type(value))}>"
    return clip(" ".join(text.split()), _SHOWN_CHARS_MAX * (4 if isinstance(value, Exception) else 1))


def _gap(chars: int) -> str:
    return f" [… {chars:,} characters left out …] "


def _is_plain(value: object) -> bool:
    """Whether msgspec writes all of it faithfully; it refuses lone surrogates itself, so text is not looked at."""
    if type(value) is dict:
        return _is_plain_dict(value, JSON_DEPTH_MAX)
    return _is_plain_list((value,), JSON_DEPTH_MAX + 1)


# Twins, with every test written out: one loop for both, or a call per value, costs a third of the encoding.
def _is_plain_dict(values: dict[Any, Any], levels: int) -> bool:
    if not levels:
        return False
    for key, value in values.items():
        if type(key) is not str:
            return False
        kind = type(value)
        if kind is str:
            continue
        if kind is int:
            if not _INTEGER_MIN <= value <= INTEGER_MAX:
                return False
        elif kind is dict:
            if not _is_plain_dict(value, levels - 1):
                return False
        elif kind is list or kind is tuple:
            if not _is_plain_list(value, levels - 1):
                return False
        elif not _is_plain_atom(kind, value):
            return False
    return True


def _is_plain_list(values: Iterable[Any], levels: int) -> bool:
    if not levels:
        return False
    for value in values:
        kind = type(value)
        if kind is str:
            continue
        if kind is int:
            if not _INTEGER_MIN <= value <= INTEGER_MAX:
                return False
        elif kind is float:
            if not isfinite(value):
                return False
        elif kind is dict:
            if not _is_plain_dict(value, levels - 1):
                return False
        elif kind is list or kind is tuple:
            if not _is_plain_list(value, levels - 1):
                return False
        elif not _is_plain_atom(kind, value):
            return False
    return True


def _is_plain_atom(kind: type, value: Any) -> bool:
    if kind is float:
        return isfinite(value)
    return kind in _ATOMS or (kind is datetime and value.tzinfo is UTC)


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
        place = clip("".join(_step(link.step) for link in steps), 2 * _SHOWN_CHARS_MAX)
        raise PayloadError(f"{root.step}: at {place}: {fault}" if place else f"{root.step}: {fault}")


def _step(step: object) -> str:
    return f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{show(step)}]"


def _inspect(value: object, path: _Path) -> None:
    if isinstance(value, Enum):
        return _inspect(value.value, path)
    if is_model(type(value)):
        return _inspect(_dump(value), path)
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
            path.refuse(f"the key {show(key)} is of type {_name(type(key))} and cannot be a JSON key; use a string")
        if fault := _fault(plain):
            path.refuse(f"in the key {show(key)}: {fault}")
    if any(type(key) is not str for key in value):
        names = _decode(_encode(dict.fromkeys(value)))
        if len(names) < len(value):
            path.refuse(f"two keys of {show(value)} are the same text in JSON; use strings that differ")


def _fault(value: object) -> str | None:
    """What is wrong with a single value, and what to do about it."""
    if isinstance(value, str | PurePath):
        return _text_fault(str(value))
    if isinstance(value, int) and not _INTEGER_MIN <= value <= INTEGER_MAX:
        return f"the integer {show(value)} does not fit in 64 bits; pass it as a string"
    if isinstance(value, float) and not isfinite(value):
        name = "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return f"{name} is not JSON; use None or a string"
    if isinstance(value, datetime | time):
        return _time_fault(value)
    if isinstance(value, _SCALARS):
        return None
    return (
        f"a value of type {_name(type(value))} cannot be made JSON; "
        "pass plain data, a dataclass, a msgspec Struct or a pydantic model"
    )


def _text_fault(text: str) -> str | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = f"{clip(ascii(text), _SHOWN_CHARS_MAX)} has the lone surrogate {text[error.start]!a}"
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
            link.refuse(f"this {_name(type(link.value))} contains itself; pass a copy without the cycle")
        seen.add(id(link.value))
    path.refuse(f"nested more than {JSON_DEPTH_MAX} levels deep; flatten it, or pass it as a string of JSON")


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _dump(model: Any) -> object:
    # By alias and for the round trip: this is the form in which the model validates its own dump.
    return model.model_dump(mode="json", by_alias=True, round_trip=True)


def _simplify(value: object) -> object:
    if is_model(type(value)):
        return _dump(value)
    for kind, simple in _PARENTS:
        if isinstance(value, kind):
            return simple(value)
    raise TypeError(f"a value of type {_name(type(value))}")


def _revive(kind: Any, value: object) -> object:
    if issubclass(kind, PurePath):
        if isinstance(value, str):
            return kind(value)
        raise TypeError(f"Expected `str`, got `{_JSON_KINDS[type(value)]}`")
    try:
        return kind.model_validate_json(_encode(value))
    except Exception as error:
        raise ValueError(_model_fault(error)) from error


def _model_fault(error: Exception) -> str:
    listed = error.errors() if hasattr(error, "errors") else []
    if not listed:
        return show(error)
    place = "".join(_step(step) for step in listed[0]["loc"])
    return f"{place}: " * bool(place) + f"{listed[0]['msg']}, got {show(listed[0]['input'])}"


def _holds_custom(node: Any, seen: set[int]) -> bool:
    """Whether a type somewhere in the annotation is one that only its own author could decode."""
    if isinstance(node, CustomType):
        return not (is_model(node.cls) or issubclass(node.cls, PurePath))
    if id(node) in seen:
        return False
    seen.add(id(node))
    if isinstance(node, tuple):
        return any(_holds_custom(item, seen) for item in node)
    names = getattr(node, "__struct_fields__", ()) if type(node).__module__ == "msgspec.inspect" else ()
    return any(_holds_custom(getattr(node, name), seen) for name in names)


@lru_cache(_DECODERS_MAX)
def _decoder(annotation: Any) -> Callable[[str], Any]:
    decode_typed = typed(decodable(annotation)).decode

    def decode_or_say_where(text: str) -> Any:
        try:
            return decode_typed(text)
        except Exception as error:
            raise _misfit(error, text) from error

    return decode_or_say_where


def _misfit(error: Exception, text: str) -> PayloadError:
    if not isinstance(error, msgspec.ValidationError):
        cause = "malformed JSON" if isinstance(error, msgspec.DecodeError) else _name(type(error))
        return PayloadError(f"{cause}: {show(error)}")
    parts = _MISFIT.fullmatch(str(error))
    message, in_key, place = parts.groups() if parts else (str(error), None, None)
    own_words = isinstance(error.__cause__, ValueError)  # a model's: they name the value already
    found = None if in_key or own_words else _offender(text, place or "", _GOT.search(message))
    message = " ".join(message.replace("`", "").split())
    message = message[:1].lower() + message[1:] + (f" ({show(found[0])})" if found else "")
    where = f"at {place}: " if place else ""
    return PayloadError(f"{where}a key: {message}" if in_key else f"{where}{message}")


def _offender(text: str, place: str, got: re.Match[str] | None) -> tuple[object] | None:
    """The value a message is about. msgspec writes any key of a dict as [...]; as it reads in order and stops
    at the first misfit, that is the first value there of the kind it got."""
    steps = _STEP.findall(place)
    if "".join(steps) != place or ("[...]" in steps and not got):
        return None
    try:
        values = _matches(_decode(text), steps)
        return next((value,) for value in values if not got or _JSON_KINDS[type(value)] == got[1])
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


_encode: Final = msgspec.json.Encoder(enc_hook=_simplify).encode
_decode: Final = msgspec.json.Decoder().decode
