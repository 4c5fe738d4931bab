"""A task's signature: a call becomes JSON and a call again, or a refusal that names the argument."""

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.domain.bounds import PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX
from holdfast.domain.signature import Signature
from holdfast.errors import PayloadError

if TYPE_CHECKING:
    from nowhere import Context, Unseen  # type: ignore[import-not-found]


class Colour(Enum):
    RED = "red"


@dataclass
class Page:
    number: int
    score: float = 0.0


class Inner(pydantic.BaseModel):
    ratio: float


class Model(pydantic.BaseModel):
    inner: Inner


class Thing:
    pass


def analyse(document: str, model: str = "big") -> dict[str, Any]:
    return {"document": document, "model": model}


def rich(when: datetime, page: Page, *, by: UUID, colour: Colour = Colour.RED, path: Path = Path("a")) -> None: ...


def modelled(model: Model, models: list[Model] = []) -> Model:  # noqa: B006  (a default that nobody changes)
    return model


def everything(a: Any, b: Any = 2, /, c: Any = 3, *rest: Any, key: Any = 4, **options: Any) -> tuple[Any, ...]:
    return a, b, c, list(rest), key, options


def ordinary(a: Any, b: Any = 2, *, key: Any, other: Any = 5) -> tuple[Any, ...]:
    return a, b, key, other


def of(fn: Callable[..., Any], *, takes_context: bool = False) -> Signature:
    return Signature.of(fn, takes_context=takes_context)


