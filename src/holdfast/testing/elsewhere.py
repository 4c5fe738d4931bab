"""Your app, with all its tasks, on another database for the time of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.app import Holdfast
from holdfast.events.feed import Feed
from holdfast.settings import open_store
from holdfast.store.clock import Clock


@contextmanager
def elsewhere(app: Holdfast, url: str, clock: Clock | None = None) -> Iterator[Holdfast]:
    """`with elsewhere(myproject.app, holdfast_url, holdfast_clock):` and every `task.enqueue` goes to that database."""
    store = open_store(url, clock)
    moved = {"url": url, "store": store, "_database": store, "_feed": Feed(store)}
    home = {name: vars(app)[name] for name in moved}
    vars(app).update(moved)
    try:
        yield app
    finally:
        vars(app).update(home)
        store.close()
