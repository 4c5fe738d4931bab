"""A browser's session: a cookie that no script can read, and what keeps other people's pages from using it.

A browser sends the cookie along with whatever it is made to send. So a write must come from a page of ours (`Sec-Fetch-Site`, or
else `Origin`), and one that is let in by the cookie must also say a token that only a page of ours can have read.
"""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from holdfast.web.problem import Problem

COOKIE: Final = "holdfast_session"
CSRF_HEADER: Final = "x-holdfast-csrf"
READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OURS: Final = frozenset({"same-origin", "none"})


def secret_in(headers: Headers) -> str | None:
    """What the cookie says; the first, if there are several."""
    for part in ";".join(headers.getlist("cookie")).split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE and value:
            return value
    return None


def cookie(secret: str, seconds: float, *, path: str, secure: bool) -> str:
    """For `Set-Cookie`; of no use any more if `seconds` is 0."""
    made = SimpleCookie({COOKIE: secret})
    morsel = made[COOKIE]
    morsel["max-age"], morsel["path"] = int(seconds), path or "/"
    morsel["httponly"], morsel["samesite"] = True, "Strict"
    morsel["secure"] = secure
    return morsel.OutputString()


def csrf_token(secret: str) -> str:
    """Follows from the session's secret, and leads not back to it."""
    return hmac.digest(secret.encode(), b"holdfast csrf", hashlib.sha256).hex()


def check_token(headers: Headers, secret: str) -> None:
    if not hmac.compare_digest(headers.get(CSRF_HEADER, "").encode(), csrf_token(secret).encode()):
        raise Problem(403, f"a change by cookie must say the session's token as {CSRF_HEADER}; GET /api/session has it")


def check_origin(headers: Headers) -> None:
    """Refuse a write that a page from elsewhere made a browser send. Who is no browser says neither, and is not meant."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    same = origin is None or _place(origin) == headers.get("host", "").lower()
    if not (same if site is None else site in _OURS):
        raise Problem(403, f"a page at {(origin or site or '')[:100]!r} may not change anything here; send an API key instead")


def _place(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
