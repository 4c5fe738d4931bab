"""A job's id in a path: one segment of it, whatever is in the id.

Ids may hold slashes. `/api/jobs/a%2Fb/events` is clear; most servers and proxies decode it on the way, and many people never
encode it. So the path is looked at as it was sent, and what belongs to the id is put into one segment: all up to a word that
some route ends in. An id that itself ends in such a word has to be encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.types import ASGIApp, Receive, Scope, Send

JOBS: Final = "/api/jobs"
_SLASH: Final = "%2F"


def job_path(root_path: str, id: str) -> str:
    """Where a job is, seen from outside."""
    return f"{root_path}{JOBS}/{quote(id, safe='')}"


def route_path(scope: Scope) -> str:
    """The path as the routes see it: without what we are mounted under."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def id_in(segment: str) -> str:
    """The id that a route was given."""
    return segment.replace(_SLASH, "/")


def tails(paths: Iterable[str]) -> list[tuple[str, ...]]:
    """What comes after an id in the paths of the routes, longest first."""
    start = f"{JOBS}/{{id}}/"
    found = {tuple(path.removeprefix(start).split("/")) for path in paths if path.startswith(start)}
    return sorted(found, key=len, reverse=True)


def one_segment(path: str, endings: Sequence[tuple[str, ...]]) -> str:
    """`path` is what was sent, still encoded, from `/api/jobs/` on; decoded, and the slashes of the id as `%2F`."""
    segments = path.split("/")
    tail = next((ending for ending in endings if _ends_in(segments, ending)), ())
    cut = len(segments) - len(tail)
    id = unquote("/".join(segments[:cut])).replace("/", _SLASH)
    return "/".join([id, *map(unquote, segments[cut:])])


def _ends_in(segments: list[str], ending: tuple[str, ...]) -> bool:
    if len(segments) <= len(ending):
        return False
    return all(_fits(segment, step) for segment, step in zip(segments[-len(ending) :], ending, strict=True))


def _fits(segment: str, step: str) -> bool:
    return segment == step or step.startswith("{")


class OneSegment:
    """ASGI middleware, inside of all others: they see the path as it came."""

    def __init__(self, app: ASGIApp, paths: Iterable[str]) -> None:
        self._app, self._endings = app, tails(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = self._rewritten(scope)
        await self._app(scope, receive, send)

    def _rewritten(self, scope: Scope) -> Scope:
        for prefix in (scope.get("root_path", ""), ""):  # a proxy may have taken it off the path, or not
            start = f"{prefix}{JOBS}/"
            if scope["path"].startswith(start):
                return {**scope, "path": start + one_segment(_sent(scope, start), self._endings)}
        return scope


def _sent(scope: Any, start: str) -> str:
    """The part after `/api/jobs/`, still encoded where the server tells."""
    raw = scope.get("raw_path")
    path = (raw or b"").decode("latin-1").partition("?")[0]
    return path[len(start) :] if path.startswith(start) else quote(scope["path"][len(start) :], safe="/")
