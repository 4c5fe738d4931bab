"""The tasks of the journeys. Each writes to the ledger when it starts, when it is told to stop, and when it ends."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast import Context, Holdfast, LeaseLost, Retry
from holdfast.torture.ledgers import DIRECTORY_VARIABLE, Ledger

app = Holdfast()
ledger = Ledger(os.environ.get(DIRECTORY_VARIABLE, ""))
THREE = Retry(attempts=3, delays=[0.05])
TIMEOUT_SECONDS = 0.6


@contextmanager
def told(ctx: Context, call: str) -> Iterator[None]:
    ledger.write("start", call=call, token=ctx.token, attempt=ctx.attempt)
    try:
        yield
    except (asyncio.CancelledError, LeaseLost) as error:
        ledger.write("told", call=call, token=ctx.token, error=type(error).__name__)
        raise
    ledger.write("end", call=call, token=ctx.token)


@app.task(retry=THREE)
def quick(ctx: Context, call: str) -> int:
    with told(ctx, call):
        return ctx.token


@app.task(retry=THREE)
def nothing(number: int) -> None:
    return None


@app.task(retry=THREE)
async def awaiting(ctx: Context, call: str, seconds: float, later: float | None = None) -> int:
    """`later`: how long it takes from the second time on."""
    with told(ctx, call):
        await asyncio.sleep(seconds if later is None or ctx.token == 1 else later)
        return ctx.token


@app.task(retry=THREE)
def polite(ctx: Context, call: str, seconds: float, later: float | None = None) -> int:
    """A thread that says how far it is, and so hears that it must stop."""
    with told(ctx, call):
        deadline = time.monotonic() + (seconds if later is None or ctx.token == 1 else later)
        while time.monotonic() < deadline:
            ctx.progress(1, 2)
            time.sleep(0.02)  # blocks on purpose
        return ctx.token


@app.task(retry=THREE)
def deaf(ctx: Context, call: str, seconds: float) -> int:
    """A thread that does not listen."""
    with told(ctx, call):
        time.sleep(seconds)  # blocks on purpose
        return ctx.token


@app.task(retry=THREE)
def deaf_at_first(ctx: Context, call: str, seconds: float) -> int:
    """Does not listen in its first attempt, and then does, for as long as it takes."""
    with told(ctx, call):
        if ctx.attempt == 1:
            time.sleep(seconds)  # blocks on purpose
        while ctx.attempt > 1:
            ctx.check()
            time.sleep(0.02)  # blocks on purpose
        return ctx.token


@app.task(retry=THREE)
async def blocking(ctx: Context, call: str, seconds: float) -> int:
    """Holds up the event loop, heartbeat tests must."""
    with told(ctx, call):
        time.sleep(seconds)  # blocks on purpose
        return ctx.token


@app.task(retry=THREE)
def greedy(ctx: Context, call: str, seconds: int) -> int:
    """A C call in a thread that does not give the interpreter's lock back; quick from the second attempt on."""
    with told(ctx, call):
        if ctx.attempt == 1:
            ctypes.PyDLL(None).sleep(seconds)  # blocks on purpose
        return ctx.token


@app.task(retry=THREE, process=True)
def greedy_apart(ctx: Context, call: str, seconds: int) -> int:
    """The same in a process of its own."""
    with told(ctx, call):
        ctypes.PyDLL(None).sleep(seconds)  # blocks on purpose
        return ctx.token


@app.task(retry=THREE, process=True)
def apart(ctx: Context, call: str, seconds: float) -> int:
    with told(ctx, call):
        time.sleep(seconds)  # blocks on purpose
        return ctx.token


@app.task(retry=THREE)
def deadly(ctx: Context, call: str) -> None:
    """Kills its worker."""
    with told(ctx, call):
        os.kill(os.getpid(), signal.SIGKILL)


@app.task(retry=Retry(attempts=1), timeout=TIMEOUT_SECONDS)
async def timed_awaiting(ctx: Context, call: str, seconds: float) -> None:
    with told(ctx, call):
        await asyncio.sleep(seconds)


@app.task(retry=Retry(attempts=1), timeout=TIMEOUT_SECONDS)
def timed_deaf(ctx: Context, call: str, seconds: float) -> None:
    with told(ctx, call):
        time.sleep(seconds)  # blocks on purpose


@app.task(retry=Retry(attempts=1), timeout=TIMEOUT_SECONDS, process=True)
def timed_apart(ctx: Context, call: str, seconds: float) -> None:
    with told(ctx, call):
        time.sleep(seconds)  # blocks on purpose
