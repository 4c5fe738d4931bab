"""An exception from a signal handler (a timeout, Ctrl-C in a notebook) can come anywhere; nobody else may hang because of it.

CPython runs handlers as a function is entered and after a call of a function in C, in the main thread. A profile function is
called at the same moments: here it raises at one after the other of them, and then somebody else must get on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from holdfast import StoreUnavailable
from holdfast.events.follower import ThreadFollower
from holdfast.store.postgres.notifier import Notifier
from tests.conformance.world import STORES, World
from tests.store.test_caller import double

PATIENCE = 20.0


class Interrupted(BaseException):
    pass


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = STORES[request.param](tmp_path)
    try:
        yield world
    finally:
        world.close()


def interrupted(act: Callable[[], object], at: int) -> bool:
    """Run this and raise at that moment of it; False: it was over before."""
    left = at

    def profile(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        name = frame.f_code.co_filename
        if event in ("call", "c_return") and ("/holdfast/" in name or name == threading.__file__):
            left -= 1
            if left == 0:
                sys.setprofile(None)
                raise Interrupted

    sys.setprofile(profile)
    try:
        act()
    except (Interrupted, StoreUnavailable, RuntimeError):  # the last from threading, in the same case
        return True
    finally:
        sys.setprofile(None)
    return left <= 0


def in_time(act: Callable[[], object]) -> None:
    """In a thread of its own, as others would."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it hangs"
    assert not errors, errors


def test_m6_an_interrupted_read_leaves_readers_free(store: World) -> None:
    """More often than there are readers."""
    store.app.migrate()
    store.app.jobs()
    at = 1
    while interrupted(store.app.jobs, at):
        at += 1
    assert at > 50
    in_time(store.app.jobs)


def test_m6_an_interrupted_write_leaves_writers_free(store: World) -> None:
    task = store.app.task(double)
    task.enqueue(0)
    at = 1
    while interrupted(lambda: task.enqueue(1), at):
        in_time(lambda: task.enqueue(2))
        at += 5
    assert at > 50
    in_time(lambda: task.enqueue(3))


def test_m6_an_interrupted_close_leaves_writers_free(store: World) -> None:
    task = store.app.task(double)
    task.enqueue(0)
    at = 1
    while interrupted(store.app.close, at):
        in_time(lambda: task.enqueue(1))
        at += 1
    assert at > 10


def test_m6_a_follower_that_is_interrupted_does_not_hold_up_what_wakes_it() -> None:
    at, ended = 0, False
    while not ended:
        at, follower = at + 1, ThreadFollower(None, 0)
        ended = not interrupted(partial(follower.wait, 0.0), at)
        in_time(follower.wake)
    assert at > 3


def test_m6_a_request_that_is_interrupted_holds_up_no_other() -> None:
    def refuse() -> Any:
        raise StoreUnavailable("no")

    at, ended = 0, False
    while not ended:
        at, notifier = at + 1, Notifier(refuse)
        ended = not interrupted(partial(notifier.request, "followers"), at)
        in_time(partial(notifier.request, "workers"))
        notifier._closing = True
    assert at > 10
