"""One strict JSON codec for everything that is stored: arguments, results, events, progress.

A value is refused at the border, by its path, if JSON or one of the databases would bend it. Plain data takes a
quick pass that only says yes or no; the rest takes a slow one that knows rich types and finds the place of a
fault (`domain/fault`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from pathlib import PurePath
from types import NoneType
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec.inspect import CustomType, type_info

from holdfast.domain.bounds import INTEGER_MAX, INTEGER_MIN, JSON_DEPTH_MAX
from holdfast.domain.fault import inspect, misfit, model_fault
from holdfast.domain.simple import JSON_KINDS, from_json, is_model, to_json
from holdfast.domain.text import name_of, show
from holdfast.errors import PayloadError

_DECODERS_MAX: Final = 1_024

_ATOMS: Final = frozenset({NoneType, bool, date, timedelta, UUID, Decimal, bytes})


def encode(value: object, what: str, bytes_max: int) -> str:
    """`value` as compact JSON text; `what` names it in the error, as in "argument 'document'"."""
    try:
        if not _is_plain(value):
            inspect(value, what)
        data = to_json(value)
    except PayloadError:
        raise
    except UnicodeEncodeError as error:
        inspect(value, what)
        raise PayloadError(f"{what}: {show(error)}") from error
    except Exception as error:
        raise PayloadError(f"{what}: cannot be made JSON: {name_of(type(error))}: {show(error)}") from error
    if len(data) > bytes_max:
        raise PayloadError(
            f"{what}: {len(data):,} bytes as JSON, and at most {bytes_max:,} can be stored; "
            "keep the data elsewhere and pass a reference to it"
        )
    return data.decode()


def decode(text: str) -> Any:
    """JSON text as plain builtins."""
    try:
        return from_json(text)
    except Exception as error:
        raise misfit(error, text) from error


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
            if not INTEGER_MIN <= value <= INTEGER_MAX:
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
            if not INTEGER_MIN <= value <= INTEGER_MAX:
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


def _revive(kind: Any, value: object) -> object:
    if issubclass(kind, PurePath):
        if isinstance(value, str):
            return kind(value)
        raise TypeError(f"Expected `str`, got `{JSON_KINDS[type(value)]}`")
    try:
        return kind.model_validate_json(to_json(value))
    except Exception as error:
        raise ValueError(model_fault(error)) from error


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
            raise misfit(error, text) from error

    return decode_or_say_where
