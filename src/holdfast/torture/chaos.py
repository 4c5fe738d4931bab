"""Chaos: a steady load, and blows at the server, the network and the workers; afterwards everything must have ended.

Who directs it uses a superuser's connection of its own, and no connection of Holdfast's.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from holdfast.torture.gauge import AFTER_WINDOWS, BACK_SECONDS, Blow, Holdings
from holdfast.torture.killer import Place
from holdfast.torture.ledger import Ledger
from holdfast.torture.plan import Plan
from holdfast.torture.proxy import Proxy
from holdfast.torture.server import CROWD, ROLE, Server
from holdfast.torture.stage import Stage
from holdfast.torture.steady import LEASE_SECONDS

WARM_SECONDS: Final = 6.0
CALM_SECONDS: Final = 8.0
LOOKS: Final = 12
LOOK_SECONDS: Final = 0.25
DRAIN_SECONDS: Final = 60.0
SIGN_OFF_SECONDS: Final = 15.0
EXHAUSTED_SECONDS: Final = 5.0
HOLE_SECONDS: Final = 2 * LEASE_SECONDS
TIMES: Final = {"restart": 50, "terminate": 120, "pool": 3, "kill": 60, "blackhole": 3, "cut": 1, "failover": 1}
"""How often, unless told. `cut` is `blackhole`, but old connections stay silent for ever."""


@dataclass
class Trouble:
    """What a run of chaos came to, as its director saw it."""

    blows: list[Blow] = field(default_factory=list)
    before: dict[str, Holdings] = field(default_factory=dict)
    after: dict[str, Holdings] = field(default_factory=dict)
    connections: tuple[int, int] = (0, 0)
    drain_seconds: float = 0.0
    seconds: float = 0.0
    surprises: list[str] = field(default_factory=list)


class Director:
    def __init__(self, plan: Plan, server: Server, tell: Callable[[str], None]) -> None:
        self._plan, self.server, self.tell = plan, server, tell
        self.proxy: Proxy | None = None
        self.standby: Server | None = None
        self.chance = random.Random(f"{plan.seed}/chaos")
        self.times = plan.times or TIMES[plan.chaos or ""]
        self.trouble = Trouble()
        self._ledger = Ledger(plan.ledgers)
        self._places = [Place("steady worker", f"worker-{n}") for n in range(plan.workers)]
        self._places += [Place("steady enqueuer", f"enqueuer-{n}") for n in range(plan.enqueuers)]
        self._stage: Stage | None = None

    # The run

    def run(self, kind: Callable[[Director], None], url: str) -> Trouble:
        began = time.monotonic()
        self._stage = Stage(self._plan, url)
        try:
            self._fill()
            self.wait(WARM_SECONDS)
            calm_from = time.monotonic()
            self.wait(CALM_SECONDS - LOOKS * LOOK_SECONDS)
            self.trouble.before, connections = self._holdings()
            kind(self)
            if self._plan.chaos in SERIES:  # one long blow
                first, last = self.trouble.blows[0], self.trouble.blows[-1]
                what = f"{len(self.trouble.blows)} × {self._plan.chaos}"
                self.trouble.blows = [Blow(what, first.began, last.over, calm_from)]
            self.wait(BACK_SECONDS + AFTER_WINDOWS)
            self.trouble.after, after = self._holdings()
            self.trouble.connections = (connections, after)
            self._drain()
        finally:
            self._stage.close()
        self.trouble.seconds = time.monotonic() - began
        return self.trouble

    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))
            self._fill()

    @contextmanager
    def blow(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        over = time.monotonic()
        self.trouble.blows.append(Blow(what, began, over))
        self._ledger.write("blow", how=what)
        if self._plan.chaos not in SERIES or len(self.trouble.blows) % 10 == 0:
            self.tell(f"{len(self.trouble.blows):4} of {self.times}: {what}, {over - began:.1f} s")

    # The load

    def _fill(self) -> None:
        """Whoever was killed is replaced; whoever ended without that is a surprise."""
        assert self._stage is not None
        ended = dict(self._stage.ended())
        for place in self._places:
            if place.pid in ended:
                if not place.struck:
                    code = ended[place.pid]
                    self.trouble.surprises.append(f"{place.name} ended by itself ({code}); see logs/{place.name}.log")
                place.pid = None
            if place.pid is None:
                place.life += 1
                place.pid, place.struck = self._stage.start(place.role, place.name, place.life), False

    def kill(self, role: str) -> None:
        places = [place for place in self._places if place.role == role and place.pid is not None]
        self._kill(self.chance.choice(places))

    def _kill(self, place: Place) -> None:
        assert self._stage is not None
        assert place.pid is not None
        if self._stage.signal(place.pid, signal.SIGKILL):
            place.struck = True
            self._ledger.write("kill", ids=[str(place.pid)])

    def _drain(self) -> None:
        """The enqueuers are killed, and the workers that went through all of it finish what there is."""
        began = moved = time.monotonic()
        for place in self._places:
            if place.role == "steady enqueuer":
                self._kill(place)
        self._places = [place for place in self._places if place.role == "steady worker"]
        left = self._left()
        while left:
            self.wait(0.1)
            before, left = left, self._left()
            moved = time.monotonic() if left != before else moved
            if time.monotonic() - moved > DRAIN_SECONDS:
                self.trouble.surprises.append(f"{left} jobs were still open after {DRAIN_SECONDS:g} s in which none ended")
                break
        self.trouble.drain_seconds = time.monotonic() - began
        self._sign_off()

    def _sign_off(self) -> None:
        assert self._stage is not None
        waiting = {place.pid: place for place in self._places if place.pid is not None}
        for pid in waiting:
            self._stage.signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + SIGN_OFF_SECONDS
        while waiting and time.monotonic() < deadline:
            time.sleep(0.05)
            for pid, code in self._stage.ended():
                place = waiting.pop(pid, None)
                if place is not None and code != 0:
                    self.trouble.surprises.append(f"{place.name} left with exit code {code}; see logs/{place.name}.log")
        self.trouble.surprises += [f"{place.name} did not stop when told to" for place in waiting.values()]

    # What is seen

    def ask(self, query: str, *values: Any, database: str = "jobs") -> list[tuple[Any, ...]]:
        """As superuser."""
        import psycopg

        with psycopg.connect(self.server.url("postgres", database), autocommit=True, application_name="director") as admin:
            return admin.execute(query, values or None).fetchall()

    def _left(self) -> int:
        """In one look: a job that moves between two of them is in none of several."""
        tables = ("ready", "scheduled", "running")
        counts = " + ".join(f"(SELECT count(*) FROM holdfast.{table})" for table in tables)  # noqa: S608
        return int(self.ask(f"SELECT {counts}")[0][0])

    def _holdings(self) -> tuple[dict[str, Holdings], int]:
        """What each process holds, and how many connections all of them have, as it usually is."""
        seen = {f"{place.name}.{place.life}": Holdings() for place in self._places}
        connections: list[int] = []
        for _ in range(LOOKS):
            for place in self._places:
                if place.pid is not None:
                    seen.setdefault(f"{place.name}.{place.life}", Holdings()).look(place.pid)
            connections += self.ask("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", ROLE)[0]
            self.wait(LOOK_SECONDS)
        return seen, int(median(connections))


# The kinds of chaos


def restart(director: Director) -> None:
    for number in range(director.times):
        mode = ("immediate", "fast")[number % 2]
        with director.blow(f"restart -m {mode}"):
            director.server.restart(mode)
        director.wait(BACK_SECONDS + AFTER_WINDOWS + director.chance.uniform(0.0, 1.0))


def terminate(director: Director) -> None:
    """Twice a second, one of Holdfast's backends."""
    for _ in range(director.times):
        with director.blow("terminate"):
            found = director.ask("SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast' ORDER BY pid")
            if found:
                director.ask("SELECT pg_terminate_backend(%s)", director.chance.choice(found)[0])
        director.wait(max(0.0, 0.5 - (director.trouble.blows[-1].over - director.trouble.blows[-1].began)))


