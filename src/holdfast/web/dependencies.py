"""What routes are given: the Holdfast app behind them, and the job that a path names, for who may see it."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import Depends, Path, Request

from holdfast.app import Holdfast
from holdfast.domain.bounds import ID_CHARS_MAX
from holdfast.domain.job import Job
from holdfast.domain.text import show
from holdfast.web.access import Caller, Scope, needs
from holdfast.web.paths import id_in
from holdfast.web.problem import Problem
from holdfast.web.settings import WebSettings

ID_PATTERN: Final = rf"^[A-Za-z0-9_.:@/+=-]{{1,{ID_CHARS_MAX}}}$"
_ID: Final = re.compile(ID_PATTERN[1:-1])


async def the_app(request: Request) -> Holdfast:
    """The app whose jobs this is about."""
    app: Holdfast = request.app.state.holdfast
    return app


async def the_settings(request: Request) -> WebSettings:
    settings: WebSettings = request.app.state.settings
    return settings


async def job_id(
    id: Annotated[
        str,
        Path(
            description="The job's id; a slash in it is sent as `%2F`.",
            examples=["run-2030/01"],
            json_schema_extra={"pattern": ID_PATTERN},
        ),
    ],
) -> str:
    """The id in the path. What cannot be one is not looked for: there is no such job."""
    wanted = id_in(id)
    if not _ID.fullmatch(wanted):
        raise no_job(wanted)
    return wanted


TheApp = Annotated[Holdfast, Depends(the_app)]
TheSettings = Annotated[WebSettings, Depends(the_settings)]
JobId = Annotated[str, Depends(job_id)]
Reader = Annotated[Caller, needs(Scope.READ)]
Operator = Annotated[Caller, needs(Scope.OPERATE)]
Admin = Annotated[Caller, needs(Scope.ADMIN)]


async def visible_job(app: Holdfast, caller: Caller, id: str) -> Job:
    """The job, if there is one and this caller may know of it."""
    job = await app.aget(id)
    if job is None or not caller.may_see(job.queue):
        raise no_job(id)
    return job


def no_job(id: str) -> Problem:
    return Problem(404, f"there is no job {show(id)}; it may have been deleted or pruned")
