"""The result of a run with faults, as JSON or as text."""

from __future__ import annotations

from typing import Final

import msgspec

from chaos.gauge import Pace
from chaos.injector import Injector
from holdfast.torture.checker import PromiseResult
from holdfast.torture.evidence import Evidence
from holdfast.torture.summary import Figures, load_figures, promise_figures, promise_lines, title

GROWTH_MAX: Final = 5
"""Threads, descriptors and connections vary with the load: so many more are not a leak."""


def figures(injector: Injector, paces: dict[str, Pace], evidence: Evidence, results: list[PromiseResult]) -> Figures:
    plan, surprises = injector.plan, injector.fleet.surprises
    recoveries = [pace.recovery(rate, fault) for fault in injector.faults for rate, pace in paces.items()]
    late = [recovery for recovery in recoveries if recovery.back_seconds is None]
    counts = _counts(injector)
    grown = [count for count in counts if count["after"] > count["before"] + GROWTH_MAX]
    return {
        "ok": not (surprises or grown or late or any(result.broken for result in results)),
        "seed": plan.seed,
        "kind": plan.kind,
        "command": plan.command,
        "directory": plan.directory,
        "seconds": round(injector.seconds, 1),
        "drain_seconds": round(injector.fleet.drain_seconds, 1),
        **load_figures(evidence),
        "recoveries": msgspec.to_builtins(recoveries),
        "late": len(late),
        "counts": counts,
        "grown": len(grown),
        "surprises": surprises,
        "promises": promise_figures(results),
    }


def _counts(injector: Injector) -> list[Figures]:
    """Of each process that was there before and after, and the connections of all."""
    before, after = injector.before, injector.after
    counts = [
        {"where": name, "what": what, "before": getattr(before[name], what), "after": getattr(after[name], what)}
        for name in before
        if name in after
        for what in ("threads", "descriptors")
    ]
    connections = injector.connections
    return [*counts, {"where": "all", "what": "connections", "before": connections[0], "after": connections[1]}]


def page(found: Figures) -> str:
    lines = [
        title(f"chaos.faults --kind {found['kind']}", found),
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
    lines += [f"  {c['where']:<16} {c['what']:<12} {c['before']:>4} → {c['after']}" for c in found["counts"]]
    return "\n".join([*lines, "", *promise_lines(found)]) + "\n"


def _recovery(recovery: Figures) -> str:
    back = "NOT in time" if recovery["back_seconds"] is None else f"{recovery['back_seconds']:.2f} s"
    return (
        f"  {recovery['what'][:34]:<34} {recovery['rate']:<9} {recovery['lasted_seconds']:>6.1f} s {recovery['before']:>8.0f} "
        f"{recovery['during']:>8.0f} {recovery['after']:>8.0f}   {back}"
    )


def _recovered(recoveries: list[Figures], rate: str) -> str:
    back = sorted(recovery["back_seconds"] for recovery in recoveries if recovery["back_seconds"] is not None)
    worst = f"{back[-1]:.2f} s at most, median {back[len(back) // 2]:.2f} s" if back else "never"
    return f"  {rate}: back to 95 % after {len(back)} of {len(recoveries)} faults; {worst}"
