"""`python -m chaos.faults --kind restart --times 50 --seed 91`: faults of a PostgreSQL server and its network, under load.

Each run has a private server. Afterwards every job must have ended, every promise of `holdfast torture` must hold, the pace must
be back, and no process may hold more threads, descriptors or connections than before.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Final

from chaos.fault_summary import figures, page
from chaos.gauge import paces
from chaos.injector import RECOVERY_SECONDS, FaultPlan, Injector
from chaos.private_server import OTHERS, ROLE, PrivateServer
from chaos.proxy import Proxy
from chaos.steady import LEASE_SECONDS
from holdfast.errors import HoldfastError, SettingError
from holdfast.torture.checker import judge
from holdfast.torture.evidence import gather
from holdfast.torture.run import Echo, check_counts, conduct, new_directory, new_seed, prepare
from holdfast.torture.summary import Figures

TAKEN_SECONDS: Final = 5.0
SILENT_SECONDS: Final = 2 * LEASE_SECONDS
WORKERS_DEFAULT: Final = 2
ENQUEUERS_DEFAULT: Final = 2


# The kinds: their docstrings are the help of the command


def restart(injector: Injector) -> None:
    """the server restarts, in turn with `-m immediate` and `-m fast`"""
    for number in range(injector.plan.times):
        mode = ("immediate", "fast")[number % 2]
        with injector.fault(f"restart -m {mode}"):
            injector.server.restart(mode)
        injector.wait(RECOVERY_SECONDS + injector.chance.uniform(0.0, 1.0))


def terminate(injector: Injector) -> None:
    """twice a second a random server process of Holdfast's connections is terminated"""
    for _ in range(injector.plan.times):
        with injector.fault("terminate"):
            found = injector.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'holdfast' ORDER BY pid")
            if found:
                injector.query("SELECT pg_terminate_backend(%s)", injector.chance.choice(found)[0])
        injector.wait(max(0.0, 0.5 - (injector.faults[-1].over - injector.faults[-1].began)))


def pool(injector: Injector) -> None:
    """for five seconds other programs hold all connections, also those that Holdfast had"""
    for _ in range(injector.plan.times):
        with injector.fault("every connection taken"), ExitStack() as others:
            injector.query(f"ALTER ROLE {ROLE} CONNECTION LIMIT 0")  # else Holdfast connects again before the others do
            injector.query("SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE usename = %s", ROLE)
            _take_all(injector.server, others)
            injector.query(f"ALTER ROLE {ROLE} CONNECTION LIMIT -1")
            injector.wait(TAKEN_SECONDS)
        injector.wait(RECOVERY_SECONDS)


def _take_all(server: PrivateServer, others: ExitStack) -> None:
    import psycopg

    with suppress(psycopg.OperationalError):
        while True:
            others.enter_context(psycopg.connect(server.url(OTHERS), application_name="others"))


def kill(injector: Injector) -> None:
    """every second a random worker is killed"""
    for _ in range(injector.plan.times):
        with injector.fault("kill"):
            injector.kill_worker()
        injector.wait(1.0)


def blackhole(injector: Injector) -> None:
    """for twice a lease no byte passes the network, and no connection is closed"""
    _silence(injector, forget=False)


def cut(injector: Injector) -> None:
    """as blackhole, but the old connections stay silent for ever; new ones work"""
    _silence(injector, forget=True)


def _silence(injector: Injector, forget: bool) -> None:
    for _ in range(injector.plan.times):
        with injector.fault(injector.plan.kind):
            injector.proxy.silence()
            injector.wait(SILENT_SECONDS)
            injector.proxy.resume(forget)
        injector.wait(RECOVERY_SECONDS)


def failover(injector: Injector) -> None:
    """the primary is killed, and up to two seconds later its synchronous standby is promoted; once in a run"""
    with injector.fault("primary killed, standby promoted"):
        injector.server.kill()
        time.sleep(injector.chance.uniform(0.2, 2.0))
        injector.standby.promote()
        injector.server = injector.standby


Kind = Callable[[Injector], None]
KINDS: Final[dict[str, Kind]] = {kind.__name__: kind for kind in (restart, terminate, pool, kill, blackhole, cut, failover)}
TIMES: Final = {"restart": 50, "terminate": 120, "pool": 3, "kill": 60, "blackhole": 3, "cut": 1, "failover": 1}
"""How many faults, by default."""
SERIES: Final = ("terminate", "kill")
PROXIED: Final = ("blackhole", "cut")


# The command


def main(arguments: list[str] | None = None) -> int:
    kinds = "\n".join(f"  {name:<10} {kind.__doc__} (default: {TIMES[name]})" for name, kind in KINDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m chaos.faults",
        description="Faults of a private PostgreSQL server and its network, under a steady load.",
        epilog=f"kinds of faults:\n{kinds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kind", choices=list(KINDS), required=True, help="what is done; see below")
    parser.add_argument("--times", type=int, help="how many faults")
    parser.add_argument("--seed", type=int, help="repeat the run with this seed (default: a new one, which is printed)")
    parser.add_argument("--workers", type=int, help=f"(default: {WORKERS_DEFAULT})")
    parser.add_argument("--enqueuers", type=int, help=f"(default: {ENQUEUERS_DEFAULT})")
    parser.add_argument("--dir", dest="directory", help="where ledgers and logs go, and are kept (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = parser.parse_args(arguments)
    try:
        plan = plan_of(options.kind, options.times, options.seed, options.workers, options.enqueuers, options.directory)
        return conduct(plan, lambda echo: inject(plan, echo), page, options.json, keep=options.directory is not None)
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130


def plan_of(
    kind: str,
    times: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    enqueuers: int | None = None,
    directory: str | None = None,
) -> FaultPlan:
    if kind not in KINDS:
        raise SettingError(f"kind={kind!r} is unknown; use one of {', '.join(KINDS)}")
    if kind == "failover" and times not in (None, 1):
        raise SettingError(f"times {times} must be 1 for failover: a run has one standby")
    check_counts(times=times, workers=workers, enqueuers=enqueuers)
    seed = new_seed() if seed is None else seed
    return FaultPlan(
        seed=seed,
        workers=workers or WORKERS_DEFAULT,
        enqueuers=enqueuers or ENQUEUERS_DEFAULT,
        directory=new_directory(f"holdfast-faults-{seed}-", directory),
        kind=kind,
        times=times or TIMES[kind],
        is_series=kind in SERIES,
    )


def inject(plan: FaultPlan, echo: Echo) -> Figures:
    with ExitStack() as stack:
        server = stack.enter_context(_server(plan, "server"))
        prepare(server.url())
        proxy = stack.enter_context(closing(Proxy(server.port))) if plan.kind in PROXIED else None
        standby = stack.enter_context(_server(plan, "standby", server)) if plan.kind == "failover" else None
        with closing(Injector(plan, server, proxy, standby, echo)) as injector:
            injector.run(KINDS[plan.kind])
        evidence = gather(plan.ledgers, injector.server.url())
        return figures(injector, paces(plan.ledgers), evidence, judge(evidence))


@contextmanager
def _server(plan: FaultPlan, name: str, primary: PrivateServer | None = None) -> Iterator[PrivateServer]:
    """Its log is kept with those of the load."""
    server = PrivateServer.new() if primary is None else primary.standby()
    try:
        yield server
    finally:
        with open(os.path.join(plan.logs, f"{name}.log"), "w") as log:
            log.write(server.log)
        server.close()


if __name__ == "__main__":
    sys.exit(main())
