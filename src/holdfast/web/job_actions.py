"""Acting on a job over HTTP: cancel, retry, skip, delete. With `If-Match`, only if nothing has happened to it since."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Header, Request
from fastapi.responses import Response

from holdfast.web.dependencies import Admin, JobId, Operator, TheApp, visible_job
from holdfast.web.documents import JobDocument
from holdfast.web.etag import expected_count
from holdfast.web.jobs import tagged
from holdfast.web.new_job import read_cancel, read_skip
from holdfast.web.openapi import Responses, body_of
from holdfast.web.paths import JOBS

router = APIRouter(tags=["jobs"])

_MOVED: Final[Responses] = {200: {"model": JobDocument, "description": "The job, after it."}, 404: {}, 409: {}, 412: {}}
IfMatch = Annotated[str | None, Header(max_length=1_000, description="The job's ETag: act only if nothing has happened since.")]


@router.post(
    f"{JOBS}/{{id}}/cancel",
    summary="Cancel a job",
    responses=_MOVED,
    openapi_extra=body_of("CancelWanted", required=False, why={"reason": "no longer wanted"}),
)
async def cancel_a_job(request: Request, id: JobId, app: TheApp, caller: Operator, if_match: IfMatch = None) -> Response:
    """It ends now, running or not: nothing that its code still does counts."""
    reason, expected = read_cancel(await request.body()), expected_count(if_match)
    await visible_job(app, caller, id)
    return tagged(await app.acancel(id, reason, event_count=expected))


@router.post(f"{JOBS}/{{id}}/retry", summary="Retry a job", responses=_MOVED)
async def retry_a_job(id: JobId, app: TheApp, caller: Operator, if_match: IfMatch = None) -> Response:
    """Back to ready, with fresh attempts: a job that failed, was cancelled or skipped."""
    expected = expected_count(if_match)
    await visible_job(app, caller, id)
    return tagged(await app.aretry(id, event_count=expected))


@router.post(
    f"{JOBS}/{{id}}/skip",
    summary="Skip a job",
    responses=_MOVED,
    openapi_extra=body_of("SkipWanted", required=True, why={"reason": "done by hand"}),
)
async def skip_a_job(request: Request, id: JobId, app: TheApp, caller: Operator, if_match: IfMatch = None) -> Response:
    """It ends on purpose, not as an error."""
    reason, expected = read_skip(await request.body()), expected_count(if_match)
    await visible_job(app, caller, id)
    return tagged(await app.askip(id, reason, event_count=expected))


@router.delete(
    f"{JOBS}/{{id}}",
    status_code=204,
    summary="Delete a job",
    responses={204: {"description": "It is gone, with its events, errors and key."}, 404: {}, 409: {}, 412: {}},
)
async def delete_a_job(id: JobId, app: TheApp, caller: Admin, if_match: IfMatch = None) -> Response:
    """A running job is to be cancelled first."""
    expected = expected_count(if_match)
    await visible_job(app, caller, id)
    await app.adelete(id, event_count=expected)
    return Response(status_code=204)
