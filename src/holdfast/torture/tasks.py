"""The tasks that are run: quick and slow, good and bad, in the loop, in threads and in processes.

Each writes to the ledger when it starts, has its effect, and ends. `call` names the request that the job came from.
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
from holdfast.torture.ground import EFFECT, owning
from holdfast.torture.ledger import DIRECTORY_VARIABLE, Ledger
from holdfast.torture.plan import LEASES_SECONDS
from holdfast.worker.context import Context

LONG_SECONDS: Final = 1.25 * max(LEASES_SECONDS)
SLOW_SHARE: Final = 0.1
"""So many payments take their time, in every attempt: long enough for their worker to be stopped in them."""
PATIENT: Final = Retry(attempts=40, delays=[0.05, 0.1, 0.2], jitter=0.5)

app = Holdfast()
ledger = Ledger(os.environ.get(DIRECTORY_VARIABLE, ""))
Result = dict[str, Any]


@contextmanager
def told(ctx: Context, call: str) -> Iterator[Result]:
    """Start, then end or raise, in the ledger; the result names the token that it was made under."""
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
    with told(ctx, call) as result:
        await asyncio.sleep(0)
        return result


@app.task(retry=PATIENT)
def copy(ctx: Context, call: str) -> Result:
    with told(ctx, call) as result:
        for page in range(1, 4):
            ctx.progress(page, 3)
            ctx.emit("page", {"n": page, "token": ctx.token})
        ctx.meter(pages=3)
        return result


@app.task(retry=PATIENT)
def pay(ctx: Context, call: str) -> Result:
    """Its effect is a row of its own in the same database, committed with the job's result or not at all."""
    with told(ctx, call) as result:
        if random.Random(call).random() < SLOW_SHARE:
            time.sleep(LONG_SECONDS / 2)
        with owning(app.url) as own:
            own.begin()
            own.execute(f"INSERT INTO {EFFECT} VALUES (?, ?)", (call, ctx.token))  # noqa: S608
            ctx.finish(on=own.raw, result=result)
            own.execute("COMMIT")
        ledger.write("effect", call=call, token=ctx.token)
        return result


@app.task(retry=PATIENT)
async def flaky(ctx: Context, call: str) -> Result:
    with told(ctx, call) as result:
        if random.random() < 0.4:
            raise ValueError("on purpose")
        return result


@app.task(retry=PATIENT)
def nap(ctx: Context, call: str) -> Result:
    with told(ctx, call) as result:
        if random.random() < 0.6:
            raise Snooze(random.uniform(0.0, 0.3))
        return result


@app.task(retry=PATIENT)
async def pass_over(ctx: Context, call: str) -> Result:
    with told(ctx, call):
        raise Skip("on purpose")


@app.task(retry=PATIENT)
def give_up(ctx: Context, call: str) -> Result:
    with told(ctx, call):
        raise Fatal("on purpose")


@app.task(retry=PATIENT)
async def linger(ctx: Context, call: str) -> Result:
    """Longer than any lease, awaiting."""
    with told(ctx, call) as result:
        await asyncio.sleep(LONG_SECONDS)
        return result


@app.task(retry=PATIENT)
def trudge(ctx: Context, call: str) -> Result:
    """Longer than any lease, in a thread that says how it goes, and under which token."""
    with told(ctx, call) as result:
        for _ in range(10):
            ctx.emit("step", {"token": ctx.token})
            time.sleep(LONG_SECONDS / 10)
        return result


@app.task(retry=PATIENT)
async def block(ctx: Context, call: str) -> Result:
    """Holds up the event loop for longer than its worker's lease."""
    with told(ctx, call) as result:
        time.sleep(max(LEASES_SECONDS) * 1.1)  # noqa: ASYNC251
        return result


@app.task(retry=PATIENT, process=True)
def crunch(ctx: Context, call: str) -> Result:
    with told(ctx, call) as result:
        return result


@app.task(retry=Retry(attempts=3, delays=[0.1]), process=True)
def crash(ctx: Context, call: str) -> Result:
    """Kills the process that it was given, and not its worker."""
    with told(ctx, call):
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


@app.task(retry=Retry(attempts=3, delays=[0.1]))
def poison(ctx: Context, call: str) -> Result:
    """Kills its worker, every time."""
    with told(ctx, call):
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


WEIGHTS: Final[dict[Task[Any], int]] = {
    glance: 400, copy: 200, pay: 120, flaky: 80, nap: 50, pass_over: 40, give_up: 20, linger: 4, trudge: 6, block: 3,
    crunch: 6, crash: 2, poison: 2,
}  # fmt: skip