def kill(director: Director) -> None:
    """A worker every second."""
    for _ in range(director.times):
        with director.blow("kill"):
            director.kill("steady worker")
        director.wait(1.0)


def pool(director: Director) -> None:
    """Others take all connections, also those that Holdfast had."""
    for _ in range(director.times):
        with director.blow("every connection taken"), ExitStack() as others:
            deadline = time.monotonic() + EXHAUSTED_SECONDS
            while time.monotonic() < deadline:
                _take_all(director, others)
                director.ask("SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE usename = %s", ROLE)
        director.wait(BACK_SECONDS + AFTER_WINDOWS)


def _take_all(director: Director, others: ExitStack) -> None:
    import psycopg

    with suppress(psycopg.OperationalError):
        while True:
            others.enter_context(psycopg.connect(director.server.url(CROWD), application_name="crowd"))


def blackhole(director: Director) -> None:
    """Nothing gets through for twice a lease, and nobody hangs up."""
    _go_silent(director, forget=False)


def cut(director: Director) -> None:
    """The same, but what was silenced stays so: only new connections get through afterwards."""
    _go_silent(director, forget=True)


def _go_silent(director: Director, forget: bool) -> None:
    assert director.proxy is not None
    for _ in range(director.times):
        with director.blow("cut" if forget else "blackhole"):
            director.proxy.silence()
            director.wait(HOLE_SECONDS)
            director.proxy.speak(forget)
        director.wait(BACK_SECONDS + AFTER_WINDOWS)


def failover(director: Director) -> None:
    """The primary is gone from one moment to the next; a little later the standby is told to take its place."""
    primary, standby = director.server, director.standby
    assert standby is not None
    with director.blow("primary killed, standby promoted"):
        primary.kill()
        time.sleep(director.chance.uniform(0.2, 2.0))
        standby.promote()
        director.server = standby


KINDS: Final[dict[str, Callable[[Director], None]]] = {
    "restart": restart, "terminate": terminate, "pool": pool, "kill": kill, "blackhole": blackhole, "cut": cut,
    "failover": failover,
}  # fmt: skip
SERIES: Final = ("terminate", "kill")
"""Blows so close to each other that only the series has a before and an after."""
