"""Pages for people: the jobs, one job, the login form.

They are files of the package, taken from a fixed map: no path that somebody sends ever reaches the disk. What they show they
ask of the API, so they hold no data and need no template.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import Response

from holdfast.domain.event import MOVED
from holdfast.domain.states import FINAL, State, verbs
from holdfast.web.dependencies import Reader
from holdfast.web.problem import Problem

router = APIRouter(include_in_schema=False)

_HERE: Final = Path(__file__).parent / "static"
_TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FRESH: Final = "no-cache"
"""A browser keeps them, and asks every time whether they are still the same: after an upgrade no page has two versions."""


class Asset(NamedTuple):
    media_type: str
    content: bytes
    tag: str


def _asset(media_type: str, content: bytes) -> Asset:
    return Asset(media_type, content, f'"{hashlib.sha256(content).hexdigest()[:32]}"')


def _states_module() -> bytes:
    """The table of moves for the page, whose buttons are drawn from it."""
    facts = {
        "STATES": list(State),
        "FINAL": [state for state in State if state in FINAL],
        "VERBS": {state: verbs(state) for state in State},
        "MOVED": sorted(MOVED),
    }
    lines = [f"export const {name} = {msgspec.json.encode(value).decode()};" for name, value in facts.items()]
    return "\n".join(["// Made from domain/states.py.", *lines, ""]).encode()


ASSETS: Final = {
    **{path.name: _asset(_TYPES[path.suffix], path.read_bytes()) for path in _HERE.iterdir() if path.suffix in _TYPES},
    "states.js": _asset(_TYPES[".js"], _states_module()),
}
_LIST, _JOB, _LOGIN = ((_HERE / f"{name}.html").read_text(encoding="utf-8") for name in ("list", "job", "login"))


@router.get("/")
async def jobs_page(_: Reader) -> Response:
    return _page(_LIST, "./")


@router.get("/jobs/{id:path}")
async def job_page(request: Request, id: str, _: Reader) -> Response:
    return _page(_JOB, _way_up(request, id))


@router.get("/login")
async def login_page() -> Response:
    return _page(_LOGIN, "./")


@router.get("/static/{name}")
async def asset(request: Request, name: str) -> Response:
    found = ASSETS.get(name)
    if found is None:
        raise Problem(404, "there is nothing at this path")
    headers = {"cache-control": _FRESH, "etag": found.tag}
    if found.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(found.content, headers=headers, media_type=found.media_type)


def _page(html: str, root: str) -> Response:
    """All addresses in it are relative, since only the browser knows under which path it reached us."""
    return Response(html.replace("{root}", root), headers={"cache-control": _FRESH}, media_type="text/html")


def _way_up(request: Request, id: str) -> str:
    """From a job's page to the root: one step more for each slash of an id that was typed as it is."""
    sent = request.scope.get("raw_path")
    encoded = id.count("/") if sent is None else request.scope["path"].count("/") - sent.partition(b"?")[0].count(b"/")
    return "../" * (1 + max(0, id.count("/") - encoded))
