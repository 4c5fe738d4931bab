"""A task's signature, compiled once: a call becomes one JSON object, and that object a call again.

The object maps a parameter's name to its value and holds only what was given; defaults are the function's own,
at run time. `*pages` is stored as a list under "*pages" and `**options` as an object under "**options": no
parameter has such a name, and nothing inside is taken for a parameter. Accepted means runnable: arguments are
checked against the annotations before they are stored.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import reduce
from inspect import Parameter
from math import inf
from operator import or_
from pathlib import PurePath
from types import GenericAlias, SimpleNamespace, UnionType
from typing import Annotated, Any, Final, NoReturn, Optional, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import asdict

from holdfast.domain.bounds import PAYLOAD_BYTES_MAX, RESULT_BYTES_MAX
from holdfast.domain.codec import decodable, decode, decoder, encode, typed
from holdfast.domain.secret import WHOLE, Marked, is_secret, marked_in, secrets_in
from holdfast.domain.simple import is_model
from holdfast.domain.text import show
from holdfast.errors import PayloadError

_STARS: Final[dict[Any, str]] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
_UNTOLD: Final = "does not fit, or cannot be JSON; it is secret, or holds a secret, so more cannot be said"
_NAMED: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_QUOTED: Final = re.compile(r"'(\w+)'")


class UnknownArgument(PayloadError):
    """A stored argument that the function does not take: that of a newer program may, or that of an older one did."""


class Signature:
    """The arguments and the result of one task, in both directions."""

    def __init__(
        self,
        name: str,
        signature: inspect.Signature,
        hints: Mapping[str, Any],
        context: Parameter | None = None,
    ) -> None:
        parameters = signature.parameters.values()
        self.secrets = _marked(list(parameters), hints)
        self.result_secrets = marked_in(hints.get("return", Any))
        self.text = name + _printable(signature, self.secrets)
        self._signature = signature
        self._context = context
        self._kinds = {_key(p): _field_type(p, hints) for p in parameters}
        self._keys = {p.name: _key(p) for p in parameters}
        self._inner = {_key(p): _marked_in(p, hints) for p in parameters}
        self._names = tuple(signature.parameters)
        self._known = frozenset(self._names)
        self._positional = tuple(p.name for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD)
        self._required = frozenset(p.name for p in parameters if _is_required(p))
        # This many positional leave nothing missing; no number does if a required one is keyword-only.
        self._enough = len(self._required) if self._required <= set(self._positional) else inf
        self._optional = len(self._required) < len(self._names)
        self._by_keyword = frozenset(p.name for p in parameters if p.kind in _NAMED)
        self._options = next((_key(p) for p in parameters if p.kind is Parameter.VAR_KEYWORD), "")
        self._simple = all(p.kind in _NAMED for p in parameters)
        self._checked = any(kind is not Any for kind in self._kinds.values())
        self._struct = _struct(parameters=list(parameters), kinds=self._kinds)
        self._decode = typed(self._struct).decode
        self._decode_result = decoder(hints.get("return", Any))

    @classmethod
    def of(cls, fn: Callable[..., Any], *, takes_context: bool) -> Signature:
        """The signature of `fn`, without its first parameter if that one is the Context."""
        signature = inspect.signature(fn)
        parameters = list(signature.parameters.values())
        context = parameters.pop(0) if takes_context else None
        module, name = (getattr(fn, part, None) for part in ("__module__", "__qualname__"))
        title = f"{module}.{name}" if module and name else name or type(fn).__qualname__
        return cls(title, signature.replace(parameters=parameters), _hints(fn), context)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The JSON object of what was given; PayloadError if the task could not be called with it."""
        given = self._gather(args, kwargs) if self._simple else None
        if given is None:
            given = self._gather_slowly(args, kwargs)
        try:
            text = encode(given, "arguments", PAYLOAD_BYTES_MAX)
        except PayloadError as error:
            self._refuse(given, error)
        if self._checked:
            try:
                self._decode(text)
            except Exception as error:  # a dataclass or a model may raise what it likes
                raise self._misfit(text, error) from error
        return text

    def load(self, text: str) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments for the call, typed by annotation."""
        try:
            given = asdict(self._decode(text))
        except Exception as error:
            raise self._misfit(text, error) from error
        if self._optional:
            given = {name: value for name, value in given.items() if value is not msgspec.UNSET}
        return ([], given) if self._simple else self._spread(given)

    def named(self, text: str) -> dict[str, Any]:
        """The stored arguments by parameter name, typed; only those that were given."""
        try:
            given = asdict(self._decode(text))
        except Exception as error:
            raise self._misfit(text, error) from error
        return {name: value for name, value in given.items() if value is not msgspec.UNSET}

    def encode_result(self, value: object) -> str:
        what = f"result of {self.text}"
        try:
            return encode(value, what, RESULT_BYTES_MAX)
        except PayloadError:
            if self.result_secrets:
                raise PayloadError(f"{what}: {_UNTOLD}") from None
            raise

    def decode_result(self, text: str) -> Any:
        """The result by the return annotation; as plain data if it is not, or no longer, what that says."""
        try:
            return self._decode_result(text)
        except PayloadError:
            return decode(text)

    def json_schema(self) -> dict[str, Any]:
        """JSON schema of the arguments object, with the defaults that JSON can say."""
        shared: dict[str, Any] = {}
        (root,), definitions = msgspec.json.schema_components(
            (self._struct,),
            schema_hook=lambda kind: _foreign_schema(kind, shared),
            ref_template="#/$defs/{name}",
        )
        schema: dict[str, Any] = definitions.pop(root["$ref"].removeprefix("#/$defs/"))
        schema["title"] = self.text
        for parameter in self._signature.parameters.values():
            if parameter.default is not Parameter.empty and not is_secret(parameter.name, self.secrets):
                _tell_default(schema["properties"][parameter.name], parameter.default)
        if definitions := {**shared, **definitions}:
            schema["$defs"] = definitions
        return schema

    def _gather(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """What `inspect` would bind, in a tenth of the time; None if anything is out of the ordinary."""
        names = self._positional
        if len(args) > len(names):
            return None
        given: dict[str, Any] = {}
        for index, value in enumerate(args):
            given[names[index]] = value
        if not kwargs:
            return given if len(args) >= self._enough else None
        given.update(kwargs)
        if len(given) < len(args) + len(kwargs) or not self._required <= given.keys() <= self._known:
            return None
        return given if len(kwargs) == 1 else {name: given[name] for name in self._names if name in given}

    def _gather_slowly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        context = self._context
        if context and context.name in kwargs and context.kind is not Parameter.POSITIONAL_ONLY:
            raise PayloadError(f"argument {context.name!r} of {self.text}: the worker gives it; leave it out", context.name)
        # `**options` may hold the name of a positional-only parameter; `bind` of Python 3.11 refuses that.
        own = {name: value for name, value in kwargs.items() if not self._options or name in self._by_keyword}
        try:
            bound = self._signature.bind(*args, **own).arguments
        except TypeError as error:
            named = _QUOTED.search(str(error))
            raise PayloadError(f"arguments of {self.text}: {show(error)}{self._hint}", named[1] if named else None) from None
        given = {self._keys[name]: value for name, value in bound.items()}
        if len(own) < len(kwargs):
            given[self._options] = {name: value for name, value in kwargs.items() if name not in own}
        return given

    @property
    def _hint(self) -> str:
        """For a first parameter that reads as the Context and is not annotated as one."""
        first = next(iter(self._signature.parameters.values()), None)
        if first is None or first.name not in ("ctx", "context") or first.annotation is not Parameter.empty:
            return ""
        return f"; if {first.name!r} is meant to be the job's Context, annotate it: {first.name}: Context"

    def _spread(self, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        parameters = self._signature.parameters.values()
        has_rest = any(p.kind is Parameter.VAR_POSITIONAL and given.get(p.name) for p in parameters)
        positional: list[Any] = []
        for parameter in parameters:
            name, kind = parameter.name, parameter.kind
            if kind is Parameter.POSITIONAL_ONLY or (has_rest and kind is Parameter.POSITIONAL_OR_KEYWORD):
                positional.append(given.pop(name, parameter.default))
            elif kind is Parameter.VAR_POSITIONAL:
                positional.extend(given.pop(name, ()))
            elif kind is Parameter.VAR_KEYWORD:
                given.update(given.pop(name, {}))
        return positional, given

    def _refuse(self, given: dict[str, Any], error: PayloadError) -> NoReturn:
        """Name the argument: by encoding them one by one."""
        for key, value in given.items():
            try:
                encode(value, f"argument {key!r} of {self.text}", PAYLOAD_BYTES_MAX)
            except PayloadError as fault:
                if self._hides(key, value):
                    raise PayloadError(f"argument {key!r} of {self.text}: {_UNTOLD}", key) from None
                fault.argument = key
                raise
        raise PayloadError(str(error).replace("arguments", f"arguments of {self.text}", 1)) from None

    def _misfit(self, text: str, error: Exception) -> PayloadError:
        """Which argument does not fit, and how: by decoding them one by one."""
        try:
            given = decoder(dict[str, Any])(text)
        except PayloadError as malformed:
            return PayloadError(f"arguments of {self.text}: {malformed}")
        if unknown := [key for key in given if key not in self._kinds]:
            return UnknownArgument(
                f"argument {unknown[0]!r} of {self.text}: there is no such parameter (any more); "
                "let the task take it, or enqueue the job again without it",
                unknown[0],
            )
        if missing := [name for name in self._names if name in self._required and name not in given]:
            return PayloadError(
                f"argument {missing[0]!r} of {self.text}: is not in the stored arguments; "
                "give the parameter a default, or enqueue the job again",
                missing[0],
            )
        for key, value in given.items():
            try:
                decoder(self._kinds[key])(encode(value, "value", PAYLOAD_BYTES_MAX))
            except PayloadError as misfit:
                said = _UNTOLD if self._hides(key, value) else misfit
                return PayloadError(f"argument {key!r} of {self.text}: {said}", key, misfit.place)
        hidden = any(self._hides(key, value) for key, value in given.items())
        return PayloadError(f"arguments of {self.text}: {_UNTOLD if hidden else show(error)}")

    def _hides(self, key: str, value: Any) -> bool:
        """Whether a fault in this argument had better be told without the value."""
        return is_secret(key, self.secrets) or bool(self._inner[key]) or bool(secrets_in(value))


class _Label:
    """Stands in for an annotation or a default, so that `inspect` prints it on one line and short."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _printable(signature: inspect.Signature, secrets: Marked) -> str:
    parameters = [_labelled(parameter, secrets) for parameter in signature.parameters.values()]
    return str(inspect.Signature(parameters))


