"""Jobs over HTTP: ask for one, list them, look at one."""

from __future__ import annotations

import asyncio
import re
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import msgspec
from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from holdfast.domain.document import job_document
from holdfast.domain.job import Job, NewJob
from holdfast.domain.key import Key
from holdfast.domain.states import State
from holdfast.errors import JobNotFound
from holdfast.store import browse
from holdfast.web import etag
from holdfast.web.access import Caller
from holdfast.web.dependencies import ID_PATTERN, JobId, Operator, Reader, TheApp, visible_job
from holdfast.web.documents import AcceptedDocument, JobDocument, Json, Moment, StateName, accepted_document
from holdfast.web.new_job import NAME_PATTERN, JobWanted, new_job, read_wanted
from holdfast.web.openapi import body_of
from holdfast.web.paths import JOBS, job_path
from holdfast.web.problem import Problem, misfit
from holdfast.web.reach import QUEUE_PART, check_new, task_of

router = APIRouter(tags=["jobs"])

KEPT_SECONDS: Final = 86_400
"""How long an Idempotency-Key is remembered."""
KEY_PART: Final = "Idempotency-Key"
_KEY_HEADER: Final = re.compile(r"[\x21-\x7e]{1,255}")
_PAGE: Final = 100
_PAGE_MAX: Final = 1_000
PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
LISTS_MAX: Final = 2
"""So many pages are read at a time: a store on SQLite has four threads for all requests."""
_LOCATION: Final = {"Location": {"description": "Where the job is.", "schema": {"type": "string"}}}
_EXAMPLES: Final = {
    "plain": {"task": "reports.render", "kwargs": {"document": "a.pdf"}},
    "once": {"task": "reports.render", "args": ["a.pdf"], "key": ["client-7", "req-1"], "callback": "https://example.com/hook"},
    "later": {"task": "reports.render", "args": ["a.pdf"], "run_after": "2030-01-31T12:00:00Z", "priority": 10, "tags": ["eu"]},
}

Name = Annotated[str | None, Query(max_length=128, pattern=NAME_PATTERN)]


class JobsPage(TypedDict):
    """A page of jobs. `next` is the `after` of the page that follows, or null."""

    jobs: list[JobDocument]
    next: Annotated[str | None, Field(description="Opaque; to be sent as `after`.")]
    cut: Annotated[bool, Field(description="The page has fewer jobs than `limit`, because they are large; `next` goes on.")]


@router.post(
    JOBS,
    status_code=201,
    summary="Ask for a job",
    responses={
        201: {"model": AcceptedDocument, "description": "The job, new.", "headers": _LOCATION},
        200: {"model": AcceptedDocument, "description": "The job that had the key already, unchanged.", "headers": _LOCATION},
        409: {},
        415: {},
    },
    openapi_extra=body_of("JobWanted", required=True, **_EXAMPLES),
)
async def ask_for_a_job(
    request: Request,
    app: TheApp,
    caller: Operator,
    idempotency_key: Annotated[str | None, Header(max_length=255, examples=["5f0c6f1e-7c1b-4b8e"])] = None,
) -> Response:
    """Durable when this is answered. The arguments are checked against the task's signature: a 422 names the one that does
    not fit. `key` makes it happen once, for good; the header `Idempotency-Key` once within a day, for this caller."""
    wanted = read_wanted(await _json(request))
    task, key = task_of(app, caller, wanted.task), _header_key(idempotency_key, wanted, caller)
    job = check_new(caller, new_job(task, wanted, key), has_id=wanted.id is not None)
    accepted = await app.aenqueue(job)
    if not accepted.created and idempotency_key is not None:
        _check_same(job, accepted)
    where = {"location": job_path(request.scope.get("root_path", ""), accepted.id)}
    return Json(accepted_document(accepted), 201 if accepted.created else 200, headers=where)


@router.get(
    JOBS,
    summary="List jobs",
    responses={
        200: {"model": JobsPage, "headers": {"Link": {"description": "The next page.", "schema": {"type": "string"}}}},
        404: {},
    },
)
async def list_jobs(
    request: Request,
    app: TheApp,
    caller: Reader,
    state: StateName | None = None,
    queue: Name = None,
    task: Name = None,
    tag: Name = None,
    parent: Annotated[str | None, Query(pattern=ID_PATTERN)] = None,
    newest: bool = True,
    limit: Annotated[int, Query(ge=1, le=_PAGE_MAX)] = _PAGE,
    after: Annotated[str | None, Query(pattern=ID_PATTERN, description="`next` of the page before.")] = None,
) -> Response:
    """The newest first, unless told otherwise. Go on while `next` is not null."""
    chosen = _queue_of(caller, queue)
    if chosen is not None and not caller.may_see(chosen):
        return Json({"jobs": [], "next": None, "cut": False})
    try:
        if after is not None and caller.queues is not None:
            await visible_job(app, caller, after)
        wanted = browse.Filter(None if state is None else State(state), chosen, task, tag, parent, newest, limit, after)
        async with _turn(request):
            read = app.store.aread(lambda _: browse.jobs_within(wanted, PAGE_BYTES_MAX, app.registry.decoders))
            found, cut = await read
    except (JobNotFound, Problem):
        raise Problem(404, f"after={after!r}: that job is gone; begin again without it") from None
    following = found[-1].id if cut or len(found) == limit else None
    page = {"jobs": [job_document(job) for job in found], "next": following, "cut": cut}
    return Json(page, headers=_link(request, following))


