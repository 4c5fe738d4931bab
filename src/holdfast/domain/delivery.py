"""How telling of a job's end went: each message that was sent, and each try of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from holdfast.domain.event import Event
from holdfast.domain.job import CallbackStatus, Job, callback_status

ATTEMPTED: Final = "attempted"
"""The event that each try leaves in the log of the job that delivers."""


class Try(msgspec.Struct, frozen=True):
    """One try. `status` is what the receiver answered, if it did; `error` is None for the one that was successful."""

    at: datetime
    attempt: int
    status: int | None
    error: str | None
    seconds: float | None
    """None: its worker died, and nobody knows."""


class Delivery(msgspec.Struct, frozen=True):
    """One job that delivers a message; `id` is its id. A message that is sent again keeps its own."""

    id: str
    message: str
    url: str
    type: str
    status: CallbackStatus
    created_at: datetime
    next_at: datetime | None
    """When it is tried again, if it waits for that."""
    finished_at: datetime | None
    tries: tuple[Try, ...]


def delivery_of(job: Job, events: Iterable[Event]) -> Delivery:
    """From the job that delivers, and its log."""
    given: dict[str, Any] = msgspec.json.decode(job.arguments_json)
    url: str = given["url"]
    status = callback_status(url, job.state)
    assert status is not None
    return Delivery(
        id=job.id,
        message=given["message"],
        url=url,
        type=given["event"]["type"],
        status=status,
        created_at=job.created_at,
        next_at=job.run_after if not job.final else None,
        finished_at=job.finished_at,
        tries=tuple(each for event in events if (each := _try(event)) is not None),
    )


def _try(event: Event) -> Try | None:
    data = event.data if isinstance(event.data, dict) else {}
    if event.kind == ATTEMPTED:
        return Try(event.at, data["attempt"], data["status"], data["error"], data["seconds"])
    if data.get("kind") == "WorkerLost":
        return Try(event.at, data["attempt"], None, data["message"], None)
    return None
