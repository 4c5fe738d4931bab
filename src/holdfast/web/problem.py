"""Every error over HTTP is a problem document (RFC 9457): what was wrong, with the value, and what to do about it.

One table says which status each of our errors has. What is not in it is a bug of ours: it is logged with its traceback, and
the answer says no more than that.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Final, NotRequired

import msgspec
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import TypedDict

from holdfast.domain.sanitize import one_line
from holdfast.errors import (
    Changed,
    Conflict,
    HoldfastError,
    IllegalMove,
    JobNotFound,
    LeaseLost,
    PayloadError,
    QueueFull,
    SettingError,
    StoreUnavailable,
    UnknownTask,
)
from holdfast.web.paths import route_path

log = logging.getLogger("holdfast.web")

MEDIA_TYPE: Final = "application/problem+json"
STORE_RETRY_SECONDS: Final = 5
STATUSES: Final[tuple[tuple[type[HoldfastError], int], ...]] = (
    (PayloadError, 422),
    (SettingError, 422),
    (UnknownTask, 422),
    (JobNotFound, 404),
    (Changed, 412),
    (Conflict, 409),
    (IllegalMove, 409),
    (LeaseLost, 409),
    (QueueFull, 429),
    (StoreUnavailable, 503),
)


class FieldProblem(TypedDict):
    """One field that does not fit."""

    pointer: Annotated[str, Field(description="Where in the request: a JSON pointer into the body, or the parameter's name.")]
    detail: str


class ProblemDocument(TypedDict):
    """RFC 9457. `errors` names the fields, where fields are at fault."""

    type: str
    title: str
    status: int
    detail: str
    errors: NotRequired[list[FieldProblem]]
    depth: NotRequired[Annotated[int, Field(description="Of a full queue: how many jobs wait.")]]
    max_depth: NotRequired[Annotated[int, Field(description="Of a full queue: how many may wait.")]]


class Problem(Exception):
    """An answer that is an error: `raise Problem(404, "there is no job 'x'")`."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        title: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail
        self.title = title or _phrase(status)
        self.headers, self.extra = dict(headers or {}), dict(extra or {})

    def document(self) -> dict[str, Any]:
        return {**self.extra, "type": "about:blank", "title": self.title, "status": self.status, "detail": self.detail}

    def response(self) -> Response:
        content = msgspec.json.encode(self.document())
        headers = {"cache-control": "no-store", **self.headers}
        return Response(content, self.status, headers=headers, media_type=MEDIA_TYPE)


def misfit(pointer: str, detail: str) -> Problem:
    """A 422 about one field."""
    return Problem(422, f"{pointer}: {detail}" if pointer else detail, extra={"errors": [{"pointer": pointer, "detail": detail}]})


def problem_of(error: Exception) -> Problem:
    """Any exception as a problem."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return Problem(error.status_code, _words(error), headers=_lower(error.headers))
    if isinstance(error, RequestValidationError):
        return _misfits(error)
    for kind, status in STATUSES:
        if isinstance(error, kind):
            return Problem(status, str(error), headers=_retry_after(error), extra=_extra(error))
    log.error("an answer became a 500: %s: %s", type(error).__name__, one_line(str(error)), exc_info=error)
    return Problem(500, "an error of the server; its log has the rest")


def install(web: FastAPI, methods: Callable[[str], set[str]]) -> None:
    """Let every error that a route raises be answered with a problem document; `methods` are those that a path takes."""

    async def answer(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status == 405 and (taken := methods(route_path(request.scope))):
            problem.headers["allow"] = ", ".join(sorted(taken))
        return problem.response()

    for kind in (Problem, HoldfastError, HTTPException, RequestValidationError, Exception):
        web.add_exception_handler(kind, answer)


class Rescue:
    """ASGI middleware for what no handler took: the client gets a problem document, never a traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        begun = False

        async def watched(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            if begun:  # the client has half an answer: only a broken connection tells it so
                raise
            await problem_of(error).response()(scope, receive, send)


def _words(error: HTTPException) -> str:
    words = {404: "there is nothing at this path", 405: "this path does not take this method"}
    return words.get(error.status_code, str(error.detail)) if error.detail == _phrase(error.status_code) else str(error.detail)


def _lower(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): value for name, value in (headers or {}).items()}


def _misfits(error: RequestValidationError) -> Problem:
    errors = [{"pointer": _pointer(each["loc"]), "detail": str(each["msg"])} for each in error.errors()]
    detail = "; ".join(f"{each['pointer']}: {each['detail']}" for each in errors[:5])
    return Problem(422, detail, extra={"errors": errors})


def _pointer(place: tuple[int | str, ...]) -> str:
    return "/" + "/".join(str(step) for step in place[1:]) if place[:1] == ("body",) else ".".join(map(str, place[1:]))


def _retry_after(error: HoldfastError) -> dict[str, str]:
    if isinstance(error, QueueFull):
        return {"retry-after": str(max(1, math.ceil(error.retry_after)))}
    return {"retry-after": str(STORE_RETRY_SECONDS)} if isinstance(error, StoreUnavailable) else {}


def _extra(error: HoldfastError) -> dict[str, Any]:
    if isinstance(error, Conflict) and error.job is not None:
        return {"job": error.job.id}
    if isinstance(error, QueueFull):
        return {"depth": error.depth, "max_depth": error.max_depth}
    return {}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
