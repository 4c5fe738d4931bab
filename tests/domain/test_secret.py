"""Secrets are taken out of text in every way in which Python, JSON or a URL writes them."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretBytes, SecretStr, field_serializer

from holdfast import PayloadError
from holdfast.domain.codec import encode
from holdfast.domain.secret import REDACTED, SCRUBBED_CHARS_MIN, scrub

WAYS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "repr": lambda text: repr(text)[1:-1],
    "repr beside quotes": lambda text: repr(f"'\"{text}")[4:-1],
    "ascii": lambda text: ascii(text)[1:-1],
    "ascii beside quotes": lambda text: ascii(f"'\"{text}")[4:-1],
    "repr of bytes": lambda text: repr(text.encode())[2:-1],
    "repr of bytes beside quotes": lambda text: repr(f"'\"{text}".encode())[5:-1],
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON with \\/": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "repr of JSON": lambda text: repr(json.dumps(text, ensure_ascii=False)[1:-1])[1:-1],
    "repr of a body": lambda text: repr(json.dumps(text, ensure_ascii=False)[1:-1].encode())[2:-1],
    "in a path": quote,
    "in a query": quote_plus,
    "in a form": lambda text: urlencode({"x": text})[2:],
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: urlsafe_b64encode(text.encode()).decode(),
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=SCRUBBED_CHARS_MIN, max_size=30)
ODD = "Pä\"ss\\w0'rd/€ 😀\n"


@pytest.mark.parametrize("way", WAYS)
@given(secret=TEXT)
def test_m7_a_secret_is_found_in_whatever_way_it_is_quoted(way: str, secret: str) -> None:
    written = WAYS[way](secret)
    assume(written not in REDACTED)
    assert written not in scrub(f"400 Bad Request: {written}, and so on", {secret})


@pytest.mark.parametrize("way", WAYS)
def test_m7_an_odd_password_leaves_nothing_but_the_word(way: str) -> None:
    assert scrub(f"<{WAYS[way](ODD)}>", {ODD}) == f"<{REDACTED}>"


class Login(BaseModel):
    user: str
    password: SecretStr


class Logins(BaseModel):
    each: list[Login]
    token: SecretBytes = SecretBytes(b"")


class Written(BaseModel):
    password: SecretStr

    @field_serializer("password", when_used="json")
    def write(self, password: SecretStr) -> str:
        return password.get_secret_value()


def test_m8_a_secret_that_pydantic_would_write_as_stars_is_refused() -> None:
    login = Login(user="bob", password=SecretStr("hunter2"))
    for value, place in (
        (login, r"\.password"),
        ([login], r"\[0\]\.password"),
        (Logins(each=[login]), r"\.each\[0\]\.password"),
        (Logins(each=[], token=SecretBytes(b"hunter2")), r"\.token"),
    ):
        with pytest.raises(PayloadError, match=rf"at {place}: .* declare this as Annotated\[str, Secret\(\)\]") as refused:
            encode(value, "login", 1_000)
        assert "hunter2" not in str(refused.value)


def test_m8_a_model_that_writes_its_secret_itself_is_taken_at_its_word() -> None:
    assert encode(Written(password=SecretStr("hunter2")), "login", 1_000) == '{"password":"hunter2"}'
