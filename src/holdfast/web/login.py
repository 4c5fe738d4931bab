"""Logging in with an API key, and out: a browser keeps a session, never the key."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import parse_qs

import msgspec
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from holdfast.web import session
from holdfast.web.access import Scope
from holdfast.web.dependencies import Reader
from holdfast.web.documents import Json
from holdfast.web.problem import Problem

router = APIRouter()


class SessionDocument(TypedDict):
    """Who is asking."""

    name: Annotated[str, Field(description="Of the API key.")]
    scope: Scope
    queues: Annotated[list[str] | None, Field(description="The only ones that the key is for; null: all.")]
    csrf: Annotated[str | None, Field(description=f"What a change by cookie must say as `{session.CSRF_HEADER}`.")]


@router.get("/api/session", tags=["access"], response_model=SessionDocument)
async def who(request: Request, caller: Reader) -> Response:
    """Who you are, and what you may do."""
    secret = session.secret_in(request.headers)
    queues = None if caller.queues is None else sorted(caller.queues)
    csrf = None if secret is None else session.csrf_token(secret)
    return Json({"name": caller.name, "scope": caller.scope, "queues": queues, "csrf": csrf})


@router.post("/login", include_in_schema=False)
async def log_in(request: Request) -> Response:
    """Exchange an API key, or the token, for a session, by a form or by JSON."""
    gate = request.app.state.gate
    caller = await gate.known(request.scope, _key_in(request.headers.get("content-type", ""), await request.body()))
    secret = await gate.keyring.open_session(caller)
    return _answer(request, secret, request.app.state.settings.session_seconds)


@router.post("/logout", include_in_schema=False)
async def log_out(request: Request, _: Reader) -> Response:
    secret = session.secret_in(request.headers)
    if secret is not None:
        await request.app.state.gate.keyring.close_session(secret)
    return _answer(request, "", 0)


def _answer(request: Request, secret: str, seconds: float) -> Response:
    """A form that was sent by hand goes on to the first page; a script knows where it wants to go."""
    by_hand = request.headers.get("sec-fetch-mode") == "navigate"
    path, secure = str(request.scope.get("root_path", "")), request.url.scheme == "https"
    headers = {"set-cookie": session.cookie(secret, seconds, path=path, secure=secure)}
    return (
        Response(status_code=303, headers={**headers, "location": "./"})
        if by_hand
        else Response(status_code=204, headers=headers)
    )


def _key_in(content_type: str, body: bytes) -> str:
    try:
        if content_type.partition(";")[0].strip().lower() == "application/json":
            given: Any = msgspec.json.decode(body, type=dict[str, str]).get("key", "")
        else:
            given = parse_qs(body.decode("ascii"), max_num_fields=10).get("key", [""])[0]
    except ValueError:
        raise Problem(422, "the body is no form, and no JSON, that has a field `key` with an API key") from None
    return str(given).strip()