@router.get(
    f"{JOBS}/{{id}}",
    summary="Look at a job",
    responses={
        200: {"model": JobDocument, "headers": {"ETag": {"description": "For If-Match.", "schema": {"type": "string"}}}},
        304: {"description": "It is as If-None-Match says."},
        404: {},
    },
)
async def look_at_a_job(
    id: JobId,
    app: TheApp,
    caller: Reader,
    if_none_match: Annotated[str | None, Header(max_length=1_000)] = None,
) -> Response:
    """All that is known of it."""
    return tagged(await visible_job(app, caller, id), if_none_match)


class ReasonDocument(TypedDict):
    """One reason why a job does not run now."""

    kind: str
    text: str
    until: Moment | None
    remedy: str | None


class ExplanationDocument(TypedDict):
    """Why a job does or does not run. `position` is 1 for the next of its queue."""

    job: str
    state: str
    runs_next: bool
    reasons: list[ReasonDocument]
    position: int | None


@router.get(f"{JOBS}/{{id}}/explain", summary="Explain a job", responses={200: {"model": ExplanationDocument}, 404: {}})
async def explain_a_job(id: JobId, app: TheApp, caller: Reader) -> Response:
    """Why it does not run yet: every reason, until when, and what would start it."""
    await visible_job(app, caller, id)
    return Json(await app.aexplain(id))


def tagged(job: Job, known: str | None = None) -> Response:
    """A job with its ETag; nothing but that, if the caller has it already."""
    return etag.tagged(job.event_count, msgspec.json.encode(job_document(job)), known)


async def _json(request: Request) -> bytes:
    """The body of a request that says that it is JSON: what a form of another site can send says something else."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, f"Content-Type {kind[:100]!r} is not application/json; send the job as JSON")
    return await request.body()


def _header_key(header: str | None, wanted: JobWanted, caller: Caller) -> Key | None:
    if header is None:
        parts = wanted.key if isinstance(wanted.key, list) else wanted.key.parts if wanted.key else []
        if parts and parts[0] in (KEY_PART, QUEUE_PART):
            raise misfit("/key", f"a key that begins with {parts[0]!r} is one of ours; choose another word")
        return None
    if wanted.key is not None:
        raise Problem(400, "the header Idempotency-Key and the key in the body both name a key; send one of them")
    if not _KEY_HEADER.fullmatch(header):
        raise Problem(400, f"Idempotency-Key {header[:100]!r} cannot be used; send 1 to 255 printable ASCII characters")
    return Key(KEY_PART, caller.identity, header, scope=KEPT_SECONDS, failed="hold")


def _check_same(asked: NewJob, first: Job) -> None:
    """The header's key had a job: one that was asked for in the same words."""
    if first.task != asked.options.task or not first.same_arguments:
        raise Problem(
            422, f"this Idempotency-Key was used for job {first.id!r}, with another task or other arguments; use a new one"
        )


def _queue_of(caller: Caller, queue: str | None) -> str | None:
    """The queue to look in; None: all of them."""
    if queue is not None or caller.queues is None:
        return queue
    if len(caller.queues) == 1:
        return next(iter(caller.queues))
    raise Problem(422, f"your key is for some queues only; choose one of them with ?queue=: {', '.join(sorted(caller.queues))}")


def _turn(request: Request) -> asyncio.Semaphore:
    """One for each event loop: requests that wait for it wait in line."""
    loop, state = asyncio.get_running_loop(), request.app.state
    if getattr(state, "lists", (None, None))[0] is not loop:
        state.lists = (loop, asyncio.Semaphore(LISTS_MAX))
    turn: asyncio.Semaphore = state.lists[1]
    return turn


def _link(request: Request, after: str | None) -> dict[str, str]:
    if after is None:
        return {}
    query: list[tuple[str, Any]] = [(name, value) for name, value in request.query_params.multi_items() if name != "after"]
    return {"link": f'<{request.scope.get("root_path", "")}{JOBS}?{urlencode([*query, ("after", after)])}>; rel="next"'}
