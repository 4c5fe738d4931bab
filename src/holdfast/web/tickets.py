"""Tickets for streams: `EventSource` cannot send a key, and a key does not belong into an address.

A ticket is good once, for half a minute, for the stream of one job. What was opened with it stays open while the key is good.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from holdfast.domain.bounds import ID_CHARS_MAX
from holdfast.web.dependencies import Reader, TheApp, TheSettings, visible_job
from holdfast.web.documents import Json
from holdfast.web.paths import JOBS

router = APIRouter(tags=["access"])


class Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    job: Annotated[str, Field(max_length=ID_CHARS_MAX, description="The job whose events are to be followed.")]


class TicketDocument(TypedDict):
    ticket: Annotated[str, Field(description=f"For GET {JOBS}/{{id}}/events?ticket=…, once.")]
    seconds: Annotated[float, Field(description="For how long it is good.")]


@router.post("/api/tickets", status_code=201, response_model=TicketDocument, responses={404: {}})
async def give_ticket(request: Request, wanted: Wanted, app: TheApp, settings: TheSettings, caller: Reader) -> Response:
    """A ticket for the stream of one job, for who cannot send a key: an EventSource."""
    job = await visible_job(app, caller, wanted.job)
    ticket = await request.app.state.gate.keyring.give_ticket(caller, job.id)
    return Json({"ticket": ticket, "seconds": settings.ticket_seconds}, 201)
