"""A worker in a process of its own: `python -m tests.events.program [dies]`. With `dies`, when it has heard the answer."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from holdfast import Holdfast

app = Holdfast()
heard: list[bool] = []


@app.task(name="add")
def add(a: int, b: int = 1) -> int:
    return a + b


def die_before_it_is_recorded() -> None:
    """SIGKILL between the answer and the next transaction, which would write it down."""
    post = app.courier._post

    def posting(*args: Any) -> Any:
        answer = post(*args)
        heard.append(True)
        return answer

    def probe(place: str) -> None:
        if place == "begin" and heard:
            os.kill(os.getpid(), signal.SIGKILL)

    app.courier._post = posting  # type: ignore[assignment, method-assign]
    app.store.probe = probe


if __name__ == "__main__":
    if "dies" in sys.argv:
        die_before_it_is_recorded()
    app.worker(lease=0.6, concurrency=2, name=sys.argv[1]).run()
