"""The OpenAPI document: what FastAPI finds in the routes, and for every route the problems that any can answer with."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from holdfast.web.new_job import CancelWanted, JobWanted, SkipWanted
from holdfast.web.problem import MEDIA_TYPE, ProblemDocument
from holdfast.web.queue_wanted import LimitsWanted, PauseWanted

TAGS: Final = [
    {"name": "jobs", "description": "Ask for a job, look at it, act on it."},
    {"name": "events", "description": "What happened, as a page or as a live stream that resumes."},
    {"name": "queues", "description": "Look at queues and their limits, change, pause and resume them."},
    {"name": "overview", "description": "Tasks, workers, counts, health and metrics."},
    {"name": "access", "description": "Who asks, and tickets for streams."},
]
_ABOUT: Final = """\
Durable jobs over HTTP. Every error is a problem document (RFC 9457). A job's id may hold slashes: send them as `%2F`.

A live stream is asked for with `Accept: text/event-stream`. The `id` of a frame is the event's number, `event` its kind, `data`
one line of JSON. `Last-Event-ID`, or `?after=`, goes on from there and misses nothing. The stream of a job ends with a frame
`event: end` that has no id, when the job has ended. A line that begins with a colon is a heartbeat.
"""
PROBLEMS: Final = {
    400: "The request cannot be read.",
    401: "No key, or one that does not fit.",
    403: "The key does not allow this.",
    404: "There is no such thing, or the key does not let you know of it.",
    405: "This path does not take this method.",
    406: "There is no such form of it.",
    409: "The job, or its key, does not allow this now.",
    412: "It has changed since its ETag was given.",
    413: "The request is too large.",
    414: "The address is too long.",
    415: "The body is not JSON.",
    421: "The Host header is not one of this server's.",
    422: "A field does not fit; `errors` names it.",
    429: "Too much at once; try again after `Retry-After` seconds.",
    431: "The head of the request is too large.",
    500: "An error of the server.",
    503: "The database cannot be reached; try again after `Retry-After` seconds.",
}
HEALTH: Final = "/healthz"
KEY: Final = "key"
"""What `access` calls its security scheme."""
_ALWAYS: Final = (400, 401, 403, 413, 414, 421, 422, 429, 503)
Responses = dict[int | str, dict[str, Any]]
_OURS: Final = "ProblemDocument"
_THEIRS: Final = ("HTTPValidationError", "ValidationError")


def document(web: FastAPI) -> dict[str, Any]:
    """The whole document. Examples and bodies come with the routes."""
    made = get_openapi(
        title=web.title,
        version=web.version,
        openapi_version=web.openapi_version,
        description=_ABOUT,
        routes=web.routes,
        tags=TAGS,
    )
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for name in _THEIRS:
        schemas.pop(name, None)
    schemas.update(_schemas())
    for path, operations in made["paths"].items():
        for operation in operations.values():
            if path != HEALTH or not web.state.settings.health_open:
                operation.setdefault("security", [{KEY: []}])
            _tell_problems(operation["responses"])
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
    return made


def body_of(name: str, *, required: bool, **examples: Any) -> dict[str, Any]:
    """`openapi_extra` for a route that reads its body itself."""
    content: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    if examples:
        content["examples"] = {label: {"value": example} for label, example in examples.items()}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}


def _schemas() -> dict[str, Any]:
    wanted = (JobWanted, CancelWanted, SkipWanted, LimitsWanted, PauseWanted)
    _, bodies = msgspec.json.schema_components(wanted, ref_template="#/components/schemas/{name}")
    problem = TypeAdapter(ProblemDocument).json_schema(ref_template="#/components/schemas/{model}")
    return {**bodies, **problem.pop("$defs", {}), _OURS: problem}


def _tell_problems(responses: dict[str, Any]) -> None:
    for number in _ALWAYS:
        responses.setdefault(str(number), {})
    for status, response in list(responses.items()):
        if status.isdigit() and int(status) >= 400:
            said = PROBLEMS.get(int(status), "A problem.")
            responses[status] = {"description": said, **_headers(status), "content": _content(response)}


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter in an address or a header is there or not; it is never null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return schema
    return {**kinds[0], **{name: value for name, value in schema.items() if name != "anyOf"}}


def _content(response: dict[str, Any]) -> dict[str, Any]:
    kept = {kind: what for kind, what in response.get("content", {}).items() if kind != "application/json"}
    return {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{_OURS}"}}, **kept}


def _headers(status: str) -> dict[str, Any]:
    if status not in ("429", "503"):
        return {}
    return {"headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer", "minimum": 1}}}}
