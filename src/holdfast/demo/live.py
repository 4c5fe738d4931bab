"""The demo on a terminal: what happens scrolls by, the jobs that run have bars below it."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli.screen import facts_grid
from holdfast.demo.watch import Picture, name_of
from holdfast.domain.job import Job
from holdfast.domain.states import State

BARS_MAX: Final = 8
_COUNTED: Final = (
    ("ready", "cyan", (State.READY,)),
    ("scheduled", "blue", (State.SCHEDULED,)),
    ("running", "yellow", (State.RUNNING,)),
    ("succeeded", "green", (State.SUCCEEDED,)),
    ("failed", "red", (State.FAILED,)),
)


class LiveDisplay:
    def __init__(self, console: Console, page_url: str | None = None) -> None:
        # Drawn only when we say so: rich's own thread can draw between a line and its frame, and leave half a frame behind.
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._began = time.monotonic()
        self._page = [] if page_url is None else [Text(f"watch it at {page_url}", "dim")]

    def say(self, text: str, style: str = "") -> None:
        elapsed = time.monotonic() - self._began
        self._live.console.print(facts_grid([(f"{elapsed:5.1f}s", Text(text, style))], "dim"))

    def show(self, picture: Picture) -> None:
        self._live.update(
            Group(Text(""), _workers(picture), _counts(picture), *_bars(picture.running()), *self._page), refresh=True
        )

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._live.stop()


def _workers(picture: Picture) -> Text:
    text = Text()
    for name, status in picture.workers.items():
        mark, style = ("✖", "bold red") if status == "killed" else ("●", "green")
        text.append(f"{mark} {name} {status}   ", style)
    return text


def _counts(picture: Picture) -> Text:
    text = Text()
    for word, style, states in _COUNTED:
        text.append(f"{picture.count(*states):>4} ", f"bold {style}")
        text.append(f"{word}  ", "dim")
    return text


def _bars(running: list[Job]) -> list[RenderableType]:
    if not running:
        return []
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(no_wrap=True, width=26)
    grid.add_column(no_wrap=True, width=9, style="dim")
    grid.add_column(ratio=1)
    grid.add_column(no_wrap=True, justify="right", width=5)
    for job in running[:BARS_MAX]:
        fraction = float(job.progress.get("fraction") or 0.0)
        bar = ProgressBar(total=1.0, completed=fraction)
        grid.add_row(name_of(job), str(job.progress.get("worker", "")), bar, f"{fraction:.0%}")
    return [grid]