def _marked(parameters: list[Parameter], hints: Mapping[str, Any]) -> Marked:
    """The names in the stored arguments that are marked as secret."""
    names: set[str] = set()
    for parameter in parameters:
        within = _marked_in(parameter, hints)
        names |= within - {WHOLE} | ({_key(parameter)} if WHOLE in within else set())
    return frozenset(names)


def _marked_in(parameter: Parameter, hints: Mapping[str, Any]) -> Marked:
    hint = hints.get(parameter.name, Any)
    return marked_in(parameter.annotation if hint is Any and isinstance(parameter.annotation, str) else hint)


def _labelled(parameter: Parameter, secrets: Marked) -> Parameter:
    annotation, default = parameter.annotation, parameter.default
    if annotation is not Parameter.empty:
        said = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
        annotation = _Label(" ".join(said.split()))
    if default is not Parameter.empty:
        default = _Label("…" if default is not None and is_secret(parameter.name, secrets) else show(default))
    return parameter.replace(annotation=annotation, default=default)


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    target = inspect.unwrap(fn)
    try:
        return get_type_hints(target, include_extras=True)
    except Exception:  # one name that only a type checker can see must not cost the others
        namespace = getattr(target, "__globals__", {})
        annotations = getattr(target, "__annotations__", {})
        return {name: _hint(name, said, namespace) for name, said in annotations.items()}


