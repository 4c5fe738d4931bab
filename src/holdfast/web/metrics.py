"""`/metrics`: the numbers, for Prometheus."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response

from holdfast.events.counting import Counting
from holdfast.events.exposition import MEDIA_TYPE
from holdfast.web.dependencies import Reader, TheApp

router = APIRouter(tags=["overview"])

_EXAMPLE = 'holdfast_jobs{queue="default",task="add",state="ready"} 3\n'


@router.get(
    "/metrics",
    summary="Read the metrics",
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}, "example": _EXAMPLE}}}},
    response_class=Response,
)
async def read_the_metrics(request: Request, app: TheApp, caller: Reader) -> Response:
    """In Prometheus' text format 0.0.4. Events are counted from the first time on that somebody asks."""
    state = request.app.state
    if not hasattr(state, "counting"):
        state.counting = Counting(app.store)
        state.closing.add(state.counting.close)
    text = await asyncio.to_thread(state.counting.text, caller.may_see)
    return Response(text, media_type=MEDIA_TYPE)
