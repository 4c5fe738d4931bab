"""The injector: faults under a steady load, and measurements before and after them.

Its own connections are those of a superuser, never those of Holdfast.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, Final

from chaos.gauge import AFTER_WINDOWS, BACK_SECONDS, Fault, Footprint
from chaos.private_server import ROLE, PrivateServer
from chaos.proxy import Proxy
from holdfast.torture.direct import for_postgres
from holdfast.torture.fleet import OPEN_JOBS, Fleet, Plan
from holdfast.torture.ledgers import Ledger

WARM_SECONDS: Final = 6.0
CALM_SECONDS: Final = 8.0
LOOKS: Final = 12
LOOK_SECONDS: Final = 0.25
RECOVERY_SECONDS: Final = BACK_SECONDS + AFTER_WINDOWS
"""The time after a fault in which the pace has to come back, and to be measured."""


class FaultPlan(Plan, frozen=True, kw_only=True):
    kind: str
    times: int
    is_series: bool
    """The faults follow each other so closely that only all of them together have a before and an after."""

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        size = f"--times {self.times} --seed {self.seed} --workers {self.workers} --enqueuers {self.enqueuers}"
        return f"python -m chaos.faults --kind {self.kind} {size}"


class Injector:
    def __init__(
        self,
        plan: FaultPlan,
        server: PrivateServer,
        proxy: Proxy | None,
        standby: PrivateServer | None,
        echo: Callable[[str], None],
    ) -> None:
        self.plan, self.server, self._proxy, self._standby, self._echo = plan, server, proxy, standby, echo
        self.chance = random.Random(f"{plan.seed}/faults")
        self.faults: list[Fault] = []
        self.before: dict[str, Footprint] = {}
        self.after: dict[str, Footprint] = {}
        self.connections = (0, 0)
        self.seconds = 0.0
        self._ledger = Ledger(plan.ledgers)
        url = server.url()
        if proxy is not None:
            url = server.url(port=proxy.port)
        if standby is not None:
            url = server.url_with(standby)
        self.fleet = Fleet(plan, url, "chaos.steady")

    @property
    def proxy(self) -> Proxy:
        assert self._proxy is not None
        return self._proxy

    @property
    def standby(self) -> PrivateServer:
        assert self._standby is not None
        return self._standby

    def run(self, kind: Callable[[Injector], None]) -> None:
        began = time.monotonic()
        self.fleet.fill()
        self.wait(WARM_SECONDS)
        calm_from = time.monotonic()
        self.wait(CALM_SECONDS - LOOKS * LOOK_SECONDS)
        self.before, connections_before = self._footprints()
        kind(self)
        if self.plan.is_series:
            what = f"{len(self.faults)} × {self.plan.kind}"
            self.faults = [Fault(what, self.faults[0].began, self.faults[-1].over, calm_from)]
        self.wait(RECOVERY_SECONDS)
        self.after, connections_after = self._footprints()
        self.connections = (connections_before, connections_after)
        self._drain()
        self.seconds = time.monotonic() - began

    def wait(self, seconds: float) -> None:
        """Killed processes of the load are replaced meanwhile."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))
            self.fleet.fill()

    @contextmanager
    def fault(self, what: str) -> Iterator[None]:
        """The block is the fault."""
        began = time.monotonic()
        yield
        over = time.monotonic()
        self.faults.append(Fault(what, began, over))
        self._ledger.write("fault", how=what)
        if not self.plan.is_series or len(self.faults) % 10 == 0:
            self._echo(f"{len(self.faults):4} of {self.plan.times}: {what}, {over - began:.1f} s")

    def kill_worker(self) -> None:
        self.fleet.kill(self.chance.choice([slot for slot in self.fleet.slots if slot.role == "worker"]))

    def query(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """As superuser, on a connection of its own."""
        import psycopg

        with psycopg.connect(self.server.url("postgres"), autocommit=True, application_name="injector") as admin:
            cursor = admin.execute(query, values or None)
            return cursor.fetchall() if cursor.description else []

    def _drain(self) -> None:
        """The enqueuers are killed; the workers, which have gone through all faults, finish the open jobs."""
        for slot in self.fleet.slots:
            if slot.role == "enqueuer":
                self.fleet.kill(slot)
        workers = [slot for slot in self.fleet.slots if slot.role == "worker"]
        self.fleet.drain(workers, lambda: int(self.query(for_postgres(OPEN_JOBS))[0][0]))

    def _footprints(self) -> tuple[dict[str, Footprint], int]:
        """That of each process, and the usual number of connections of all of them."""
        seen: dict[str, Footprint] = {}
        connections: list[int] = []
        for _ in range(LOOKS):
            for slot in self.fleet.slots:
                if slot.pid is not None:
                    seen.setdefault(f"{slot.name}.{slot.life}", Footprint()).look(slot.pid)
            connections += self.query("SELECT count(*) FROM pg_stat_activity WHERE usename = %s", ROLE)[0]
            self.wait(LOOK_SECONDS)
        return seen, int(median(connections))

    def close(self) -> None:
        self.fleet.close()
