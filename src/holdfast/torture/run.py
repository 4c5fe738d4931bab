"""One run, from its seed to its report."""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable

import msgspec

from holdfast.app import Holdfast
from holdfast.errors import SettingError
from holdfast.torture.checker import judge
from holdfast.torture.evidence import gather
from holdfast.torture.killer import Killer, Toll
from holdfast.torture.plan import ENQUEUERS_DEFAULT, KILLS_DEFAULT, WORKERS_DEFAULT, Plan
from holdfast.torture.report import figures, page
from holdfast.torture.stage import Stage

_TABLES = (
    "CREATE TABLE torture_order (call TEXT PRIMARY KEY)",
    "CREATE TABLE torture_effect (call TEXT NOT NULL, token INTEGER NOT NULL)",
)


def run(
    minutes: float | None = None,
    kills: int | None = None,
    seed: int | None = None,
    workers: int = WORKERS_DEFAULT,
    enqueuers: int = ENQUEUERS_DEFAULT,
    url_dir: str | None = None,
    json: bool = False,
) -> int:
    """Kill for so many minutes, or so often (1,000 times unless told); 0 if every promise held, 1 if not."""
    plan = plan_of(minutes, kills, seed, workers, enqueuers, url_dir)

    def tell(line: str) -> None:
        stream = sys.stderr if json else sys.stdout
        stream.write(line + "\n")
        stream.flush()

    tell(f"seed {plan.seed}, in {plan.directory}")
    prepare(plan)
    toll = torment(plan, tell)
    evidence = gather(plan.ledgers, plan.database)
    found = figures(plan, toll, evidence, judge(evidence))
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n" if json else page(found))
    sys.stdout.flush()
    if found["ok"] and url_dir is None:
        shutil.rmtree(plan.directory, ignore_errors=True)
    return 0 if found["ok"] else 1


def plan_of(
    minutes: float | None, kills: int | None, seed: int | None, workers: int, enqueuers: int, url_dir: str | None
) -> Plan:
    if minutes is not None and kills is not None:
        raise SettingError(f"minutes={minutes:g} and kills={kills}: give one of them")
    for name, count in (("workers", workers), ("enqueuers", enqueuers), ("kills", kills)):
        if count is not None and count < 1:
            raise SettingError(f"{name} {count} must be 1 or more")
    if minutes is not None and not minutes > 0:
        raise SettingError(f"minutes {minutes:g} must be more than 0")
    kills = KILLS_DEFAULT if kills is None and minutes is None else kills
    chosen = secrets.randbelow(2**32) if seed is None else seed
    parent = None if url_dir is None else os.path.abspath(url_dir)
    if parent is not None:
        os.makedirs(parent, exist_ok=True)
    directory = tempfile.mkdtemp(prefix=f"holdfast-torture-{chosen}-", dir=parent)
    return Plan(chosen, kills, minutes, workers, enqueuers, directory)


def prepare(plan: Plan) -> None:
    os.mkdir(plan.ledgers)
    os.mkdir(plan.logs)
    with Holdfast(f"sqlite:///{plan.database}") as app:
        app.migrate()
    connection = sqlite3.connect(plan.database)
    try:
        for statement in _TABLES:
            connection.execute(statement)
        connection.commit()
    finally:
        connection.close()


def torment(plan: Plan, tell: Callable[[str], None]) -> Toll:
    stage = Stage(plan)
    try:
        killer = Killer(plan, stage, tell)
        try:
            killer.strike_all()
            killer.drain()
        finally:
            killer.close()
    finally:
        stage.close()
    return killer.toll
