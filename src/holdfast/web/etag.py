"""The tag of a job's answer: how many events it has, and a digest of what was said.

The digest tells a cache that nothing changed. The number is what `If-Match` compares, inside the transaction of the move: a
job on which nothing has happened since it was looked at.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from holdfast.domain.job import Job
from holdfast.web.problem import Problem

_TAG: Final = re.compile(r'(?:W/)?"(\d{1,18})-[0-9a-f]+"')


def tag_of(job: Job, content: bytes) -> str:
    return f'"{job.event_count}-{hashlib.blake2b(content, digest_size=8).hexdigest()}"'


def is_known(header: str | None, tag: str) -> bool:
    """Whether `If-None-Match` names this very answer."""
    if header is None:
        return False
    named = {each.strip().removeprefix("W/") for each in header.split(",")}
    return tag in named or "*" in named


def expected_count(header: str | None) -> int | None:
    """The event count that `If-Match` asks for; None: any."""
    if header is None or header.strip() == "*":
        return None
    found = _TAG.fullmatch(header.strip())
    if found is None:
        raise Problem(412, f"If-Match {header[:100]!r} is no ETag of a job; send the one that GET gave, or leave it out")
    return int(found[1])
