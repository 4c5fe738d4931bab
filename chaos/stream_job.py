"""The job whose stream is followed: it emits many events, and writes each to a file outside the database before it emits it.

It emits an equal share of them for each kill of the web server, and is at most one share ahead of the kills: so it emits events
between any two kills, and also while no server runs.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast import Context, Holdfast, Retry

DIRECTORY_VARIABLE: Final = "HOLDFAST_WATCH_DIRECTORY"
EMITTED: Final = "emitted.jsonl"
KILLS: Final = "kills"
"""A file that grows by a byte with every kill."""
WORD: Final = "word"
LOOK_SECONDS: Final = 0.02
# Text that a format based on lines could break, or JSON.
ODDITIES: Final = ("\n", "\r\n", "\n\n", "\u2028", "\u0085", "data: ", "id: 7\n", ":", "ž", "🐎", "\x00", '"\\', "</script>")

app = Holdfast()


@app.task(name="broadcast", retry=Retry(attempts=1))
def broadcast(ctx: Context, seed: int, events: int, kills: int, pause_seconds: float) -> int:
    """Emits `events` words, with a mean pause of so many seconds between two of them."""
    directory, chance = Path(os.environ[DIRECTORY_VARIABLE]), random.Random(f"{seed}/words")
    with (directory / EMITTED).open("wb", buffering=0) as emitted:
        for number in range(events):
            _await_kills(directory / KILLS, number * (kills + 1) // events - 1)
            data = word(number, chance)
            emitted.write(msgspec.json.encode(data) + b"\n")
            ctx.emit(WORD, data)
            if number % 100 == 0:
                ctx.progress(number, events)
            if chance.random() < 0.1:  # in bursts, as programs emit them
                time.sleep(chance.expovariate(0.1 / pause_seconds) if pause_seconds else 0.0)
    return events


@app.task(name="chatter", retry=Retry(attempts=1))
def chatter(ctx: Context, seed: int) -> None:
    """Another job, so that the feed has events of several jobs."""
    chance = random.Random(seed)
    for number in range(20):
        ctx.emit(WORD, word(number, chance))
        time.sleep(chance.uniform(0.0, 0.1))


def word(number: int, chance: random.Random) -> dict[str, Any]:
    return {"n": number, "text": "".join(chance.choices(ODDITIES, k=chance.randrange(5))) + "x" * chance.randrange(40)}


def _await_kills(counter: Path, wanted: int) -> None:
    while wanted > 0 and (not counter.exists() or counter.stat().st_size < wanted):
        time.sleep(LOOK_SECONDS)
