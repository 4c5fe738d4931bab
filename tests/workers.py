"""A worker in a thread of the test's own process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast import Holdfast

PATIENCE = 30.0


@contextmanager
def working(app: Holdfast, **options: Any) -> Iterator[None]:
    worker = app.worker(**options)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()