def _hint(name: str, annotation: Any, namespace: dict[str, Any]) -> Any:
    alone = SimpleNamespace(__annotations__={name: annotation})
    try:
        return get_type_hints(alone, namespace, include_extras=True)[name]
    except Exception:  # evaluating what the user wrote may raise anything
        return Any


def _key(parameter: Parameter) -> str:
    return _STARS.get(parameter.kind, "") + parameter.name


def _is_required(parameter: Parameter) -> bool:
    return parameter.default is Parameter.empty and parameter.kind not in _STARS


def _field_type(parameter: Parameter, hints: Mapping[str, Any]) -> Any:
    kind = _aware(hints.get(parameter.name, Any))
    if parameter.default is None:
        kind = Optional[kind]  # noqa: UP045  (`x: str = None` means it, and `|` does not take every annotation)
    kind = decodable(kind)
    if parameter.kind is Parameter.VAR_POSITIONAL:
        return GenericAlias(list, (kind,))
    return GenericAlias(dict, (str, kind)) if parameter.kind is Parameter.VAR_KEYWORD else kind


def _aware(kind: Any) -> Any:
    """A datetime that comes as text, from the web or a prompt, needs its timezone like any other."""
    if kind is datetime:
        return Annotated[datetime, msgspec.Meta(tz=True)]
    if get_origin(kind) in (Union, UnionType):
        return reduce(or_, map(_aware, get_args(kind)))
    return kind


def _struct(parameters: list[Parameter], kinds: Mapping[str, Any]) -> type[msgspec.Struct]:
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    for parameter in parameters:
        kind = kinds[_key(parameter)]
        needed = _is_required(parameter)
        fields.append((parameter.name, kind) if needed else (parameter.name, kind, msgspec.UNSET))
    names = {parameter.name: _key(parameter) for parameter in parameters}
    return msgspec.defstruct("Arguments", fields, rename=names, kw_only=True, forbid_unknown_fields=True)


def _foreign_schema(kind: type, shared: dict[str, Any]) -> dict[str, Any]:
    if issubclass(kind, PurePath):
        return {"type": "string", "format": "path"}
    if not is_model(kind):
        return {}
    schema: dict[str, Any] = kind.model_json_schema()  # type: ignore[attr-defined]  # a pydantic model
    shared.update(schema.pop("$defs", {}))
    return schema


def _tell_default(schema: dict[str, Any], default: object) -> None:
    try:
        schema["default"] = decode(encode(default, "default", PAYLOAD_BYTES_MAX))
    except PayloadError:
        return
