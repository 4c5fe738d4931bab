"""No text of a job can move the cursor, change colours, hide or reorder what an operator reads."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.screen import compact, json_text
from holdfast.domain.sanitize import clean, one_line

UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\rb", "a\\rb"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x9b31m", "\\x9b31m"),
        ("\x7f", "\\x7f"),
        ("abc\u202edef", "abc\\u202edef"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\u2028", "\\u2028"),
        ("\ufeff", "\\ufeff"),
        ("\ud800", "\\ud800"),
        ("grün 日本 🙂", "grün 日本 🙂"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
    ],
)
def test_what_a_terminal_would_obey_is_escaped(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_lines_keeps_line_breaks_and_nothing_else() -> None:
    assert clean("a\r\n\tb\rc\x1b", lines=True) == "a\n\tb\\rc\\x1b"


def test_an_error_is_one_line() -> None:
    assert one_line(" a\n b\r\n\x1bc ") == "a b \\x1bc"


@given(st.text(st.characters()))
def test_nothing_unseen_survives(text: str) -> None:
    for shown in (clean(text), one_line(text), compact({"text": text})):
        assert not [char for char in shown if unicodedata.category(char) in UNSEEN and char not in "\u200c\u200d"]


@given(st.text(st.characters()))
def test_json_output_is_printable_ascii(text: str) -> None:
    shown = json_text({"text": text}, indent=None)
    assert shown.isascii()
    assert shown.isprintable()
