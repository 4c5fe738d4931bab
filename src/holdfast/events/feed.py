"""One watcher per process feeds any number of followers: of jobs, and of all that happens.

After commits it asks once for all jobs that are followed which of them have moved on, reads what is new about those, and puts
that into the mailboxes. Who attaches says how far it has read for itself, and whether that is far enough is decided here: so
nothing is missed between the reading and the following, and numbers and cursors tell what came twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Final

from holdfast.domain.event import Event
from holdfast.domain.states import FINAL, State
from holdfast.errors import SettingError
from holdfast.events.follower import Follower, wake_all
from holdfast.events.pulse import Pulse
from holdfast.store import browse
from holdfast.store.browse import Moved
from holdfast.store.feed import Cursor, feed_end, feed_page
from holdfast.store.op import Moment, Op
from holdfast.store.store import Store

EVENTS_EACH_MAX: Final = 500
"""A job that said more than that since the last beat is read by its followers themselves."""
EVENTS_READ_MAX: Final = 2_000

Span = tuple[str, int, int]
"""Events of a job: its id, after which number, and up to which."""


class Watched:
    """A job with followers: what was last seen of it, and up to which number its events were given out."""

    __slots__ = ("count", "followers", "given", "id", "state")

    def __init__(self, id: str, given: int) -> None:
        self.id, self.given = id, given
        self.count = -1
        self.state: State | None = None
        self.followers: set[Follower] = set()

    @property
    def is_read_for_somebody(self) -> bool:
        return any(not (follower.silent or follower.behind) for follower in self.followers)

    def move(self, count: int, state: State | None, events: list[Event]) -> list[Follower]:
        """It has so many events now, of which these were not given out yet; the followers to wake."""
        self.count, self.state, self.given = count, state, count
        return [follower for follower in self.followers if self._tell(follower, events)]

    def end(self) -> list[Follower]:
        """It is gone."""
        for follower in self.followers:
            follower.over = True
        return list(self.followers)

    def _tell(self, follower: Follower, events: list[Event]) -> bool:
        if follower.behind:
            return False
        missed = not follower.silent and follower.place < self.count
        if missed:
            _put(follower, events, self.count)
        follower.over = self.ended_for(follower)
        return missed or follower.over

    def ended_for(self, follower: Follower) -> bool:
        """As far as was last seen. A follower that has read more than that knows better."""
        return self.state in FINAL and (self.count == follower.place or (follower.silent and self.count > follower.place))


class Feed:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._pulse = Pulse(lambda: store.watcher(follows=True), self._beat, self._anybody)
        self._forget()

    def _forget(self) -> None:
        self._mutex = Lock()
        self._jobs: dict[int, Watched] = {}
        self._streams: set[Follower] = set()
        self._leaving: deque[Follower] = deque()

    def close(self) -> None:
        self._pulse.close()

    @property
    def followers(self) -> int:
        with self._mutex:
            self._let_go()
            return len(self._streams) + sum(len(watched.followers) for watched in self._jobs.values())

    # What followers ask

    def attach(self, follower: Follower, id: str = "") -> None:
        """From now on it is told, unless what it has read is less than what was given out; then it stays `behind`."""
        if self._pulse.is_inherited:
            self._pulse.forget()
            self._forget()
        with self._mutex:
            self._let_go()
            news = self._join_stream(follower) if follower.key is None else self._join_job(follower, follower.key, id)
        if news:
            self._pulse.start()

    def leave(self, follower: Follower) -> None:
        """May be called anywhere, also while rubbish is collected: takes no lock, and what there is to do is done later."""
        follower.gone = True
        self._leaving.append(follower)

    def _join_stream(self, follower: Follower) -> bool:
        self._streams.add(follower)
        follower.behind = False
        return True

    def _join_job(self, follower: Follower, seq: int, id: str) -> bool:
        watched = self._jobs.get(seq)
        if watched is None:
            watched = self._jobs[seq] = Watched(id, follower.place)
        watched.followers.add(follower)
        if follower.silent or follower.place >= watched.given:
            follower.behind = False
            follower.over = watched.ended_for(follower)
        return not (follower.behind or follower.over)

    def _let_go(self) -> None:
        while self._leaving:
            follower = self._leaving.popleft()
            self._streams.discard(follower)
            watched = None if follower.key is None else self._jobs.get(follower.key)
            if watched is not None and follower.key is not None:
                watched.followers.discard(follower)
                if not watched.followers:
                    del self._jobs[follower.key]

    def _anybody(self) -> bool:
        with self._mutex:
            self._let_go()
            return bool(self._jobs or self._streams)

    # What the watcher does

    def _beat(self) -> None:
        self._tell_jobs()
        self._tell_streams()

    def _tell_jobs(self) -> None:
        with self._mutex:
            self._let_go()
            known = {seq: watched.count for seq, watched in self._jobs.items()}
        if not known:
            return
        moved = self._store.read(lambda _: browse.changed(known))
        for some, spans in self._portions(moved):
            self._give(some, self._store.read(partial(_events_of, spans)) if spans else {})

    def _portions(self, moved: Sequence[Moved]) -> Iterator[tuple[list[Moved], dict[int, Span]]]:
        """With what is to be read of them: so that one statement reads a bounded number of events."""
        some: list[Moved] = []
        spans: dict[int, Span] = {}
        events = 0
        for each in moved:
            span = self._unread(each)
            if span is not None and events + span[2] - span[1] > EVENTS_READ_MAX:
                yield some, spans
                some, spans, events = [], {}, 0
            some.append(each)
            if span is not None:
                spans[each.seq] = span
                events += span[2] - span[1]
        if some:
            yield some, spans

    def _unread(self, moved: Moved) -> Span | None:
        """None also where it is too much: followers that need it find it missing, and read it themselves."""
        with self._mutex:
            watched = self._jobs.get(moved.seq)
            if watched is None or moved.event_count is None or not watched.is_read_for_somebody:
                return None
            fits = 0 < moved.event_count - watched.given <= EVENTS_EACH_MAX
            return (watched.id, watched.given, moved.event_count) if fits else None

    def _give(self, moved: Sequence[Moved], found: dict[int, list[Event]]) -> None:
        told: list[Follower] = []
        with self._mutex:
            for seq, count, state in moved:
                watched = self._jobs.get(seq)
                if watched is None:
                    continue
                if count is None:
                    del self._jobs[seq]
                    told += watched.end()
                else:
                    told += watched.move(count, state, found.get(seq, []))
        self._wake(told)

    def _tell_streams(self) -> None:
        """All that is new for those who follow everything; as a rule they all stand at the same place."""
        places: dict[Cursor, list[Follower]] = {}
        with self._mutex:
            for follower in self._streams:
                if not follower.behind:
                    places.setdefault(follower.place, []).append(follower)
        if not places:
            return
        end = self._store.read(lambda _: feed_end())
        for place, followers in places.items():
            if place != end:
                self._tell_stream(place, end, followers)

    def _tell_stream(self, place: Cursor, end: Cursor, followers: list[Follower]) -> None:
        try:
            page = self._store.read(lambda _: feed_page(place._replace(upto=end.since)))
        except SettingError:  # this is not the database it was: let them find out
            page = None
        with self._mutex:
            for follower in followers:
                if page is None or page.cursor != end:
                    follower.behind = True
                else:
                    follower.put(page.events, end)
        if page is None or page.events or page.cursor != end:
            self._wake(followers)

    def _wake(self, followers: Sequence[Follower]) -> None:
        for lost in wake_all(followers):
            self.leave(lost)


def _put(follower: Follower, events: list[Event], upto: int) -> None:
    """What it has not read for itself; if an event is missing between the two, it looks for it."""
    fresh = [event for event in events if event.number > follower.place] if follower.place else events
    if not fresh or fresh[0].number != follower.place + 1 or fresh[-1].number != upto:
        follower.behind = True
    else:
        follower.put(fresh, upto)


def _events_of(spans: dict[int, Span], _: Moment) -> Op[dict[int, list[Event]]]:
    return browse.events_of(spans)
