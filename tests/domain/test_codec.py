"""The codec: what goes in comes back; what would not is refused by path, value and remedy."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, TypedDict
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import codec
from holdfast.domain.bounds import INTEGER_MAX, JSON_DEPTH_MAX
from holdfast.domain.codec import decodable, decode, decoder, encode
from holdfast.domain.fault import inspect
from holdfast.domain.text import clip, show
from holdfast.errors import PayloadError

BYTES_MAX = 100_000
INDIA = timezone(timedelta(hours=5, minutes=30))


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    LARGE = 3


class Mode(StrEnum):
    FAST = "fast"


class Odd(Enum):
    PAIR = (1, math.nan)


@dataclass
class Page:
    score: Any
    number: int = 0


@dataclass
class Book:
    pages: list[Page]
    printed_at: datetime | None = None
    tags: set[str] = field(default_factory=set)


class Point(msgspec.Struct):
    x: float
    label: str | msgspec.UnsetType = msgspec.UNSET


class Pair(NamedTuple):
    left: int
    right: str


class Options(TypedDict, total=False):
    depth: int
    when: datetime


class Model(pydantic.BaseModel):
    ratio: float
    when: datetime | None = None


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    when: datetime
    inner: Model
    name: str = pydantic.Field(alias="theName")


class Thing:
    pass


class Fragile:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Text(str):
    __slots__ = ()


class Number(float):
    pass


class Count(int):
    pass


class Instant(datetime):
    pass


def put(value: object) -> str:
    return encode(value, "argument 'document'", BYTES_MAX)


def refusal(value: object) -> str:
    with pytest.raises(PayloadError) as caught:
        put(value)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("argument 'document': ")
    return message.removeprefix("argument 'document': ")


def misfit(annotation: Any, text: str) -> str:
    with pytest.raises(PayloadError) as caught:
        decoder(annotation)(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


# What goes in comes back

texts = st.text(st.characters(exclude_categories=["Cs"]))
integers = st.integers(-INTEGER_MAX, INTEGER_MAX)
floats = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | integers | floats | texts
plain = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=20)

any_text = st.text(st.characters())
any_scalar = (
    st.none() | st.booleans() | st.integers() | st.floats() | any_text | st.datetimes() | st.builds(Thing)
    | st.integers(INTEGER_MAX - 2, INTEGER_MAX + 2) | st.sampled_from([Colour.RED, Odd.PAIR])
)  # fmt: skip
any_key = any_text | st.integers() | st.none() | st.floats() | st.booleans()
anything = st.recursive(
    any_scalar,
    lambda inner: st.lists(inner) | st.dictionaries(any_key, inner) | st.tuples(inner) | st.builds(Page, inner),
    max_leaves=10,
)


@given(plain)
def test_plain_data_comes_back_exactly(value: object) -> None:
    text = put(value)
    # repr tells 1 from 1.0 from True, and 0.0 from -0.0, where == does not.
    assert repr(decode(text)) == repr(value)
    assert repr(json.loads(text)) == repr(value)


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def fault_of(act: Callable[[], object]) -> str | None:
    try:
        act()
    except PayloadError as error:
        return str(error)
    return None


@given(anything)
def test_whatever_it_is_it_becomes_true_json_or_one_line_of_refusal(value: object) -> None:
    fault = fault_of(lambda: put(value))
    if fault is None:
        json.loads(put(value), parse_constant=refuse_constant)
        put(value).encode()
    else:
        assert "\n" not in fault
        assert fault.startswith("argument 'document': ")


@given(anything)
def test_the_quick_pass_never_lets_through_what_the_slow_one_refuses(value: object) -> None:
    fault = fault_of(lambda: inspect(value, "it"))
    if codec._is_plain(value) and fault:
        assert "lone surrogate" in fault  # left to msgspec on purpose


def test_plain_data_never_takes_the_slow_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "inspect", lambda *_: pytest.fail("the slow pass ran"))
    value = {"a": ["x", 1, 1.5, True, None, (1,), {"b": UUID(int=1)}], "c": 2.5, "d": datetime.now(UTC)}
    assert decode(put(value))["a"][:5] == ["x", 1, 1.5, True, None]


@pytest.mark.parametrize(
    ("annotation", "strategy"),
    [
        (timedelta, st.timedeltas()),
        (date, st.dates()),
        (time, st.times()),
        (UUID, st.uuids()),
        (Decimal, st.decimals(allow_nan=False)),
        (bytes, st.binary()),
        (Colour, st.sampled_from(Colour)),
        (Size, st.sampled_from(Size)),
        (Mode, st.sampled_from(Mode)),
        (set[int], st.sets(integers)),
        (frozenset[str], st.frozensets(texts)),
        (tuple[int, str], st.tuples(integers, texts)),
        (dict[int, str], st.dictionaries(integers, texts)),
        (dict[UUID, int], st.dictionaries(st.uuids(), integers)),
        (Pair, st.builds(Pair, integers, texts)),
        (Point, st.builds(Point, floats, texts)),
        (Page, st.builds(Page, floats, integers)),
        (Model, st.builds(Model, ratio=floats)),
        (list[Model], st.lists(st.builds(Model, ratio=floats), max_size=3)),
        (PurePosixPath, st.builds(PurePosixPath, texts)),
    ],
)
def test_rich_types_come_back_as_themselves(annotation: Any, strategy: st.SearchStrategy[Any]) -> None:
    @given(strategy)
    def comes_back(value: Any) -> None:
        found = decoder(annotation)(put(value))
        assert found == value
        assert type(found) is type(value)

    comes_back()


@given(st.datetimes(timezones=st.timezones()))
def test_an_aware_datetime_keeps_its_instant_or_is_refused(value: datetime) -> None:
    offset = value.utcoffset()
    assert offset is not None
    if offset % timedelta(minutes=1):
        assert "whole minutes" in refusal(value)
    else:
        found = decoder(datetime)(put(value))
        assert found.utcoffset() == offset
        assert found.replace(tzinfo=None) == value.replace(tzinfo=None)


def test_a_book_with_everything_in_it_comes_back() -> None:
    book = Book([Page(0.5, 1), Page(None, 2)], datetime(2026, 1, 2, 3, 4, 5, 6, INDIA), {"a"})
    assert decoder(Book)(put(book)) == book


def test_a_typed_dict_comes_back_typed() -> None:
    options: Options = {"depth": 3, "when": datetime(2026, 1, 1, tzinfo=UTC)}
    assert decoder(Options)(put(options)) == options


def test_a_strict_pydantic_model_with_an_alias_comes_back() -> None:
    model = Strict(when=datetime(2026, 1, 1, tzinfo=UTC), inner=Model(ratio=1), theName="x")
    assert decoder(Strict)(put(model)) == model
    assert decoder(dict[str, Strict])(put({"k": model})) == {"k": model}


def test_an_unset_field_is_left_out() -> None:
    assert put(Point(1.0)) == '{"x":1.0}'


def test_nul_is_text_like_any_other() -> None:
    assert put({"a\0": "\0"}) == '{"a\\u0000":"\\u0000"}'
    assert decode(put("\0")) == "\0"


def test_the_text_is_compact_and_not_escaped() -> None:
    assert put({"a": [1, "é😀"]}) == '{"a":[1,"é😀"]}'


def test_integers_are_exact_to_64_bits() -> None:
    assert put([INTEGER_MAX, -INTEGER_MAX]) == "[9223372036854775807,-9223372036854775807]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Text("a"), '"a"'),
        (Number(1.5), "1.5"),
        (Count(7), "7"),
        (Instant(2026, 1, 1, tzinfo=UTC), '"2026-01-01T00:00:00+00:00"'),
        ({Mode.FAST: 1, Size.LARGE: 2}, '{"fast":1,"3":2}'),
        ((1, (2,)), "[1,[2]]"),
        (bytearray(b"a"), '"YQ=="'),
    ],
)
def test_a_subclass_is_stored_as_what_it_extends(value: object, text: str) -> None:
    assert put(value) == text


def test_sixty_four_levels_are_stored() -> None:
    assert put(nested(JSON_DEPTH_MAX)) == "[" * JSON_DEPTH_MAX + "]" * JSON_DEPTH_MAX
    assert put({"a": nested(JSON_DEPTH_MAX - 1)}).count("[") == JSON_DEPTH_MAX - 1


def test_a_value_that_occurs_twice_is_not_a_cycle() -> None:
    shared = [Thing]
    shared.clear()
    assert put({"a": shared, "b": [shared, shared]}) == '{"a":[],"b":[[],[]]}'


# What would not come back is refused

NAIVE = datetime(2026, 1, 1)
LOCAL_MEAN = datetime(1900, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=53, seconds=28)))
NOT_JSON = "is not JSON; use None or a string"
TOO_WIDE = "does not fit in 64 bits; pass it as a string"
NO_ZONE = "2026-01-01 00:00:00 has no timezone; give it one, e.g. datetime.now(UTC)"
DROP = "drop it, e.g. text.encode('utf-8', 'replace').decode()"
FOREIGN = "cannot be made JSON; pass plain data, a dataclass, a msgspec Struct or a pydantic model"
NO_KEY = "cannot be a JSON key; use a string"
SECONDS = "has a UTC offset that is not in whole minutes; convert it with .astimezone(UTC)"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, f"NaN {NOT_JSON}"),
        ({"pages": [1, 2, 3, {"score": math.nan}]}, f"at .pages[3].score: NaN {NOT_JSON}"),
        ([1.0, math.inf], f"at [1]: Infinity {NOT_JSON}"),
        ({"a b": -math.inf}, f"at ['a b']: -Infinity {NOT_JSON}"),
        (Book([Page(math.nan)]), f"at .pages[0].score: NaN {NOT_JSON}"),
        ([Point(math.nan)], f"at [0].x: NaN {NOT_JSON}"),
        ([Model(ratio=math.nan)], f"at [0].ratio: NaN {NOT_JSON}"),
        ((Number("nan"),), f"at [0]: NaN {NOT_JSON}"),
        (Odd.PAIR, f"at [1]: NaN {NOT_JSON}"),
        ({"id": INTEGER_MAX + 1}, f"at .id: the integer 9223372036854775808 {TOO_WIDE}"),
        ([-INTEGER_MAX - 1], f"at [0]: the integer -9223372036854775808 {TOO_WIDE}"),
        ([10**6000], f"at [0]: the integer of 19,932 bits {TOO_WIDE}"),
        ([Count(2**64)], f"at [0]: the integer 18446744073709551616 {TOO_WIDE}"),
        ({"n": "ab\udcff"}, f"at .n: 'ab\\udcff' has the lone surrogate '\\udcff' at character 2; {DROP}"),
        ([Path("\udcff")], f"at [0]: '\\udcff' has the lone surrogate '\\udcff' at character 0; {DROP}"),
        (
            {"k\udcff": 1},
            f"in the key 'k\\udcff': 'k\\udcff' has the lone surrogate '\\udcff' at character 1; {DROP}",
        ),
        ({"a": [NAIVE]}, f"at .a[0]: {NO_ZONE}"),
        (Book([], NAIVE), f"at .printed_at: {NO_ZONE}"),
        (LOCAL_MEAN, f"1900-01-01 00:00:00+05:53:28 {SECONDS}"),
        ([LOCAL_MEAN.timetz()], f"at [0]: 00:00:00+05:53:28 {SECONDS}"),
        ({"x": Thing()}, f"at .x: a value of type {__name__}.Thing {FOREIGN}"),
        ([Thing], f"at [0]: a value of type type {FOREIGN}"),
        (3j, f"a value of type complex {FOREIGN}"),
        ([msgspec.Raw(b"NaN")], f"at [0]: a value of type msgspec.Raw {FOREIGN}"),
        ({"a": {None: 1}}, f"at .a: the key None is of type NoneType and {NO_KEY}"),
        ([{True: 1}], f"at [0]: the key True is of type bool and {NO_KEY}"),
        ({(1, 2): 1}, f"the key (1, 2) is of type tuple and {NO_KEY}"),
        ({Odd.PAIR: 1}, f"the key <Odd.PAIR: (1, nan)> is of type {__name__}.Odd and {NO_KEY}"),
        ({math.nan: 1}, f"in the key nan: NaN {NOT_JSON}"),
        ({2**63: 1}, f"in the key {2**63}: the integer {2**63} {TOO_WIDE}"),
        ({NAIVE: 1}, f"in the key {NAIVE!r}: {NO_ZONE}"),
        ({1: 1, "1": 2}, "two keys of {1: 1, '1': 2} are the same text in JSON; use strings that differ"),
    ],
    ids=lambda value: None if isinstance(value, str) else " ",
)
def test_a_refusal_names_the_path_the_value_and_the_remedy(value: object, message: str) -> None:
    assert refusal(value) == message


@pytest.mark.parametrize("shape", [lambda value: [value], lambda value: {"a": value}, lambda value: [Page(value)]])
def test_too_deep_is_refused_with_the_limit(shape: Callable[[object], object]) -> None:
    message = refusal(shape(nested(JSON_DEPTH_MAX)))
    assert "[0][0][0]" in message
    assert message.endswith("nested more than 64 levels deep; flatten it, or pass it as a string of JSON")
    assert len(message) < 300


def test_a_list_that_contains_itself_is_refused_where_the_cycle_closes() -> None:
    loop: list[Any] = [1]
    loop.append({"again": loop})
    assert refusal({"x": loop}) == "at .x[1].again: this list contains itself; pass a copy without the cycle"


def test_a_dataclass_that_contains_itself_is_refused() -> None:
    page = Page(None)
    page.score = page
    assert refusal(page) == f"at .score: this {__name__}.Page contains itself; pass a copy without the cycle"


def test_too_large_is_refused_with_both_sizes() -> None:
    with pytest.raises(PayloadError) as caught:
        encode("é" * 1000, "progress", 2_001)
    assert str(caught.value) == (
        "progress: 2,002 bytes as JSON, and at most 2,001 can be stored; keep the data elsewhere and pass a reference to it"
    )
    assert len(encode("é" * 1000, "progress", 2_002)) == 1_002


def test_a_model_that_cannot_dump_itself_is_refused_in_one_line() -> None:
    class Broken(pydantic.BaseModel):
        @pydantic.model_serializer
        def dump(self) -> dict[str, Any]:
            raise KeyError("line one\nline two")

    assert "line one" in refusal([Broken()])


# Decoding


@pytest.mark.parametrize("text", ["", "{", "nul", "NaN", "1 2", '"\\ud800"', "'a'", "1e400"])
def test_what_is_not_json_is_not_decoded(text: str) -> None:
    with pytest.raises(PayloadError) as caught:
        decode(text)
    assert "\n" not in str(caught.value)


def test_malformed_json_is_called_so() -> None:
    assert misfit(dict[str, int], '{"a":') == "malformed JSON: Input data was truncated"


@pytest.mark.parametrize(
    ("annotation", "text", "message"),
    [
        (str, "3", "expected str, got int (3)"),
        (int, "true", "expected int, got bool (True)"),
        (list[int], '[1,"x"]', "at [1]: expected int, got str ('x')"),
        (Book, '{"pages":[{"score":1,"number":null}]}', "at .pages[0].number: expected int, got null (None)"),
        (Page, '{"number":1}', "object missing required field score ({'number': 1})"),
        (dict[str, list[int]], '{"a":[1,2],"b":[3,"x"]}', "at [...][1]: expected int, got str ('x')"),
        (dict[str, Page], '{"a":{"score":1,"number":"x"}}', "at [...].number: expected int, got str ('x')"),
        (dict[int, int], '{"a":1}', "a key: expected int, got str"),
        (datetime, '"yesterday"', "invalid RFC3339 encoded datetime ('yesterday')"),
        (Literal["a", "b"], '"c"', "invalid enum value 'c' ('c')"),
        (Annotated[int, msgspec.Meta(ge=5)], "3", "expected int >= 5 (3)"),
        (list[Path], '["a",3]', "at [1]: expected str, got int (3)"),
        (
            list[Model],
            '[{"ratio":1},{"ratio":"x"}]',
            "at [1]: .ratio: Input should be a valid number, unable to parse string as a number, got 'x'",
        ),
    ],
)
def test_a_misfit_says_where_what_and_what_was_expected(annotation: Any, text: str, message: str) -> None:
    assert misfit(annotation, text) == message


def test_what_a_dataclass_raises_becomes_a_refusal() -> None:
    assert misfit(Picky, '{"n":-1}') == "KeyError: 'n must not be negative'"


@dataclass
class Picky:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise KeyError("n must not be negative")


@dataclass
class Family:
    children: list[Family]
    thing: Thing | None = None


class Tree(msgspec.Struct):
    children: list[Tree]


@pytest.mark.parametrize(
    "annotation",
    [Thing, list[Thing], Thing | None, Thing | str, str | datetime, object, "nowhere", 3, Family],
)
def test_an_annotation_nobody_can_decode_by_means_plain_data(annotation: Any) -> None:
    assert decodable(annotation) is Any
    assert decoder(annotation)('{"a":[1]}') == {"a": [1]}


@pytest.mark.parametrize("annotation", [Model, Model | None, dict[str, Path], Book, Tree, list[Any], int | str])
def test_an_annotation_that_can_be_decoded_by_is_kept(annotation: Any) -> None:
    assert decodable(annotation) is annotation


def test_a_decoder_is_made_once_for_an_annotation() -> None:
    assert decoder(list[int]) is decoder(list[int])
    unhashable = Annotated[int, ["a list cannot be hashed"]]
    assert decoder(unhashable)("3") == 3


def test_pydantic_is_not_imported_for_those_who_do_not_use_it() -> None:
    program = (
        "import sys; from holdfast.domain import codec, signature;"
        "from pathlib import Path;"
        "codec.decoder(Path)(codec.encode([Path('a')], 'it', 99)[1:-1]);"
        "signature.Signature.of(lambda a: a, takes_context=False).bind((1,), {});"
        "print('pydantic' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# Text for people


@given(any_text, st.integers(0, 200))
def test_clipped_text_can_be_stored_and_is_not_too_long(text: str, chars_max: int) -> None:
    clipped = clip(text, chars_max)
    clipped.encode()
    assert "\0" not in clipped
    assert len(clipped) <= chars_max


@given(texts.filter(lambda text: "\0" not in text))
def test_text_that_fits_is_left_alone(text: str) -> None:
    assert clip(text, len(text)) == text


def test_a_bad_file_name_is_spelled_out() -> None:
    assert clip("open('caf\udce9.txt')\0", 100) == "open('caf\\udce9.txt')\\x00"


def test_the_middle_is_left_out_and_counted() -> None:
    clipped = clip("a" * 5_000 + "b" * 5_000, 100)
    parts = re.fullmatch(r"(a+) \[… ([\d,]+) characters left out …\] (b+)", clipped)
    assert parts
    head, gap, tail = parts.groups()
    assert len(head) + len(tail) == 10_000 - int(gap.replace(",", ""))
    assert abs(len(head) - len(tail)) <= 1
    assert len(clipped) in (99, 100)


def test_a_value_is_shown_on_one_short_line() -> None:
    assert show("a\nb") == "'a\\nb'"
    assert show(SimpleNamespace(a="x" * 500)).startswith("namespace(a='xxx")
    assert len(show("x" * 500)) <= 80
    assert show(Fragile()) == f"<{__name__}.Fragile>"
