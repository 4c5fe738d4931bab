"""The tasks of a run: quick and slow, successful and failing, in the event loop, in threads and in processes.

Each writes a line to its ledger when it starts, has its effect, and ends. `call` names the request that made the job.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from holdfast.app import Holdfast
from holdfast.domain.outcome import Fatal, Skip, Snooze
from holdfast.domain.retry import Retry
from holdfast.task import Task
from holdfast.torture.direct import EFFECT, direct
from holdfast.torture.fleet import LEASES_SECONDS
from holdfast.torture.ledgers import DIRECTORY_VARIABLE, Ledger
from holdfast.worker.context import Context

LONG_SECONDS: Final = 1.25 * max(LEASES_SECONDS)
SLOW_SHARE: Final = 0.1
"""The share of payments that are slow in every attempt: slow enough for their worker to be stopped in them."""
PATIENT: Final = Retry(attempts=40, delays=[0.05, 0.1, 0.2], jitter=0.5)

app = Holdfast()
ledger = Ledger(os.environ.get(DIRECTORY_VARIABLE, ""))
Result = dict[str, Any]


@contextmanager
def recorded(ctx: Context, call: str) -> Iterator[Result]:
    """A line for the start, and one for the end or the error. The result has the token of the claim that made it."""
    about = {"call": call, "token": ctx.token, "attempt": ctx.attempt}
    ledger.write("start", **about)
    try:
        yield {"call": call, "token": ctx.token}
    except BaseException as error:
        ledger.write("raise", error=type(error).__name__, **about)
        raise
    ledger.write("end", **about)


@app.task(retry=PATIENT)
async def glance(ctx: Context, call: str) -> Result:
    with recorded(ctx, call) as result:
        await asyncio.sleep(0)
        return result


@app.task(retry=PATIENT)
def copy(ctx: Context, call: str) -> Result:
    with recorded(ctx, call) as result:
        for page in range(1, 4):
            ctx.progress(page, 3)
            ctx.emit("page", {"n": page, "token": ctx.token})
        ctx.meter(pages=3)
        return result


@app.task(retry=PATIENT)
def pay(ctx: Context, call: str) -> Result:
    """Inserts a row into a table of the user, in the transaction that finishes the job."""
    with recorded(ctx, call) as result:
        if random.Random(call).random() < SLOW_SHARE:
            time.sleep(LONG_SECONDS / 2)
        with direct(app.url) as connection:
            connection.begin()
            connection.execute(f"INSERT INTO {EFFECT} VALUES (?, ?)", (call, ctx.token))  # noqa: S608
            ctx.finish(on=connection.raw, result=result)
            connection.execute("COMMIT")
        ledger.write("effect", call=call, token=ctx.token)
        return result


@app.task(retry=PATIENT)
async def flaky(ctx: Context, call: str) -> Result:
    with recorded(ctx, call) as result:
        if random.random() < 0.4:
            raise ValueError("on purpose")
        return result


@app.task(retry=PATIENT)
def nap(ctx: Context, call: str) -> Result:
    with recorded(ctx, call) as result:
        if random.random() < 0.6:
            raise Snooze(random.uniform(0.0, 0.3))
        return result


@app.task(retry=PATIENT)
async def pass_over(ctx: Context, call: str) -> Result:
    with recorded(ctx, call):
        raise Skip("on purpose")


@app.task(retry=PATIENT)
def give_up(ctx: Context, call: str) -> Result:
    with recorded(ctx, call):
        raise Fatal("on purpose")


@app.task(retry=PATIENT)
async def linger(ctx: Context, call: str) -> Result:
    """Awaits for longer than any lease."""
    with recorded(ctx, call) as result:
        await asyncio.sleep(LONG_SECONDS)
        return result


@app.task(retry=PATIENT)
def trudge(ctx: Context, call: str) -> Result:
    """Runs in a thread for longer than any lease, and emits events that name its token."""
    with recorded(ctx, call) as result:
        for _ in range(10):
            ctx.emit("step", {"token": ctx.token})
            time.sleep(LONG_SECONDS / 10)
        return result


@app.task(retry=PATIENT)
async def block(ctx: Context, call: str) -> Result:
    """Blocks the event loop for longer than the lease of its worker."""
    with recorded(ctx, call) as result:
        time.sleep(max(LEASES_SECONDS) * 1.1)  # noqa: ASYNC251
        return result


@app.task(retry=PATIENT, process=True)
def crunch(ctx: Context, call: str) -> Result:
    with recorded(ctx, call) as result:
        return result


@app.task(retry=Retry(attempts=3, delays=[0.1]), process=True)
def crash(ctx: Context, call: str) -> Result:
    """Kills the child process that it runs in, not its worker."""
    with recorded(ctx, call):
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


@app.task(retry=Retry(attempts=3, delays=[0.1]))
def poison(ctx: Context, call: str) -> Result:
    """Kills its worker, in every attempt."""
    with recorded(ctx, call):
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


WEIGHTS: Final[dict[Task[Any], int]] = {
    glance: 400, copy: 200, pay: 120, flaky: 80, nap: 50, pass_over: 40, give_up: 20, linger: 4, trudge: 6, block: 3,
    crunch: 6, crash: 2, poison: 2,
}  # fmt: skip
