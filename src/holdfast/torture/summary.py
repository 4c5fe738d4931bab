"""The result of a run, as JSON or as text: for each promise the number of trials, not only whether it held."""

from __future__ import annotations

import os
import platform
import sqlite3
from collections import Counter
from typing import Any, Final

from holdfast.torture.checker import PromiseResult, recoveries
from holdfast.torture.evidence import Evidence
from holdfast.torture.killer import Killer, KillPlan

Figures = dict[str, Any]
EXAMPLES_MAX: Final = 5
SURPRISES_MAX: Final = 20


def figures(plan: KillPlan, killer: Killer, evidence: Evidence, results: list[PromiseResult]) -> Figures:
    surprises = killer.fleet.surprises
    return {
        "ok": not surprises and not any(result.broken for result in results),
        "seed": plan.seed,
        "command": plan.command,
        "directory": plan.directory,
        "kills": killer.kills,
        "kills_by_role": killer.fleet.kills,
        "kills_by_jobs": killer.fleet.killed_by_jobs,
        "stops": killer.stops,
        "seconds": round(killer.seconds, 1),
        "kills_per_second": round(killer.kills / killer.seconds, 2),
        "drain_seconds": round(killer.fleet.drain_seconds, 1),
        **load_figures(evidence),
        "forks": dict(sorted(evidence.forks.items())),
        "acknowledged_in_forks": sum(call.how in ("parent", "child") for call in evidence.acknowledged),
        "events": evidence.events,
        "states": dict(sorted(Counter(row.state.value for row in evidence.rows.values()).items())),
        "recovery_seconds": _quantiles(recoveries(evidence)),
        "surprises": surprises,
        "promises": promise_figures(results),
        "python": platform.python_version(),
        "store": f"SQLite {sqlite3.sqlite_version}" if plan.url is None else "PostgreSQL",
        "processors": os.cpu_count(),
    }


def load_figures(evidence: Evidence) -> Figures:
    return {
        "jobs": len(evidence.rows),
        "acknowledged": len(evidence.acknowledged),
        "unanswered": sum(call.id is None and not call.rolled_back for call in evidence.calls.values()),
        "starts": sum(len(lines) for lines in evidence.starts.values()),
    }


def promise_figures(results: list[PromiseResult]) -> list[Figures]:
    return [
        {
            "promise": result.promise,
            "trials": result.trials,
            "broken": len(result.broken),
            "examples": result.broken[:EXAMPLES_MAX],
        }
        for result in results
    ]


def _quantiles(ordered: list[float]) -> dict[str, float] | None:
    if not ordered:
        return None
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 2) for name, share in at.items()}


def page(found: Figures) -> str:
    roles = ", ".join(f"{count:,} {role}s" for role, count in found["kills_by_role"].items())
    parents = ", ".join(f"{count:,} of a parent that {fate}" for fate, count in found["forks"].items())
    lines = [
        title("holdfast torture", found),
        "",
        f"  {found['kills']:,} SIGKILLs ({roles}) in {found['seconds']:,} s, {found['kills_per_second']} a second;",
        f"  {found['stops']:,} SIGSTOPs for longer than the lease; {found['kills_by_jobs']:,} workers killed by their own job",
        f"  {found['acknowledged']:,} requests acknowledged, {found['unanswered']:,} cut off before an answer",
        f"  {sum(found['forks'].values()):,} forks ({parents}), {found['acknowledged_in_forks']:,} requests acknowledged in them",
        f"  {found['jobs']:,} jobs, {found['starts']:,} starts, {found['events']:,} events; drain: {found['drain_seconds']} s",
        f"  {', '.join(f'{count:,} {state}' for state, count in found['states'].items())}",
    ]
    if (recovery := found["recovery_seconds"]) is not None:
        lines.append(
            f"  from a kill to the next start of the job: median {recovery['p50']} s, 99 % within {recovery['p99']} s, "
            f"at most {recovery['max']} s"
        )
    lines += [f"  Python {found['python']}, {found['store']}, {found['processors']} processors", "", *promise_lines(found)]
    if found["ok"] and (kills := found["kills"]):
        lines += ["", f"  0 in {kills:,} trials: below 3/{kills:,} = {3 / kills:.3%} per kill, at 95 %"]
    return "\n".join(lines) + "\n"


def title(command: str, found: Figures) -> str:
    return f"\n{command}, seed {found['seed']}: {'every promise held' if found['ok'] else 'BROKEN'}"


def promise_lines(found: Figures) -> list[str]:
    """Each promise, the surprises, examples; and after a failure the directory and the command that repeats the run."""
    lines = []
    for promise in found["promises"]:
        if promise["trials"]:
            mark = "BROKEN" if promise["broken"] else "ok    "
            lines.append(f"  {mark} {promise['promise']:<44} {promise['broken']:>6,} in {promise['trials']:,}")
    lines += [f"  ! {surprise}" for surprise in found["surprises"][:SURPRISES_MAX]]
    for promise in found["promises"]:
        lines += [f"    {promise['promise']}: {example}" for example in promise["examples"]]
    if not found["ok"]:
        lines += ["", f"  database, ledgers and logs are kept in {found['directory']}", f"  again: {found['command']}"]
    return lines
