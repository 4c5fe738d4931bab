"""The program that is watched: a job that says many things, and writes each down outside the database before it says it.

It says a share of them for each time that the server was struck, and is at most a share ahead: so that it never runs out of
things to say before the last blow, and has something to say while nobody serves.
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
BLOWS: Final = "blows"
"""A file that grows by a byte with every blow."""
WORD: Final = "word"
LOOK_SECONDS: Final = 0.02
# What a line-based format could trip over, and what JSON could.
ODDITIES: Final = ("\n", "\r\n", "\n\n", "\u2028", "\u0085", "data: ", "id: 7\n", ":", "ž", "🐎", "\x00", '"\\', "</script>")

app = Holdfast()


@app.task(name="broadcast", retry=Retry(attempts=1))
def broadcast(ctx: Context, seed: int, events: int, blows: int, pause_seconds: float) -> int:
    """Says `events` words, with pauses of so many seconds between two of them on average."""
    directory, chance = Path(os.environ[DIRECTORY_VARIABLE]), random.Random(f"{seed}/words")
    with (directory / EMITTED).open("wb", buffering=0) as emitted:
        for number in range(events):
            _await_blows(directory / BLOWS, number * (blows + 1) // events - 1)
            said = word(number, chance)
            emitted.write(msgspec.json.encode(said) + b"\n")
            ctx.emit(WORD, said)
            if number % 100 == 0:
                ctx.progress(number, events)
            if chance.random() < 0.1:  # in bursts, as programs talk
                time.sleep(chance.expovariate(0.1 / pause_seconds) if pause_seconds else 0.0)
    return events


@app.task(name="chatter", retry=Retry(attempts=1))
def chatter(ctx: Context, seed: int) -> None:
    """Another job beside it, so that not all that happens happens to one."""
    chance = random.Random(seed)
    for number in range(20):
        ctx.emit(WORD, word(number, chance))
        time.sleep(chance.uniform(0.0, 0.1))


def word(number: int, chance: random.Random) -> dict[str, Any]:
    return {"n": number, "text": "".join(chance.choices(ODDITIES, k=chance.randrange(5))) + "x" * chance.randrange(40)}


def _await_blows(counter: Path, wanted: int) -> None:
    while wanted > 0 and (not counter.exists() or counter.stat().st_size < wanted):
        time.sleep(LOOK_SECONDS)
