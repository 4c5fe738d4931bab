"""Text that is ours to word: short, on one line, and storable whatever it was made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Final

from holdfast.domain.secret import scrub

SHOWN_CHARS_MAX: Final = 80
HIDDEN: Final[ContextVar[Callable[[], Iterable[str]]]] = ContextVar("hidden", default=tuple)
"""The secrets of the job whose code runs here. They are taken out before a value is clipped: a part of one would not be found."""


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
    """A value in an error message: on one line, short, and without the secrets of the job whose code runs here."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"of {value.bit_length():,} bits"
    try:
        text = str(value) if isinstance(value, Exception) else repr(value)
    except Exception:  # a broken __repr__ must not hide the error that is being told
        text = f"<{name_of(type(value))}>"
    return shorten(text, SHOWN_CHARS_MAX * (4 if isinstance(value, Exception) else 1))


def shorten(text: str, chars_max: int = SHOWN_CHARS_MAX) -> str:
    """Text that quotes a value: on one line, clipped, and without the secrets of the job whose code runs here."""
    return clip(" ".join(scrub(text, HIDDEN.get()()).split()), chars_max)


def name_of(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _gap(chars: int) -> str:
    return f" [… {chars:,} characters left out …] "
