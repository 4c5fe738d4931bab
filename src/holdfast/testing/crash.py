"""Crashes where you want them: before a named statement, after it, or at every statement that an operation runs.

A `Crash` goes through the store as a killed thread would: nothing of the transaction is kept, unless the crash came after
the commit. The places have names: "begin", each verb (the name of its `.sql` file), "commit", "committed", "migrate".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Literal

from holdfast.app import Holdfast
from holdfast.errors import SettingError

Act = Callable[[Holdfast], object]


class Crash(BaseException):
    """Not an `Exception`: no handler that means well may catch it."""


def crash(place: str) -> None:
    raise Crash(f"crashed at {place!r}, as the test asked")


class CrashPoint:
    """`with CrashPoint(app, at="add_bodies"): ...` raises `Crash` there, once, and leaves the app usable afterwards.

    at    the name of the place; None: any.
    nth   which of the places that match, counted from 1.
    when  "before" the statement runs, or "after" it, which is before whatever comes next.
    does  what happens there instead of raising: `os._exit` for a real death, a `threading.Barrier` for a race.

    `.hit` tells afterwards whether the place was reached, `.seen` all places that were passed.
    """

    def __init__(
        self,
        app: Holdfast,
        at: str | None = None,
        *,
        nth: int = 1,
        when: Literal["before", "after"] = "before",
        does: Callable[[str], object] = crash,
    ) -> None:
        if nth < 1:
            raise SettingError(f"nth={nth} must be 1 or more")
        if when not in ("before", "after"):
            raise SettingError(f"when={when!r} is unknown; use 'before' or 'after'")
        self._store, self._at, self._left, self._after, self._does = app.store, at, nth, when == "after", does
        self._due = False
        self.hit = False
        self.seen: list[str] = []

    def __enter__(self) -> CrashPoint:
        if self._store.probe is not None:
            raise SettingError("this app has a crash point already; leave that one first")
        self._store.probe = self._pass
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._store.probe = None

    def _pass(self, place: str) -> None:
        self.seen.append(place)
        if self.hit:
            return
        if not self._due and self._at in (None, place):
            self._left -= 1
            self._due = self._left == 0
            if self._after:
                return
        if self._due:
            self.hit = True
            self._does(place)


def statements_of(app: Holdfast, act: Act) -> list[str]:
    """All places that `act(app)` passes, in order, when nothing goes wrong."""
    never = CrashPoint(app, nth=1_000_000_000)
    with never:
        act(app)
    return never.seen


def every_crash(make: Callable[[], Holdfast], act: Act) -> Iterator[tuple[str, Holdfast]]:
    """For each place that `act` passes: a new app, a crash of `act` right there, and the app again, reopened.

    for place, app in every_crash(new_app, lambda app: app.cancel("job-1")):
        assert app.get("job-1").state in ("ready", "cancelled"), place
    """
    nth = 1
    while True:
        app = make()
        point = CrashPoint(app, nth=nth)
        with point:
            try:
                act(app)
            except Crash:
                pass
        app.close()
        if not point.hit:
            return
        yield f"{nth}: {point.seen[nth - 1]}", app
        app.close()
        nth += 1
