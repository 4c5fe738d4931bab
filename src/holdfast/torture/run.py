"""One run, from its seed to its report."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import msgspec

from holdfast.app import Holdfast
from holdfast.errors import SettingError
from holdfast.torture.chaos import KINDS, Director
from holdfast.torture.checker import judge
from holdfast.torture.evidence import gather
from holdfast.torture.gauge import paces
from holdfast.torture.ground import TABLES, connect, is_postgres
from holdfast.torture.killer import Killer, Toll
from holdfast.torture.plan import ENQUEUERS_DEFAULT, KILLS_DEFAULT, WORKERS_DEFAULT, Plan
from holdfast.torture.proxy import Proxy
from holdfast.torture.report import chaos_figures, chaos_page, figures, page
from holdfast.torture.server import Server
from holdfast.torture.stage import Stage

STORES = ("sqlite", "postgresql")
Tell = Callable[[str], None]


def run(
    minutes: float | None = None,
    kills: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    enqueuers: int | None = None,
    url_dir: str | None = None,
    json: bool = False,
    on: str = "sqlite",
    url: str | None = None,
    chaos: str | None = None,
    times: int | None = None,
) -> int:
    """Kill for so many minutes, or so often (1,000 times unless told); 0 if every promise held, 1 if not."""
    plan = plan_of(minutes, kills, seed, workers, enqueuers, url_dir, on, url, chaos, times)

    def tell(line: str) -> None:
        stream = sys.stderr if json else sys.stdout
        stream.write(line + "\n")
        stream.flush()

    tell(f"seed {plan.seed}, in {plan.directory}")
    os.mkdir(plan.ledgers)
    os.mkdir(plan.logs)
    with ExitStack() as stack:
        found, show = wreak(plan, stack, tell) if plan.chaos else torment(plan, stack, tell)
    text = msgspec.json.format(msgspec.json.encode(found)).decode() + "\n" if json else show(found)
    sys.stdout.write(text)
    sys.stdout.flush()
    if found["ok"] and url_dir is None:
        shutil.rmtree(plan.directory, ignore_errors=True)
    return 0 if found["ok"] else 1


def plan_of(
    minutes: float | None,
    kills: int | None,
    seed: int | None,
    workers: int | None,
    enqueuers: int | None,
    url_dir: str | None,
    on: str = "sqlite",
    url: str | None = None,
    chaos: str | None = None,
    times: int | None = None,
) -> Plan:
    if minutes is not None and kills is not None:
        raise SettingError(f"minutes={minutes:g} and kills={kills}: give one of them")
    for name, count in (("workers", workers), ("enqueuers", enqueuers), ("kills", kills), ("times", times)):
        if count is not None and count < 1:
            raise SettingError(f"{name} {count} must be 1 or more")
    if minutes is not None and not minutes > 0:
        raise SettingError(f"minutes {minutes:g} must be more than 0")
    if on not in STORES:
        raise SettingError(f"on={on!r} is unknown; use one of {', '.join(STORES)}")
    if url is not None and not (on == "postgresql" and is_postgres(url)):
        raise SettingError("url is for on=postgresql, and begins with postgresql://")
    if chaos is not None:
        _check_chaos(chaos, on, url, kills is not None or minutes is not None)
    elif times is not None:
        raise SettingError("times is for chaos; use kills or minutes")
    if chaos is None and kills is None and minutes is None:
        kills = KILLS_DEFAULT
    crowd = (2, 2) if chaos else (WORKERS_DEFAULT, ENQUEUERS_DEFAULT)
    chosen = secrets.randbelow(2**32) if seed is None else seed
    parent = None if url_dir is None else os.path.abspath(url_dir)
    if parent is not None:
        os.makedirs(parent, exist_ok=True)
    directory = tempfile.mkdtemp(prefix=f"holdfast-torture-{chosen}-", dir=parent)
    return Plan(chosen, kills, minutes, workers or crowd[0], enqueuers or crowd[1], directory, on, url, chaos, times)


def _check_chaos(chaos: str, on: str, url: str | None, other_length: bool) -> None:
    if chaos not in KINDS:
        raise SettingError(f"chaos={chaos!r} is unknown; use one of {', '.join(KINDS)}")
    if on != "postgresql" or url is not None:
        raise SettingError("chaos needs a PostgreSQL server of its own: on=postgresql, and no url")
    if other_length:
        raise SettingError("chaos has its own length; use times")


def prepare(url: str) -> None:
    """Holdfast's tables and those of its users, empty."""
    with Holdfast(url) as app:
        app.migrate()
    own = connect(url)
    try:
        if own.execute("SELECT 1 FROM holdfast_job LIMIT 1").fetchone():
            raise SettingError("there are jobs in that database already; give an empty one")
        for statement in TABLES:
            own.execute(statement)
    finally:
        own.close()


Found = dict[str, Any]
Shown = tuple[Found, Callable[[Found], str]]


def torment(plan: Plan, stack: ExitStack, tell: Tell) -> Shown:
    """SIGKILL and SIGSTOP."""
    url = plan.given_url or plan.url
    if plan.on == "postgresql" and plan.given_url is None:
        url = _server(plan, stack).url()
    prepare(url)
    toll = _strike(plan, url, tell)
    evidence = gather(plan.ledgers, url)
    return figures(plan, toll, evidence, judge(evidence)), page


def _strike(plan: Plan, url: str, tell: Tell) -> Toll:
    stage = Stage(plan, url)
    try:
        killer = Killer(plan, url, stage, tell)
        try:
            killer.strike_all()
            killer.drain()
        finally:
            killer.close()
    finally:
        stage.close()
    return killer.toll


def wreak(plan: Plan, stack: ExitStack, tell: Tell) -> Shown:
    """Chaos."""
    kind = plan.chaos or ""
    server = _server(plan, stack)
    prepare(server.url())
    director, url = Director(plan, server, tell), server.url()
    if kind in ("blackhole", "cut"):
        director.proxy = Proxy(server.port)
        stack.callback(director.proxy.close)
        url = server.url(port=director.proxy.port)
    if kind == "failover":
        director.standby = server.standby()
        stack.callback(director.standby.close)
        url = server.url_with(director.standby)
    trouble = director.run(KINDS[kind], url)
    evidence = gather(plan.ledgers, director.server.url())
    return chaos_figures(plan, trouble, paces(plan.ledgers), evidence, judge(evidence)), chaos_page


def _server(plan: Plan, stack: ExitStack) -> Server:
    """Its log is kept with what else the run leaves."""
    server = Server.new()
    stack.callback(server.close)

    def keep_log() -> None:
        with open(os.path.join(plan.logs, "server.log"), "w") as file:
            file.write(server.log)

    stack.callback(keep_log)
    return server
