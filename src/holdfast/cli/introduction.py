"""The first lines of a worker's or a server's log: which app, which database, which tasks."""

from __future__ import annotations

import logging
from typing import Final

from holdfast import __version__
from holdfast.cli.database import Named

log = logging.getLogger("holdfast.cli")
NAMES_MAX: Final = 10


def introduce(named: Named) -> None:
    name, app = named
    log.info("holdfast %s, app %s, database %s", __version__, name, app.store.path)
    tasks = sorted(app.tasks)
    if not tasks:
        log.warning("%s has no tasks: nothing that is enqueued can be run here; are their modules imported?", name)
        return
    more = f", and {len(tasks) - NAMES_MAX} more" if len(tasks) > NAMES_MAX else ""
    log.info("%d task%s: %s%s", len(tasks), "" if len(tasks) == 1 else "s", ", ".join(tasks[:NAMES_MAX]), more)
