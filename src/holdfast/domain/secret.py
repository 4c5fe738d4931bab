"""What must not be shown: fields that are marked, and those whose name says it.

`password: Annotated[str, Secret()]` marks a parameter, a field of a model, or a result; the task gets the value, and whoever
looks at the job "[redacted]". Without a mark a field is secret if it is called like one of `NAMES`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints
from urllib.parse import quote, quote_plus

REDACTED: Final = "[redacted]"
WHOLE: Final = "*"
"""Among marked names: all of the value is secret."""
NAMES: Final = frozenset({
    "accesskey", "accesstoken", "apikey", "apisecret", "apitoken", "authorization", "authtoken", "bearertoken", "clientsecret",
    "cookie", "credential", "credentials", "encryptionkey", "idtoken", "passphrase", "passwd", "password", "privatekey",
    "proxyauthorization", "pwd", "refreshtoken", "secret", "secretaccesskey", "secretkey", "sessiontoken", "setcookie",
    "signingkey", "token", "webhooksecret", "xapikey",
})  # fmt: skip
"""Compared without regard to case, `_` and `-`: `API_KEY`, `api-key` and `apiKey` are one."""
SCRUBBED_CHARS_MIN: Final = 4
"""Shorter values are not looked for in text: they would be found everywhere."""

Marked = frozenset[str]
"""Names that are secret wherever they stand in a value."""
NOTHING: Final[Marked] = frozenset()
_UPPER: Final = re.compile(r"\\u([0-9a-f]{4})")


class Secret:
    """`Annotated[str, Secret()]`: shown to nobody but the task."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret()"


def is_secret(name: object, marked: Marked = NOTHING) -> bool:
    """What is no text is no name, but may be asked about: it comes from a value that cannot be stored."""
    return isinstance(name, str) and (name in marked or name.lower().replace("_", "").replace("-", "") in NAMES)


def marks_of(thaw: object) -> Marked:
    """What the task of such a reader of stored values has marked; see `registry`."""
    marked: Marked = getattr(thaw, "marked", NOTHING)
    return marked


def redact(value: Any, marked: Marked = NOTHING) -> Any:
    """Plain JSON data without its secrets; the value itself is left as it is."""
    if WHOLE in marked:
        return None if value is None else REDACTED
    if isinstance(value, dict):
        return {name: _field(name, inner, marked) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redact(inner, marked) for inner in value]
    return value


def _field(name: str, value: Any, marked: Marked) -> Any:
    return REDACTED if value is not None and is_secret(name, marked) else redact(value, marked)


def secrets_in(value: Any, marked: Marked = NOTHING) -> set[str]:
    """The texts that `redact` would take out of a value."""
    return set(_texts(value, marked, WHOLE in marked))


def _texts(value: Any, marked: Marked, secret: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, marked, secret or is_secret(name, marked))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, marked, secret)
    elif secret and value is not None and not isinstance(value, bool):
        yield str(value)


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Text that others worded, without the secrets that are known.

    A secret is found as it is and as it is quoted: by `repr` and `ascii`, also of its bytes; by JSON, with escapes or without,
    and JSON within JSON; in a URL (%XX, in a query or a path); and as base64 of the whole. Not found is what only code can see:
    a part of it, a digest, base64 of it together with something else (as of `user:password`), another encoding.
    """
    known = {secret for secret in secrets if len(secret) >= SCRUBBED_CHARS_MIN}
    forms = {form for secret in known for form in _quoted(secret) if len(form) >= SCRUBBED_CHARS_MIN}
    for form in sorted(forms, key=len, reverse=True):  # a secret may hold another
        text = text.replace(form, REDACTED)
    return text


def _quoted(secret: str) -> set[str]:
    """The ways in which a text is written, all without the quotes around them."""
    data = secret.encode("utf-8", "surrogatepass")
    forms = {secret, repr(secret)[1:-1], ascii(secret)[1:-1], repr(data)[2:-1]}
    # Which quotes `repr` escapes depends on what else is in the text that it quotes.
    forms |= {form.replace("\\'", "'").replace("'", "\\'") for form in forms}
    written = [json.dumps(secret, ensure_ascii=escaped)[1:-1] for escaped in (True, False)]
    forms |= {way for form in written for way in (form, form.replace("/", "\\/"), _UPPER.sub(_upper, form))}
    forms |= {again for form in written for again in (json.dumps(form)[1:-1], repr(form)[1:-1], repr(form.encode())[2:-1])}
    forms |= {quote(data, safe="/"), quote(data, safe=""), quote_plus(data)}
    forms |= {b64encode(data).decode(), b64encode(data).decode().rstrip("="), urlsafe_b64encode(data).decode()}
    return forms


def _upper(escape: re.Match[str]) -> str:
    return "\\u" + escape[1].upper()


def marked_in(annotation: Any) -> Marked:
    """The names that an annotation marks, at any depth; `WHOLE` if it is marked itself, or what it is a list of."""
    return frozenset(_marked(annotation, frozenset()))


def _marked(annotation: Any, above: frozenset[type]) -> set[str]:
    if isinstance(annotation, str):  # it could not be read: what it says has to do
        return {WHOLE} if Secret.__name__ in annotation else set()
    if get_origin(annotation) is Annotated:
        kind, *notes = get_args(annotation)
        return {WHOLE} if any(note is Secret or isinstance(note, Secret) for note in notes) else _marked(kind, above)
    if hasattr(annotation, "__supertype__"):
        return _marked(annotation.__supertype__, above)
    if hasattr(annotation, "__value__"):
        return _marked(annotation.__value__, above)
    within = {name for inner in get_args(annotation) for name in _marked(inner, above)}
    kind = get_origin(annotation) or annotation
    if not isinstance(kind, type) or kind in above:
        return within
    return within | _marked_fields(kind, above | {kind})


def _marked_fields(kind: type, above: frozenset[type]) -> set[str]:
    if not _has_fields(kind):
        return set()
    found: set[str] = set()
    for name, hint in _hints(kind).items():
        within = _marked(hint, above)
        found |= within - {WHOLE} | (_written_as(kind, name) if WHOLE in within else set())
    return {WHOLE} if found and _is_array(kind) else found


def _hints(kind: type) -> dict[str, Any]:
    model = getattr(kind, "model_fields", None)
    if isinstance(model, dict):  # pydantic has read them already
        return {name: Annotated[(field.annotation, *field.metadata, None)] for name, field in model.items()}
    try:
        return get_type_hints(kind, include_extras=True)
    except Exception:  # a name that only a type checker can see
        return {name: said for each in reversed(kind.__mro__) for name, said in vars(each).get("__annotations__", {}).items()}


def _has_fields(kind: type) -> bool:
    marks = ("__struct_fields__", "__attrs_attrs__", "model_fields", "_fields", "__total__")
    return dataclasses.is_dataclass(kind) or any(hasattr(kind, mark) for mark in marks)


def _is_array(kind: type) -> bool:
    """Written without names."""
    config = getattr(kind, "__struct_config__", None)
    return hasattr(kind, "_fields") or bool(config is not None and config.array_like)


def _written_as(kind: type, name: str) -> set[str]:
    """The field's own name, and the ones under which it may stand in JSON."""
    renamed = dict(zip(getattr(kind, "__struct_fields__", ()), getattr(kind, "__struct_encode_fields__", ()), strict=True))
    model = getattr(kind, "model_fields", {}).get(name)
    aliases = [getattr(model, which, None) for which in ("alias", "serialization_alias", "validation_alias")]
    return {name, renamed.get(name, name), *(alias for alias in aliases if isinstance(alias, str))}
