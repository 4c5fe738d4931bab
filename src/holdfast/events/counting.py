"""Keeps a tally up with what happens: a thread that begins with the first question, and ends when nobody asks any more.

Once a second it lets the store add up what was committed since, and it rests for longer than it worked: whoever else is in this
process goes first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from typing import Final, NamedTuple

from holdfast.domain.flow import Flow
from holdfast.domain.meter import Meter
from holdfast.domain.sanitize import one_line
from holdfast.domain.states import State
from holdfast.errors import SettingError, StoreUnavailable
from holdfast.events.exposition import Metric, document
from holdfast.events.metrics import UP, MaySee, Tally, Values, gauges, lines
from holdfast.store.browse import lane_names
from holdfast.store.event_counts import EventCounts, event_counts
from holdfast.store.feed import Cursor, feed_end
from holdfast.store.flow import look
from holdfast.store.health import Snapshot, standing
from holdfast.store.meters import metered_today
from holdfast.store.op import Moment, Op, Operation, Row, Statement
from holdfast.store.store import Store

log = logging.getLogger("holdfast.events")

BEAT_SECONDS: Final = 1.0
REST: Final = 3
"""How many times longer it rests than it worked."""
UNASKED_SECONDS: Final = 900.0
KEPT: Final = 20
"""How many times longer what was read from the store is told than it took to read."""


class Figures(NamedTuple):
    """How the store stands."""

    depths: list[Row]
    standing: Snapshot
    metered: list[Meter]
    flows: dict[str, Flow]
    """Of queues that have limits, or were paused."""


class Counting:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._asked_at = 0.0
        self._cursor: Cursor | None = None
        self._lanes: dict[int, tuple[str, str]] = {}
        self._tally = Tally()
        self._figures: Figures | None = None
        self._figures_until = 0.0

    def text(self, may_see: MaySee) -> str:
        """All metrics, as they are now. Takes a while: not for an event loop."""
        with self._lock:
            up = self._look()
            self._start()
            families: list[tuple[Metric, Values]] = [(UP, {(): float(up)}), *self._tally.families()]
            if up and self._figures is not None:
                families += gauges(self._tally, *self._figures)
            return document(lines(families, may_see))

    def close(self) -> None:
        """Reads no more; from any thread, and without waiting."""
        self._closed.set()

    def _look(self) -> bool:
        try:
            self._count()
            self._read_figures()
            return True
        except StoreUnavailable as error:
            log.warning("metrics without the store: %s", one_line(str(error)))
            return False

    def _start(self) -> None:
        self._asked_at = time.monotonic()
        if self._thread is None and not self._closed.is_set():
            self._thread = threading.Thread(target=self._keep_up, name="holdfast-metrics", daemon=True)
            self._thread.start()

    def _keep_up(self) -> None:
        pause = BEAT_SECONDS
        while not self._closed.wait(pause):
            began = time.monotonic()
            with self._lock:
                if began - self._asked_at > UNASKED_SECONDS:
                    self._thread = self._cursor = None  # what happens until the next question is not counted
                    return
                try:
                    self._count()
                except StoreUnavailable:
                    pass  # the next question raises it
                except Exception:
                    log.exception("events could not be counted; they are tried again")
            pause = max(BEAT_SECONDS, REST * (time.monotonic() - began))

    def _count(self) -> None:
        """What came since the last time. The first look only notes where to begin."""
        if self._cursor is None:
            self._cursor = self._store.read(lambda _: feed_end())
            return
        try:
            found = self._store.read(_since(self._cursor))
        except SettingError as error:  # the database is another one than it was
            log.warning("events are counted from now on: %s", one_line(str(error)))
            self._cursor = None
            return
        if any(each.lane not in self._lanes for each in found.counts):
            self._lanes = self._store.read(lambda _: lane_names())
        for each in found.counts:
            self._tally.add(*self._lanes[each.lane], each.kind, each.number, each.micros)
        self._cursor = found.cursor

    def _read_figures(self) -> None:
        began = time.monotonic()
        if began >= self._figures_until:
            self._figures = self._store.read(_figures)
            self._figures_until = time.monotonic() + KEPT * (time.monotonic() - began)


def _figures(moment: Moment) -> Op[Figures]:
    depths = yield Statement("depths")
    found = yield from standing(moment)
    running: Counter[str] = Counter()
    for queue, _, state, number in depths:
        running[queue] += number if state == State.RUNNING else 0
    flows = yield from look(moment, (yield Statement("queue_settings")), running)
    return Figures(depths, found, (yield from metered_today(moment)), flows)


def _since(cursor: Cursor) -> Operation[EventCounts]:
    return lambda _: event_counts(cursor)