def refusal(act: Callable[..., object], *args: Any) -> str:
    with pytest.raises(PayloadError) as caught:
        act(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def round_trip(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    signature = of(fn)
    positional, keywords = signature.load(signature.bind(args, kwargs))
    return fn(*positional, **keywords)


ANALYSE = f"{__name__}.analyse(document: str, model: str = 'big')"

# A call becomes JSON, and a call again

values = st.none() | st.integers(-9, 9) | st.text("ab*", max_size=3) | st.lists(st.booleans(), max_size=2)
names = st.sampled_from(["a", "b", "c", "key", "other", "rest", "*rest", "options", "**options", "z"])


@given(st.sampled_from([everything, ordinary]), st.lists(values, max_size=5), st.dictionaries(names, values))
@example(everything, [1, 2, 3, 4], {"a": 1, "*rest": 2, "**options": 3, "options": 4})
@example(everything, [1], {"b": 2})
@example(ordinary, [1], {"other": 2, "key": 3})
def test_what_is_accepted_runs_as_if_called_and_what_python_refuses_is_refused(
    fn: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
) -> None:
    try:
        expected = fn(*args, **kwargs)
    except TypeError:
        message = refusal(of(fn).bind, tuple(args), kwargs)
        assert message.startswith(f"arguments of {of(fn).text}: ")
    else:
        assert round_trip(fn, *args, **kwargs) == expected


@given(st.lists(values, max_size=3), st.dictionaries(names, values))
def test_the_fast_way_of_gathering_gives_what_the_slow_one_gives(args: list[Any], kwargs: dict[str, Any]) -> None:
    signature = of(ordinary)
    fast = signature._gather(tuple(args), kwargs)
    try:
        slow = signature._gather_slowly(tuple(args), kwargs)
    except PayloadError:
        assert fast is None
    else:
        assert fast == slow
        assert fast is not None
        assert list(fast) == list(slow)


def test_an_ordinary_call_is_bound_without_inspect(monkeypatch: pytest.MonkeyPatch) -> None:
    signature = of(analyse)
    monkeypatch.setattr(inspect.Signature, "bind", lambda *_: pytest.fail("inspect was asked"))
    assert signature.bind(("a.pdf",), {"model": "small"}) == '{"document":"a.pdf","model":"small"}'


def test_only_what_was_given_is_stored() -> None:
    assert of(analyse).bind(("a.pdf",), {}) == '{"document":"a.pdf"}'
    assert of(analyse).load('{"document":"a.pdf"}') == ([], {"document": "a.pdf"})


def test_the_same_call_is_the_same_text_however_it_is_written() -> None:
    signature = of(analyse)
    texts = {
        signature.bind(("a", "b"), {}),
        signature.bind(("a",), {"model": "b"}),
        signature.bind((), {"model": "b", "document": "a"}),
    }
    assert texts == {'{"document":"a","model":"b"}'}


def test_rest_and_options_have_names_that_no_parameter_can_have() -> None:
    text = of(everything).bind((1, 2, 3, 4), {"a": 5, "*rest": 6})
    assert json.loads(text) == {"a": 1, "b": 2, "c": 3, "*rest": [4], "**options": {"a": 5, "*rest": 6}}


def test_a_parameter_may_be_called_anything_python_allows() -> None:
    def named(self: int, cls: int, fields: int, *, type: int) -> list[int]:
        return [self, cls, fields, type]

    assert round_trip(named, 1, 2, fields=3, type=4) == [1, 2, 3, 4]


def test_rest_after_a_default_that_was_not_stored_takes_the_default() -> None:
    assert of(everything).load('{"a":1,"*rest":[7]}') == ([1, 2, 3, 7], {})


def test_typed_arguments_come_back_as_themselves() -> None:
    arguments = {
        "when": datetime(2026, 1, 1, tzinfo=UTC),
        "page": Page(3, 0.5),
        "by": UUID(int=7),
        "colour": Colour.RED,
        "path": Path("x/y"),
    }
    assert of(rich).load(of(rich).bind((), arguments)) == ([], arguments)


def test_pydantic_models_come_back_as_themselves() -> None:
    model = Model(inner=Inner(ratio=0.5))
    positional, keywords = of(modelled).load(of(modelled).bind((model,), {"models": [model]}))
    assert (positional, keywords) == ([], {"model": model, "models": [model]})


def test_a_model_may_be_given_as_plain_data() -> None:
    assert of(modelled).load(of(modelled).bind(({"inner": {"ratio": 1}},), {}))[1] == {"model": Model(inner=Inner(ratio=1))}


def test_typed_rest_and_options_come_back_typed() -> None:
    def many(*pages: Page, **at: datetime) -> tuple[Any, ...]:
        return pages, at

    when = datetime(2026, 1, 1, tzinfo=UTC)
    assert round_trip(many, Page(1), Page(2), start=when) == ((Page(1), Page(2)), {"start": when})


def test_arguments_by_name_are_typed_and_only_those_that_were_given() -> None:
    def many(page: Page, model: str = "big", *rest: int) -> None: ...

    signature = of(many)
    assert signature.named(signature.bind((Page(1), "small", 2), {})) == {"page": Page(1), "model": "small", "rest": [2]}
    assert signature.named(signature.bind((Page(1),), {})) == {"page": Page(1)}
    assert "argument 'page'" in refusal(signature.named, '{"page":3}')


def test_none_is_accepted_where_it_is_the_default() -> None:
    def implicit(name: str = None) -> Any:  # type: ignore[assignment]  # noqa: RUF013
        return name

    assert round_trip(implicit, None) is None
    assert "expected str | null, got int (3)" in refusal(of(implicit).bind, (3,), {})


def test_the_context_is_left_out() -> None:
    def watched(ctx: Context, document: str, **options: int) -> None: ...

    signature = of(watched, takes_context=True)
    assert signature.text == f"{__name__}.{watched.__qualname__}(document: str, **options: int)"
    assert signature.bind(("a",), {}) == '{"document":"a"}'
    message = refusal(signature.bind, ("a",), {"ctx": 1})
    assert message == f"argument 'ctx' of {signature.text}: the worker gives it; leave it out"


def test_one_annotation_that_cannot_be_resolved_does_not_cost_the_others() -> None:
    def partly(ctx: Context, unseen: Unseen, count: int) -> Unseen: ...

    signature = of(partly, takes_context=True)
    assert signature.load(signature.bind(({"any": "thing"}, 3), {})) == (
        [],
        {"unseen": {"any": "thing"}, "count": 3},
    )
    assert "argument 'count'" in refusal(signature.bind, (1, "x"), {})
    assert signature.decode_result("[1]") == [1]


def test_a_class_nobody_can_decode_is_plain_data() -> None:
    def custom(thing: Thing, many: list[Thing]) -> None: ...

    assert of(custom).load(of(custom).bind(({"a": 1}, [2]), {})) == ([], {"thing": {"a": 1}, "many": [2]})


def test_wrapped_and_partial_functions_have_a_signature_too() -> None:
    @functools.wraps(analyse)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return analyse(*args, **kwargs)

    assert of(wrapper).text == ANALYSE
    assert "expected str, got int (3)" in refusal(of(wrapper).bind, (3,), {})
    assert of(functools.partial(analyse, "x")).bind((), {"model": "y"}) == '{"model":"y"}'


# A refusal names the argument and the signature


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, f"arguments of {ANALYSE}: missing a required argument: 'document'"),
        ((), {"model": "x"}, f"arguments of {ANALYSE}: missing a required argument: 'document'"),
        (("a", "b", "c"), {}, f"arguments of {ANALYSE}: too many positional arguments"),
        (("a",), {"document": "b"}, f"arguments of {ANALYSE}: multiple values for argument 'document'"),
        (("a",), {"modle": "b"}, f"arguments of {ANALYSE}: got an unexpected keyword argument 'modle'"),
        ((3,), {}, f"argument 'document' of {ANALYSE}: expected str, got int (3)"),
        (("a",), {"model": None}, f"argument 'model' of {ANALYSE}: expected str, got null (None)"),
        (("\ud800",), {}, f"argument 'document' of {ANALYSE}: '\\ud800' has the lone surrogate"),
        (
            (Thing(),),
            {},
            f"argument 'document' of {ANALYSE}: a value of type {__name__}.Thing cannot be made JSON",
        ),
    ],
    ids=range(9),
)
def test_arguments_that_do_not_fit_are_refused(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    assert refusal(of(analyse).bind, args, kwargs).startswith(message)


def test_a_value_is_refused_by_its_path() -> None:
    message = refusal(of(rich).bind, (datetime.now(UTC), Page(1, math.nan)), {"by": UUID(int=1)})
    assert message == f"argument 'page' of {of(rich).text}: at .score: NaN is not JSON; use None or a string"
    message = refusal(of(rich).bind, (datetime.now(UTC), {"number": "x"}), {"by": UUID(int=1)})
    assert message == f"argument 'page' of {of(rich).text}: at .number: expected int, got str ('x')"


def test_a_model_is_checked_before_it_is_stored() -> None:
    message = refusal(of(modelled).bind, ({"inner": {"ratio": "x"}},), {})
    assert message.startswith(f"argument 'model' of {of(modelled).text}: .inner.ratio: Input should be a valid number")
    assert message.endswith("got 'x'")


@pytest.mark.parametrize("annotation", [datetime, datetime | None, datetime | int])
def test_a_datetime_given_as_text_needs_its_timezone(annotation: Any) -> None:
    def timed(at: Any) -> Any:
        return at

    timed.__annotations__["at"] = annotation
    assert round_trip(timed, "2026-01-01T00:00:00Z") == datetime(2026, 1, 1, tzinfo=UTC)
    message = refusal(of(timed).bind, ("2026-01-01T00:00:00",), {})
    assert "argument 'at'" in message
    assert "expected datetime with a timezone component ('2026-01-01T00:00:00')" in message


def test_a_line_break_in_an_annotation_or_a_default_stays_out_of_the_text() -> None:
    def broken(a: Any = Verbose()) -> None: ...  # noqa: B008

    broken.__annotations__["a"] = "list[\n    int]"
    assert of(broken).text.endswith("(a: list[ int] = one two)")


class Verbose:
    def __repr__(self) -> str:
        return "one\ntwo"


def test_constraints_in_the_annotation_hold() -> None:
    def bounded(count: Annotated[int, msgspec.Meta(ge=1)]) -> None: ...

    assert "argument 'count'" in refusal(of(bounded).bind, (0,), {})
    assert of(bounded).bind((1,), {}) == '{"count":1}'


def test_what_a_dataclass_raises_on_its_own_names_the_argument() -> None:
    assert refusal(of(picky).bind, ({"n": -1},), {}) == f"argument 'it' of {of(picky).text}: KeyError: 'negative'"


@dataclass
class Picky:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise KeyError("negative")


def picky(it: Picky) -> None: ...


def test_an_argument_that_is_too_large_is_named() -> None:
    message = refusal(of(analyse).bind, ("x" * PAYLOAD_BYTES_MAX,), {})
    assert message.startswith(f"argument 'document' of {ANALYSE}: 1,048,578 bytes as JSON, and at most 1,048,576")


def test_arguments_that_are_too_large_together_are_refused() -> None:
    half = "x" * (PAYLOAD_BYTES_MAX // 2)
    message = refusal(of(analyse).bind, (half, half), {})
    assert message.startswith(f"arguments of {ANALYSE}: 1,048,602 bytes as JSON, and at most 1,048,576")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", f"arguments of {ANALYSE}: malformed JSON: Input data was truncated"),
        ("[]", f"arguments of {ANALYSE}: expected object, got array ([])"),
        ('{"document":3}', f"argument 'document' of {ANALYSE}: expected str, got int (3)"),
        (
            '{"document":"a","old":1}',
            f"argument 'old' of {ANALYSE}: there is no such parameter (any more); let",
        ),
        (
            '{"model":"a"}',
            f"argument 'document' of {ANALYSE}: is not in the stored arguments; give the parameter a d",
        ),
    ],
)
def test_stored_arguments_that_no_longer_fit_are_refused_by_name(text: str, message: str) -> None:
    assert refusal(of(analyse).load, text).startswith(message)


