"""The demo in a pipe: the same story in lines, with the counts every few seconds."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final

from holdfast.demo.watch import Picture, is_document, name_of
from holdfast.domain.states import State

EVERY_SECONDS: Final = 2.0


class PlainDisplay:
    def __init__(self) -> None:
        self._began = self._shown = time.monotonic()

    def say(self, text: str, style: str = "") -> None:
        print(f"{time.monotonic() - self._began:5.1f}s  {text}", flush=True)

    def show(self, picture: Picture) -> None:
        now = time.monotonic()
        if now - self._shown < EVERY_SECONDS:
            return
        self._shown = now
        bars = [
            f"{name_of(job).split()[1]} {job.progress.get('fraction', 0):.0%}" for job in picture.running() if is_document(job)
        ]
        waiting = picture.count(State.READY, State.SCHEDULED)
        self.say(f"  {waiting} to do, {picture.count(State.SUCCEEDED)} done; running: {', '.join(bars) or 'none'}")

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        return None
