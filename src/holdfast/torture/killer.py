"""The killer: keeps every place filled, strikes at random, and at the end lets two workers nobody strikes finish the rest."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.torture.ground import OwnSqlite, connect
from holdfast.torture.ledger import Ledger
from holdfast.torture.plan import Blow, Blows, Plan
from holdfast.torture.stage import Stage

LOCKED_SHARE: Final = 0.2
"""One that is stopped inside a transaction stops all who write: tried too, but seldom, for nothing else happens meanwhile."""
DRAINERS: Final = 2
STALL_SECONDS: Final = 60.0
"""How long the drain may go on without a single job reaching its end."""
SIGN_OFF_SECONDS: Final = 15.0
SPARED_SECONDS: Final = 0.5
"""How long one that wakes up has to do what it must not."""
LOOK_SECONDS: Final = 0.05
OPEN: Final = """
SELECT (SELECT count(*) FROM holdfast_ready) + (SELECT count(*) FROM holdfast_scheduled) + (SELECT count(*) FROM holdfast_running)
"""
"""One statement: a job that moves between two looks would be in neither."""


class Place(msgspec.Struct):
    """A process that is started again whenever it has ended."""

    role: str
    name: str
    life: int = 0
    pid: int | None = None
    struck: bool = False
    wakes_at: float | None = None
    """It is stopped until then; killing it meanwhile would leave nobody to wake up too late."""
    spared_until: float = 0.0


class Toll(msgspec.Struct):
    """What the run came to, as its killer saw it."""

    kills: dict[str, int] = {}
    stops: int = 0
    own_kills: int = 0
    seconds: float = 0.0
    drain_seconds: float = 0.0
    surprises: list[str] = []

    @property
    def kill_count(self) -> int:
        return sum(self.kills.values())


class Killer:
    def __init__(self, plan: Plan, url: str, stage: Stage, tell: Callable[[str], None]) -> None:
        self._plan, self._stage, self._tell = plan, stage, tell
        self._ledger = Ledger(plan.ledgers)
        self._places = [Place("worker", f"worker-{n}") for n in range(plan.workers)]
        self._places += [Place("enqueuer", f"enqueuer-{n}") for n in range(plan.enqueuers)]
        self._reader, self._writer = connect(url), connect(url)
        if isinstance(self._writer, OwnSqlite):
            self._writer.execute("PRAGMA busy_timeout = 100")
        self.toll = Toll(kills={"worker": 0, "enqueuer": 0})
        self._began = time.monotonic()
        self._told_at = 0.0

    # The run

    def strike_all(self) -> None:
        """Blow after blow, until there were enough or the time is up."""
        blows = Blows(self._plan.seed)
        self._revive()
        self._began = time.monotonic()
        while not self._enough():
            self._revive()
            blow = blows.next()
            time.sleep(blow.pause_seconds)
            self._wake_stopped()
            self._strike(blow)
            self._tell_progress()
        for place in self._places:
            self._kill(place)
        self.toll.seconds = time.monotonic() - self._began

    def drain(self) -> None:
        """Two healthy workers until everything has ended. Poison still kills them; they are started again."""
        began = moved = time.monotonic()
        self._places = [Place("worker", f"drainer-{n}") for n in range(DRAINERS)]
        left = self._left()
        while left:
            self._revive()
            time.sleep(LOOK_SECONDS)
            now, before, left = time.monotonic(), left, self._left()
            moved = now if left != before else moved
            if now - moved > STALL_SECONDS:
                self.toll.surprises.append(f"{left} jobs were still open after {STALL_SECONDS:g} s in which none ended")
                break
            self._tell_progress()
        self._sign_off()
        self.toll.drain_seconds = time.monotonic() - began

    def close(self) -> None:
        self._reader.close()
        self._writer.close()

    def _enough(self) -> bool:
        if self._plan.minutes is not None:
            return time.monotonic() - self._began >= self._plan.minutes * 60
        return self.toll.kill_count >= (self._plan.kills or 0)

    # Life and death

    def _revive(self) -> None:
        ended = dict(self._stage.ended())
        for place in self._places:
            if place.pid in ended:
                self._bury(place, ended[place.pid])
            if place.pid is None:
                place.life += 1
                place.pid = self._stage.start(place.role, place.name, place.life)
                place.struck, place.wakes_at = False, None

    def _bury(self, place: Place, code: int) -> None:
        if code == -signal.SIGKILL and not place.struck and place.role == "worker":
            self.toll.own_kills += 1
        elif not (code == -signal.SIGKILL and place.struck):
            how = f"with exit code {code}" if code >= 0 else f"by signal {-code}"
            self.toll.surprises.append(f"{place.name} ended by itself, {how}; see logs/{place.name}.log")
        place.pid = None

    def _strike(self, blow: Blow) -> None:
        now = time.monotonic()
        places = [place for place in self._places if place.wakes_at is None and now >= place.spared_until]
        if blow.stopped_seconds is not None:  # only a worker has something that others may take meanwhile
            places = [place for place in places if place.role == "worker"]
        if not places:
            return
        place = places[int(blow.choice * len(places))]
        if blow.stopped_seconds is None:
            self._kill(place)
        elif place.pid is not None and self._stage.signal(place.pid, signal.SIGSTOP):
            if self._locked() and blow.choice > LOCKED_SHARE:
                self._stage.signal(place.pid, signal.SIGCONT)
                return
            place.wakes_at = now + blow.stopped_seconds
            self.toll.stops += 1

    def _locked(self) -> bool:
        """A whole file, that is; where only rows are locked, others go on."""
        if not isinstance(self._writer, OwnSqlite):
            return False
        try:
            self._writer.begin()
        except sqlite3.OperationalError:
            return True
        self._writer.execute("ROLLBACK")
        return False

    def _kill(self, place: Place) -> None:
        if place.pid is not None and not place.struck and self._stage.signal(place.pid, signal.SIGKILL):
            place.struck = True
            self._ledger.write("kill", ids=[str(place.pid)])
            self.toll.kills[place.role] += 1

    def _wake_stopped(self) -> None:
        now = time.monotonic()
        for place in self._places:
            if place.wakes_at is not None and now >= place.wakes_at and place.pid is not None:
                self._stage.signal(place.pid, signal.SIGCONT)
                place.wakes_at, place.spared_until = None, now + SPARED_SECONDS

    def _sign_off(self) -> None:
        """SIGTERM: an idle worker leaves at once, and properly."""
        for place in self._places:
            if place.pid is not None:
                self._stage.signal(place.pid, signal.SIGTERM)
        deadline = time.monotonic() + SIGN_OFF_SECONDS
        waiting: dict[int, Place] = {place.pid: place for place in self._places if place.pid is not None}
        while waiting and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            for pid, code in self._stage.ended():
                if pid in waiting and code != 0:
                    self._bury(waiting[pid], code)
                waiting = {other: place for other, place in waiting.items() if other != pid}
        self.toll.surprises += [f"{place.name} did not stop when told to" for place in waiting.values()]

    # What is seen meanwhile

    def _left(self) -> int:
        return self._count(OPEN)

    def _count(self, query: str) -> int:
        return int(self._reader.execute(query).fetchone()[0])

    def _tell_progress(self) -> None:
        now = time.monotonic()
        if now - self._told_at < 1.0:
            return
        self._told_at = now
        seconds, toll = now - self._began, self.toll
        accepted, open_ = self._count("SELECT count(*) FROM holdfast_job"), self._left()
        self._tell(
            f"{seconds:6.0f} s  {toll.kill_count:6,} kills  {toll.kill_count / seconds:5.1f}/s  {toll.stops:4,} stops  "
            f"{accepted:8,} jobs  {accepted - open_:8,} ended  {open_:6,} open"
        )
