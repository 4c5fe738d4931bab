"""The report: one page, or the same as JSON. It says how often each promise was tested, not only that it held."""

from __future__ import annotations

import os
import platform
import sqlite3
from typing import Any

import msgspec

from holdfast.torture.chaos import Trouble
from holdfast.torture.checker import Verdict, recoveries
from holdfast.torture.evidence import Evidence
from holdfast.torture.gauge import Pace
from holdfast.torture.killer import Toll
from holdfast.torture.plan import Plan

SHOWN_MAX = 5
SURPRISES_MAX = 20
GROWTH_MAX = 5
"""Threads, descriptors and connections come and go with the load: so many more are not a leak."""


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
        "promises": _promises(verdicts),
        "python": platform.python_version(),
        "store": _store(plan),
        "processors": os.cpu_count(),
    }  # fmt: skip


def _promises(verdicts: list[Verdict]) -> list[dict[str, Any]]:
    return [
        {"promise": verdict.promise, "trials": verdict.trials, "broken": len(verdict.broken),
         "examples": verdict.broken[:SHOWN_MAX]}
        for verdict in verdicts
    ]  # fmt: skip


def _store(plan: Plan) -> str:
    return f"SQLite {sqlite3.sqlite_version}" if plan.on == "sqlite" else "PostgreSQL"


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
    lines += [f"  Python {found['python']}, {found['store']}, {found['processors']} processors", ""]
    lines += _verdicts(found)
    kills = found["kills"]
    if found["ok"] and kills:
        lines += ["", f"  0 in {kills:,} trials: below 3/{kills:,} = {3 / kills:.3%} per kill, at 95 %"]
    if not found["ok"]:
        lines += ["", f"  everything is kept in {found['directory']}", f"  again: {found['command']}"]
    return "\n".join(lines) + "\n"


def chaos_figures(
    plan: Plan, trouble: Trouble, paces: dict[str, Pace], evidence: Evidence, verdicts: list[Verdict]
) -> dict[str, Any]:
    recoveries = [pace.recovery(rate, blow) for blow in trouble.blows for rate, pace in paces.items()]
    counts = [
        {"who": name, "what": what, "before": getattr(before, what), "after": getattr(trouble.after[name], what)}
        for name, before in trouble.before.items() if name in trouble.after for what in ("threads", "descriptors")
    ]  # fmt: skip
    counts.append({"who": "all", "what": "connections", "before": trouble.connections[0], "after": trouble.connections[1]})
    grown = [count for count in counts if count["after"] > count["before"] + GROWTH_MAX]
    late = [recovery for recovery in recoveries if recovery.back_seconds is None]
    return {
        "ok": not (trouble.surprises or grown or late or any(verdict.broken for verdict in verdicts)),
        "seed": plan.seed,
        "chaos": plan.chaos,
        "command": plan.command,
        "directory": plan.directory,
        "seconds": round(trouble.seconds, 1),
        "drain_seconds": round(trouble.drain_seconds, 1),
        "jobs": len(evidence.rows),
        "acknowledged": len(evidence.acknowledged),
        "unanswered": sum(call.id is None and not call.rolled_back for call in evidence.calls.values()),
        "starts": sum(len(lines) for lines in evidence.starts.values()),
        "recoveries": msgspec.to_builtins(recoveries),
        "late": len(late),
        "counts": counts,
        "grown": len(grown),
        "surprises": trouble.surprises,
        "promises": _promises(verdicts),
    }


def chaos_page(found: dict[str, Any]) -> str:
    lines = [
        "",
        f"holdfast torture --chaos {found['chaos']}, seed {found['seed']}: {'every promise held' if found['ok'] else 'BROKEN'}",
        "",
        f"  {found['acknowledged']:,} requests acknowledged, {found['unanswered']:,} cut off before an answer or refused",
        f"  {found['jobs']:,} jobs, {found['starts']:,} starts in {found['seconds']:,} s; drain: {found['drain_seconds']} s",
        "",
        "  jobs/s (medians of windows of 1 s)           lasted   before   during    after   back within",
    ]
    lines += [_recovery(recovery) for recovery in found["recoveries"]]
    for rate in ("enqueued", "run"):
        lines.append(_recovered([recovery for recovery in found["recoveries"] if recovery["rate"] == rate], rate))
    lines += ["", "  before → after"]
    lines += [f"  {c['who']:<16} {c['what']:<12} {c['before']:>4} → {c['after']}" for c in found["counts"]]
    lines += ["", *_verdicts(found)]
    if not found["ok"]:
        lines += ["", f"  everything is kept in {found['directory']}", f"  again: {found['command']}"]
    return "\n".join(lines) + "\n"


def _recovery(recovery: dict[str, Any]) -> str:
    back = "NOT in time" if recovery["back_seconds"] is None else f"{recovery['back_seconds']:.2f} s"
    return (
        f"  {recovery['what'][:34]:<34} {recovery['rate']:<9} {recovery['lasted_seconds']:>6.1f} s {recovery['before']:>8.0f} "
        f"{recovery['during']:>8.0f} {recovery['after']:>8.0f}   {back}"
    )


def _recovered(recoveries: list[dict[str, Any]], rate: str) -> str:
    back = sorted(recovery["back_seconds"] for recovery in recoveries if recovery["back_seconds"] is not None)
    worst = f"{back[-1]:.2f} s at most, median {back[len(back) // 2]:.2f} s" if back else "never"
    return f"  {rate}: back to 95 % in {len(back)} of {len(recoveries)} blows; {worst}"


def _verdicts(found: dict[str, Any]) -> list[str]:
    lines = [_line(promise) for promise in found["promises"] if promise["trials"]]
    lines += [f"  ! {surprise}" for surprise in found["surprises"][:SURPRISES_MAX]]
    for promise in found["promises"]:
        lines += [f"    {promise['promise']}: {example}" for example in promise["examples"]]
    return lines


def _line(promise: dict[str, Any]) -> str:
    mark = "ok    " if not promise["broken"] else "BROKEN"
    return f"  {mark} {promise['promise']:<44} {promise['broken']:>6,} in {promise['trials']:,}"


def _quantiles(ordered: list[float]) -> dict[str, float] | None:
    if not ordered:
        return None
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[min(int(len(ordered) * share), len(ordered) - 1)], 2) for name, share in at.items()}
