"""The tag of an answer about a job or a queue: how many events or changes it has, and a digest of what was said.

The digest tells a cache that nothing changed. The number is what `If-Match` compares, inside the transaction of the move: a
job or a queue on which nothing has happened since it was looked at.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from fastapi.responses import Response

from holdfast.web.problem import Problem

_TAG: Final = re.compile(r'(?:W/)?"(\d{1,18})-[0-9a-f]+"')


def tagged(count: int, content: bytes, known: str | None = None) -> Response:
    """JSON with its ETag; nothing but that, if the caller has it already."""
    tag = tag_of(count, content)
    headers = {"etag": tag, "cache-control": "no-cache"}
    if is_known(known, tag):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type="application/json")


def tag_of(count: int, content: bytes) -> str:
    return f'"{count}-{hashlib.blake2b(content, digest_size=8).hexdigest()}"'


def is_known(header: str | None, tag: str) -> bool:
    """Whether `If-None-Match` names this very answer."""
    if header is None:
        return False
    named = {each.strip().removeprefix("W/") for each in header.split(",")}
    return tag in named or "*" in named


def expected_count(header: str | None, of: str = "job") -> int | None:
    """The count that `If-Match` asks for; None: any."""
    if header is None or header.strip() == "*":
        return None
    found = _TAG.fullmatch(header.strip())
    if found is None:
        raise Problem(412, f"If-Match {header[:100]!r} is no ETag of a {of}; send the one that GET gave, or leave it out")
    return int(found[1])
