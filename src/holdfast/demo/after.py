"""After the story: the page stays for a while, with a worker behind it and work that trickles in: there is something to watch."""

from __future__ import annotations

import select
import sys
import time
from itertools import cycle
from typing import Any, Final

from rich.text import Text

from holdfast.cli.screen import line
from holdfast.demo.stage import Stage

STAY_SECONDS: Final = 300.0
EVERY_SECONDS: Final = 4.0
"""A document takes as long: one or two are always under way."""
NAME: Final = "worker-c"


def stay(stage: Stage, tasks: Any, seconds: float | None) -> None:
    """For so long, or until Enter or Ctrl-C; None: only until then."""
    stage.start_worker(NAME)
    line("")
    line("The page is still there: ", Text(stage.page_url or "", style="bold"))
    line(Text(f"  {NAME} goes on reading; open the failed job, and let it be tried again.", style="dim"))
    line(Text(f"  {_how_it_ends(seconds)}", style="dim"))
    ends_at = None if seconds is None else time.monotonic() + seconds
    try:
        for folder in cycle(sorted(stage.directory.glob("document-*"))):
            tasks.read_document.enqueue(str(folder))
            if _told_to_end(EVERY_SECONDS) or (ends_at is not None and time.monotonic() > ends_at):
                return
    except KeyboardInterrupt:
        return  # an end as good as the other


def _how_it_ends(seconds: float | None) -> str:
    by_hand = "Enter ends the demo" if sys.stdin.isatty() else "Ctrl-C ends the demo"
    return by_hand if seconds is None else f"{by_hand}; it ends by itself in {seconds / 60:.0f} minutes."


def _told_to_end(seconds: float) -> bool:
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    return bool(select.select([sys.stdin], [], [], seconds)[0])
