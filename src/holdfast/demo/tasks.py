"""The demo's app: what `holdfast worker holdfast.demo.tasks:app` runs."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

from holdfast.app import Holdfast
from holdfast.demo import ledger
from holdfast.domain.retry import Retry
from holdfast.worker.context import Context

PAGE_SECONDS: Final = 0.15
"""No page is read faster, so that there is something to see on a fast machine too."""
ANSWERS_AT_ATTEMPT: Final = 3

app = Holdfast()


@app.task
def read_document(ctx: Context, folder: str) -> dict[str, Any]:
    """Count the words of every page, as after an OCR run."""
    pages = sorted(Path(folder).glob("*.txt"))
    words: Counter[str] = Counter()
    for number, page in enumerate(pages, 1):
        began = time.monotonic()
        words.update(page.read_text(encoding="utf-8").split())
        time.sleep(max(0.0, PAGE_SECONDS - (time.monotonic() - began)))
        ctx.progress(number, len(pages), worker=ledger.worker())
        if number % 8 == 0:
            ctx.emit("pages", {"read": number, "words": words.total()})
    ctx.meter(pages=len(pages), words=words.total())
    ledger.done(ctx)
    return {"pages": len(pages), "words": words.total(), "commonest": words.most_common(1)[0][0]}


@app.task(priority=200)
def fingerprint(ctx: Context, page: str) -> str:
    """A small job, for when the long ones are under way: the checksum of one page."""
    digest = hashlib.sha256(Path(page).read_bytes()).hexdigest()
    ledger.done(ctx)
    return digest


@app.task(priority=60, retry=Retry(delays=[1.0, 1.0], jitter=0))
def fetch(ctx: Context, name: str) -> str:
    """From an archive that answers only when asked for the third time."""
    if ctx.attempt < ANSWERS_AT_ATTEMPT:
        raise ConnectionError(f"the archive did not answer, try {ctx.attempt}")
    ledger.done(ctx)
    return name


@app.task(priority=60, retry=Retry(delays=[1.0], jitter=0))
def verify(ctx: Context, page: str, checksum: str) -> None:
    """A page that does not have the checksum it should have: no number of tries will cure that."""
    found = hashlib.sha256(Path(page).read_bytes()).hexdigest()
    if found != checksum:
        raise ValueError(f"{Path(page).name} is damaged: its checksum is {found[:8]}…, not {checksum[:8]}…")
    ledger.done(ctx)


@app.task(priority=60)
def make_index(ctx: Context, directory: str) -> int:
    """Enqueued twice under one key, done once."""
    count = sum(1 for _ in Path(directory).glob("document-*/*.txt"))
    ledger.done(ctx)
    return count
