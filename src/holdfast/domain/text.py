"""Text that is ours to word: short, on one line, and storable whatever it was made from."""

from __future__ import annotations

from typing import Final

SHOWN_CHARS_MAX: Final = 80


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
        text = f"<{name_of(type(value))}>"
    return clip(" ".join(text.split()), SHOWN_CHARS_MAX * (4 if isinstance(value, Exception) else 1))


def name_of(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _gap(chars: int) -> str:
    return f" [… {chars:,} characters left out …] "
