"""One run, from its seed to its report."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from typing import Any, Final

import msgspec

from holdfast.app import Holdfast
from holdfast.errors import SettingError
from holdfast.torture.checker import judge
from holdfast.torture.direct import TABLES, connect, is_postgres
from holdfast.torture.evidence import gather
from holdfast.torture.fleet import Fleet, Plan
from holdfast.torture.killer import Killer, KillPlan
from holdfast.torture.summary import Figures, figures, page

KILLS_DEFAULT: Final = 1_000
WORKERS_DEFAULT: Final = 4
ENQUEUERS_DEFAULT: Final = 3
Echo = Callable[[str], None]


def run(json: bool = False, directory: str | None = None, **options: Any) -> int:
    """0 if every promise held, 1 if not. The options are those of `plan_of`."""
    plan = plan_of(directory=directory, **options)
    return conduct(plan, lambda echo: _kill(plan, echo), page, json, keep=directory is not None)


def plan_of(
    minutes: float | None = None,
    kills: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    enqueuers: int | None = None,
    directory: str | None = None,
    url: str | None = None,
) -> KillPlan:
    """Without `kills` and `minutes` there are 1,000 kills."""
    if minutes is not None and kills is not None:
        raise SettingError(f"minutes={minutes:g} and kills={kills}: give one of them")
    if minutes is not None and not minutes > 0:
        raise SettingError(f"minutes {minutes:g} must be more than 0")
    if url is not None and not is_postgres(url):
        raise SettingError("url must be that of an empty PostgreSQL database, which begins with postgresql://")
    check_counts(kills=kills, workers=workers, enqueuers=enqueuers)
    seed = new_seed() if seed is None else seed
    return KillPlan(
        seed=seed,
        workers=workers or WORKERS_DEFAULT,
        enqueuers=enqueuers or ENQUEUERS_DEFAULT,
        directory=new_directory(f"holdfast-torture-{seed}-", directory),
        kills=KILLS_DEFAULT if kills is None and minutes is None else kills,
        minutes=minutes,
        url=url,
    )


def _kill(plan: KillPlan, echo: Echo) -> Figures:
    url = plan.url or f"sqlite:///{os.path.join(plan.directory, 'jobs.db')}"
    prepare(url)
    with (
        closing(Fleet(plan, url, "holdfast.torture.load", poison=True)) as fleet,
        closing(Killer(plan, url, fleet, echo)) as killer,
    ):
        killer.strike_all()
        killer.drain()
    evidence = gather(plan.ledgers, url)
    return figures(plan, killer, evidence, judge(evidence))


# What every kind of run needs


def check_counts(**counts: int | None) -> None:
    for name, count in counts.items():
        if count is not None and count < 1:
            raise SettingError(f"{name} {count} must be 1 or more")


def new_seed() -> int:
    return secrets.randbelow(2**32)


def new_directory(prefix: str, parent: str | None) -> str:
    if parent is not None:
        parent = os.path.abspath(parent)
        os.makedirs(parent, exist_ok=True)
    return tempfile.mkdtemp(prefix=prefix, dir=parent)


def conduct(plan: Plan, work: Callable[[Echo], Figures], show: Callable[[Figures], str], json: bool, keep: bool) -> int:
    """Do the work of a plan and print its figures. The directory is removed after success, unless it is to be kept."""

    def echo(line: str) -> None:
        stream = sys.stderr if json else sys.stdout
        stream.write(line + "\n")
        stream.flush()

    echo(f"seed {plan.seed}, in {plan.directory}")
    os.mkdir(plan.ledgers)
    os.mkdir(plan.logs)
    found = work(echo)
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n" if json else show(found))
    sys.stdout.flush()
    if found["ok"] and not keep:
        shutil.rmtree(plan.directory, ignore_errors=True)
    return 0 if found["ok"] else 1


def prepare(url: str) -> None:
    """Make the tables of Holdfast and those of its user. A database with jobs is refused."""
    with Holdfast(url) as app:
        app.migrate()
    with closing(connect(url)) as connection:
        if connection.execute("SELECT 1 FROM holdfast_job LIMIT 1").fetchone():
            raise SettingError("the database has jobs already; give an empty one")
        for statement in TABLES:
            connection.execute(statement)
