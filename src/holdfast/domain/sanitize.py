"""Text that others wrote, made harmless for a terminal and a log: nothing in it can move the cursor, hide or reorder.

What a terminal would obey and not show is written as Python escapes it: control characters, invisible marks, marks that
turn the direction of text, line separators, halves of a surrogate pair.
"""

from __future__ import annotations

import unicodedata
from typing import Final

_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS: Final = "\u200c\u200d"
"""They shape letters of Persian and many emoji, and cannot reorder anything."""


def clean(text: str, *, lines: bool = False) -> str:
    """One line of `text`; with `lines`, its line breaks and tabs stay as they are."""
    kept = "\n\t" if lines else ""
    if text.isascii() and text.isprintable():
        return text
    if lines:
        text = text.replace("\r\n", "\n")
    return "".join(char if char in kept or not _is_unseen(char) else _escaped(char) for char in text)


def one_line(text: str) -> str:
    """For errors: line breaks become spaces, everything else as in `clean`."""
    return clean(" ".join(text.split()))


def clip(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[: chars_max - 1]}…"


def _is_unseen(char: str) -> bool:
    return unicodedata.category(char) in _UNSEEN and char not in _JOINERS


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