# Results


def test_a_result_is_typed_by_the_return_annotation() -> None:
    async def paged() -> list[Page]:
        return [Page(1, 2.5)]

    signature = of(paged)
    assert signature.decode_result(signature.encode_result([Page(1, 2.5)])) == [Page(1, 2.5)]
    model = Model(inner=Inner(ratio=0.5))
    assert of(modelled).decode_result(of(modelled).encode_result(model)) == model


def test_a_result_that_is_not_what_the_annotation_says_is_still_there() -> None:
    assert of(analyse).decode_result(of(analyse).encode_result([1, "two"])) == [1, "two"]


def test_a_result_that_cannot_be_stored_is_refused_by_path() -> None:
    message = refusal(of(analyse).encode_result, {"score": math.nan})
    assert message == f"result of {ANALYSE}: at .score: NaN is not JSON; use None or a string"
    assert "1,048,578 bytes as JSON" in refusal(of(analyse).encode_result, "x" * RESULT_BYTES_MAX)


def test_nothing_is_a_result() -> None:
    assert of(rich).encode_result(None) == "null"
    assert of(rich).decode_result("null") is None


# For people and for the web


def test_the_text_shows_every_kind_of_parameter_on_one_line() -> None:
    def shown(a: Any, b: int = 1, /, *rest: str, key: Any = ["x" * 500], **options: Any) -> None: ...  # noqa: B006

    text = of(shown).text
    assert text.startswith(f"{__name__}.{shown.__qualname__}(a: Any, b: int = 1, /, *rest: str, key: Any = ['xxx")
    assert text.endswith("xxx'], **options: Any)")
    assert "\n" not in text
    assert "characters left out" in text
    assert len(text) < 300


