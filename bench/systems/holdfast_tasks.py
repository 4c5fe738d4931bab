"""The no-op as a Holdfast task, plain and async; importing this needs HOLDFAST_URL."""

from __future__ import annotations

import os
from typing import Any

from bench import job
from holdfast import Holdfast

app = Holdfast(os.environ["HOLDFAST_URL"])


@app.task
def noop(payload: dict[str, Any]) -> None:
    job.run(payload)


@app.task
async def noop_async(payload: dict[str, Any]) -> None:
    job.run(payload)
