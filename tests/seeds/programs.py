"""The systems of S0 and S1 as programs of their own: `holdfast serve` and `holdfast worker` on the tasks here."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from holdfast import Context, Holdfast, Retry
from tests.until import until

app = Holdfast()


class RequestIX(BaseModel):
    client_id: str
    request_id: str
    pages: list[str]
    threshold: float = 0.5


class ResponseIX(BaseModel):
    fields: dict[str, str] = {}
    error: str | None = None


@app.task(name="benchmark", retry=Retry(3, base=0.1))
def benchmark(ctx: Context, corpus: dict[str, Any], documents: int, gates: str | None = None, dies: bool = False) -> str:
    """A document at a time. `gates`: a directory; before document n it waits for a file of that name there."""
    if dies and ctx.job.attempt == 1:
        ctx.emit("dying", {"pid": os.getpid()})
        until(lambda: any(event.kind == "dying" for event in app.events(ctx.job.id)), "this is kept")
        os.kill(os.getpid(), signal.SIGKILL)
    ctx.progress(fraction=0.0, total_documents=documents, engine="tesseract")
    for number in range(1, documents + 1):
        if gates is not None and Path(gates, f"wait-{number}").exists():
            until(Path(gates, str(number)).exists, f"the gate of document {number} opens", seconds=120)
        ctx.emit("document", {"n": number})
        ctx.progress(processed_documents=number, fraction=number / documents)
        time.sleep(0.002)
    ctx.progress(output_path="reports/été.html")
    return "done"


@app.task(name="extract", retry=Retry(3, base=0.1))
def extract(ctx: Context, request: RequestIX) -> ResponseIX:
    if "kills" in request.pages and ctx.job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if "breaks" in request.pages:
        raise ValueError("IX_003: no text found")
    return ResponseIX(fields=dict.fromkeys(request.pages, f"{request.threshold:.2f}"))