def test_the_schema_of_a_plain_task() -> None:
    assert of(analyse).json_schema() == {
        "title": ANALYSE,
        "type": "object",
        "properties": {"document": {"type": "string"}, "model": {"type": "string", "default": "big"}},
        "required": ["document"],
        "additionalProperties": False,
    }


def test_the_schema_of_typed_arguments() -> None:
    schema = of(rich).json_schema()
    assert schema["properties"]["when"] == {"type": "string", "format": "date-time"}
    assert schema["properties"]["page"] == {"$ref": "#/$defs/Page"}
    assert schema["properties"]["path"] == {"type": "string", "format": "path", "default": "a"}
    assert schema["properties"]["colour"]["default"] == "red"
    assert schema["$defs"]["Page"]["required"] == ["number"]
    assert schema["$defs"]["Colour"]["enum"] == ["red"]
    assert schema["required"] == ["when", "page", "by"]


def test_the_schema_of_models_finds_its_definitions_at_the_root() -> None:
    schema = of(modelled).json_schema()
    assert schema["properties"]["model"]["properties"]["inner"] == {"$ref": "#/$defs/Inner"}
    assert schema["$defs"]["Inner"]["required"] == ["ratio"]
    assert schema["properties"]["models"]["default"] == []


def test_the_schema_of_rest_options_and_what_json_cannot_say() -> None:
    def odd(thing: Thing = Thing(), *rest: int, **options: str) -> None: ...  # noqa: B008

    assert of(odd).json_schema()["properties"] == {
        "thing": {},
        "*rest": {"type": "array", "items": {"type": "integer"}},
        "**options": {"type": "object", "additionalProperties": {"type": "string"}},
    }
