"""What jobs metered, over HTTP."""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BeforeValidator
from typing_extensions import TypedDict

from holdfast.domain.meter import METER_DAYS
from holdfast.web.dependencies import Reader, TheApp
from holdfast.web.documents import Json
from holdfast.web.new_job import NAME_PATTERN

router = APIRouter(tags=["overview"])


def _as_written(day: Any) -> Any:
    """Days only: pydantic would also take a number of seconds."""
    if isinstance(day, str) and not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", day):
        raise ValueError("not a day; use for example 2030-01-31")
    return day


Day = Annotated[date | None, BeforeValidator(_as_written)]
Name = Annotated[str | None, Query(pattern=NAME_PATTERN)]


class MeterDocument(TypedDict):
    """What the jobs of one task in one queue metered under one name on one day, in UTC."""

    day: date
    queue: str
    task: str
    name: str
    amount: float


class MetersDocument(TypedDict):
    meters: list[MeterDocument]


@router.get("/api/meters", summary="Read meters", responses={200: {"model": MetersDocument}})
async def read_meters(
    app: TheApp,
    caller: Reader,
    since: Annotated[Day, Query(description=f"The first day; {METER_DAYS} days are read if it is not given.")] = None,
    until: Annotated[Day, Query(description="The last day; today, in UTC, if it is not given.")] = None,
    queue: Name = None,
    task: Name = None,
    name: Name = None,
) -> Response:
    """Sums by day, queue, task and name."""
    found = await app.ameters(since=since, until=until, queue=queue, task=task, name=name)
    return Json({"meters": [each for each in found if caller.may_see(each.queue)]})
