"""A job in the words of the CLI: in short, for one line of a table."""

from __future__ import annotations

from typing import Any

from holdfast.cli.screen import compact
from holdfast.cli.times import age, since, span
from holdfast.domain.job import Job
from holdfast.domain.sanitize import clean
from holdfast.domain.secret import redact
from holdfast.domain.states import State

BAR_CELLS = 20


def note(job: Job) -> str:
    """What there is to know about a job in this state, in a few words."""
    if job.state is State.SUCCEEDED:
        return "" if job.started_at is None or job.finished_at is None else f"took {span(age(job.started_at, job.finished_at))}"
    if job.state is State.RUNNING:
        return how_far(job.progress) or (f"for {span(age(job.started_at))}" if job.started_at else "")
    why = one_error(job)
    if job.state is State.SCHEDULED and job.run_after is not None:
        due = "due " if age(job.run_after) >= 0 else ""
        return f"{due}{since(job.run_after)}{f', after {why}' if why else ''}"
    return why


def one_error(job: Job) -> str:
    return clean(" ".join((job.error or "").split()))


def how_far(progress: dict[str, Any]) -> str:
    """`45 %  9 of 20  engine=tesseract`."""
    rest = {name: value for name, value in redact(progress).items() if name not in ("done", "total", "fraction")}
    parts = [percent(progress), counted(progress), *(f"{clean(name)}={short(value)}" for name, value in rest.items())]
    return "  ".join(part for part in parts if part)


def percent(progress: dict[str, Any]) -> str:
    fraction = fraction_of(progress)
    return "" if fraction is None else f"{fraction * 100:.0f} %"


def counted(progress: dict[str, Any]) -> str:
    done, total = progress.get("done"), progress.get("total")
    if not isinstance(done, int | float):
        return ""
    return f"{done:g} of {total:g}" if isinstance(total, int | float) else f"{done:g} done"


def fraction_of(progress: dict[str, Any]) -> float | None:
    fraction = progress.get("fraction")
    return min(max(float(fraction), 0.0), 1.0) if isinstance(fraction, int | float) else None


def bar(fraction: float, cells: int = BAR_CELLS) -> str:
    full = round(fraction * cells)
    return "█" * full + "░" * (cells - full)


def short(value: Any) -> str:
    return clean(value) if isinstance(value, str) else compact(value)
