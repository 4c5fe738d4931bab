"""JSON as msgspec writes it, and what it must be told to write the types that it does not know.

A pydantic model is known by its methods: pydantic is never imported here.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from types import NoneType
from typing import Any, Final
from uuid import UUID

import msgspec

from holdfast.domain.text import name_of

# msgspec takes these types exactly; a subclass (numpy.float64, pandas.Timestamp, …) is stored as its parent.
PARENTS: Final[tuple[tuple[type, Callable[[Any], object]], ...]] = (
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
JSON_KINDS: Final = {
    dict: "object", list: "array", str: "str", int: "int", float: "float", bool: "bool", NoneType: "null"
}  # fmt: skip


def is_model(kind: type) -> bool:
    """Whether this class is a pydantic model, told by what it can do."""
    return hasattr(kind, "model_dump") and hasattr(kind, "model_validate_json")


def dump(model: Any) -> object:
    # By alias and for the round trip: this is the form in which the model validates its own dump.
    return model.model_dump(mode="json", by_alias=True, round_trip=True)


def covered(plain: object, rich: object) -> list[object] | None:
    """The way to a SecretStr, or its like, of which pydantic has written stars: in a dump for JSON, and in one for Python."""
    if hasattr(rich, "get_secret_value"):
        return [] if isinstance(plain, str) and plain and not plain.strip("*") else None
    if isinstance(plain, dict) and isinstance(rich, dict):
        pairs = [(name, inner, other) for (name, inner), other in zip(plain.items(), rich.values(), strict=False)]
    elif isinstance(plain, list) and isinstance(rich, list | tuple | set | frozenset):
        pairs = [(number, *each) for number, each in enumerate(zip(plain, rich, strict=False))]
    else:
        return None
    found = ((step, covered(inner, other)) for step, inner, other in pairs)
    return next(([step, *way] for step, way in found if way is not None), None)


def simplify(value: object) -> object:
    if is_model(type(value)):
        return dump(value)
    for kind, simple in PARENTS:
        if isinstance(value, kind):
            return simple(value)
    raise TypeError(f"a value of type {name_of(type(value))}")


to_json: Final = msgspec.json.Encoder(enc_hook=simplify).encode
from_json: Final = msgspec.json.Decoder().decode
