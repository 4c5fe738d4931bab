"""The report: one page, or the same as JSON. It says how often each promise was tested, not only that it held."""

from __future__ import annotations

import os
import platform
import sqlite3
from typing import Any

from holdfast.torture.checker import Verdict, recoveries
from holdfast.torture.evidence import Evidence
from holdfast.torture.killer import Toll
from holdfast.torture.plan import Plan

SHOWN_MAX = 5


def figures(plan: Plan, toll: Toll, evidence: Evidence, verdicts: list[Verdict]) -> dict[str, Any]:
    states: dict[str, int] = {}
    for row in evidence.rows.values():
        states[row.state.value] = states.get(row.state.value, 0) + 1
    return {
        "ok": passed(toll, verdicts),
        "seed": plan.seed,
        "command": plan.command,
        "directory": plan.directory,
        "kills": toll.kill_count,
        "kills_by_role": toll.kills,
        "kills_by_jobs": toll.own_kills,
        "stops": toll.stops,
        "seconds": round(toll.seconds, 1),
        "kills_per_second": round(toll.kill_count / toll.seconds, 2) if toll.seconds else None,
        "drain_seconds": round(toll.drain_seconds, 1),
        "jobs": len(evidence.rows),
        "acknowledged": len(evidence.acknowledged),
        "unanswered": sum(call.id is None and not call.rolled_back for call in evidence.calls.values()),
        "starts": sum(len(lines) for lines in evidence.starts.values()),
        "events": evidence.events,
        "states": dict(sorted(states.items())),
        "recovery_seconds": _quantiles(recoveries(evidence)),
        "surprises": toll.surprises,
        "promises": [
            {"promise": verdict.promise, "trials": verdict.trials, "broken": len(verdict.broken),
             "examples": verdict.broken[:SHOWN_MAX]}
            for verdict in verdicts
        ],
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "processors": os.cpu_count(),
    }  # fmt: skip


def passed(toll: Toll, verdicts: list[Verdict]) -> bool:
    return not toll.surprises and not any(verdict.broken for verdict in verdicts)


def page(found: dict[str, Any]) -> str:
    """The report for a person."""
    roles = ", ".join(f"{count:,} {role}s" for role, count in found["kills_by_role"].items())
    recovery = found["recovery_seconds"]
    lines = [
        "",
        f"holdfast torture, seed {found['seed']}: {'every promise held' if found['ok'] else 'BROKEN'}",
        "",
        f"  {found['kills']:,} SIGKILLs ({roles}) in {found['seconds']:,} s, {found['kills_per_second']} a second;",
        f"  {found['stops']:,} SIGSTOPs for longer than the lease; {found['kills_by_jobs']:,} workers killed by their own job",
        f"  {found['acknowledged']:,} requests acknowledged, {found['unanswered']:,} cut off before an answer",
        f"  {found['jobs']:,} jobs, {found['starts']:,} starts, {found['events']:,} events; drain: {found['drain_seconds']} s",
        f"  {', '.join(f'{count:,} {state}' for state, count in found['states'].items())}",
    ]
    if recovery is not None:
        lines.append(
            f"  from a kill to the job's next start: median {recovery['p50']} s, 99 % within {recovery['p99']} s, "
            f"at most {recovery['max']} s"
        )
    lines += [f"  Python {found['python']}, SQLite {found['sqlite']}, {found['processors']} processors", ""]
    lines += [_line(promise) for promise in found["promises"]]
    lines += [f"  ! {surprise}" for surprise in found["surprises"]]
    for promise in found["promises"]:
        lines += [f"    {promise['promise']}: {example}" for example in promise["examples"]]
    kills = found["kills"]
    if found["ok"] and kills:
        lines += ["", f"  0 in {kills:,} trials: below 3/{kills:,} = {3 / kills:.3%} per kill, at 95 %"]
    if not found["ok"]:
        lines += ["", f"  everything is kept in {found['directory']}", f"  again: {found['command']}"]
    return "\n".join(lines) + "\n"


def _line(promise: dict[str, Any]) -> str:
    mark = "ok    " if not promise["broken"] else "BROKEN"
    return f"  {mark} {promise['promise']:<44} {promise['broken']:>6,} in {promise['trials']:,}"


def _quantiles(ordered: list[float]) -> dict[str, float] | None:
    if not ordered:
        return None
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 2) for name, share in at.items()}
