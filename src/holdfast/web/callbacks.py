"""Callbacks over HTTP: how telling of a job's end went, and once more."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from fastapi.responses import Response
from pydantic import Field
from typing_extensions import TypedDict

from holdfast.domain.delivery import Delivery, Try, delivery_of
from holdfast.web.dependencies import JobId, Operator, Reader, TheApp, visible_job
from holdfast.web.documents import Json, Moment
from holdfast.web.paths import JOBS

router = APIRouter(tags=["jobs"])


class TryDocument(TypedDict):
    """One try to deliver a message."""

    at: Moment
    attempt: int
    status: Annotated[int | None, Field(description="What the receiver answered, if it did.")]
    error: Annotated[str | None, Field(description="Why it failed; null for the one that was successful.")]
    seconds: Annotated[float | None, Field(description="How long it took; null if its worker died.")]


class DeliveryDocument(TypedDict):
    """One message about a job's end, and how it went."""

    id: Annotated[str, Field(description="The job that delivers it.")]
    message: Annotated[str, Field(description="The `webhook-id` that the receiver sees, the same however often it is sent.")]
    url: str
    type: Annotated[str, Field(examples=["job.succeeded"])]
    status: Literal["pending", "delivered", "failed"]
    created_at: Moment
    next_at: Annotated[Moment | None, Field(description="When it is tried again, if it waits for that.")]
    finished_at: Moment | None
    tries: list[TryDocument]


class Deliveries(TypedDict):
    """The newest first."""

    deliveries: list[DeliveryDocument]


@router.get(
    f"{JOBS}/{{id}}/deliveries", summary="See how a callback was delivered", responses={200: {"model": Deliveries}, 404: {}}
)
async def see_deliveries(id: JobId, app: TheApp, caller: Reader) -> Response:
    """Every message about this job's end, with every try of it. There are none before it has ended, or without a callback."""
    await visible_job(app, caller, id)
    return Json({"deliveries": [delivery_document(each) for each in await app.adeliveries(id)]})


@router.post(
    f"{JOBS}/{{id}}/redeliver",
    status_code=202,
    summary="Deliver a callback again",
    responses={202: {"model": DeliveryDocument, "description": "It is on its way."}, 404: {}, 409: {}},
)
async def deliver_again(id: JobId, app: TheApp, caller: Operator) -> Response:
    """Now, whether it was delivered, failed, or waits for its next try; under the same message id."""
    await visible_job(app, caller, id)
    return Json(delivery_document(delivery_of(await app.aredeliver(id), ())), 202)


def delivery_document(delivery: Delivery) -> DeliveryDocument:
    return {
        "id": delivery.id,
        "message": delivery.message,
        "url": delivery.url,
        "type": delivery.type,
        "status": delivery.status,
        "created_at": delivery.created_at.isoformat(),
        "next_at": None if delivery.next_at is None else delivery.next_at.isoformat(),
        "finished_at": None if delivery.finished_at is None else delivery.finished_at.isoformat(),
        "tries": [_try_document(each) for each in delivery.tries],
    }


def _try_document(each: Try) -> TryDocument:
    return {
        "at": each.at.isoformat(),
        "attempt": each.attempt,
        "status": each.status,
        "error": each.error,
        "seconds": each.seconds,
    }
