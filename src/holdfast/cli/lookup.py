"""From what somebody typed to a job: its id, its handle, or the beginning of its id.

Only a whole id has an index. The rest is looked for among the newest 5,000 jobs and the newest 1,000 of every other
state that is listed cheaply: a handle is found there or not at all. The beginning of an id has to be the only one of
its kind; where the store holds more jobs than were searched, nobody can tell, so such a one may be read but not acted on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.app import Holdfast
from holdfast.cli.trouble import Trouble, usage
from holdfast.domain.bounds import PAGE_MAX
from holdfast.domain.job import Job
from holdfast.domain.states import State

NEWEST_MAX: Final = 5_000
BEGINNING_CHARS_MIN: Final = 4
_HANDLE_CHARS: Final = 16
_LISTED: Final = (State.RUNNING, State.FAILED, State.SCHEDULED, State.READY, State.CANCELLED, State.SKIPPED)


def find_job(app: Holdfast, text: str, *, to_act: bool = False) -> Job:
    job = app.get(text) or _by_handle(app, text)
    if job is not None:
        return job
    if len(text) < BEGINNING_CHARS_MIN:
        raise Trouble(f"there is no job {text!r}; the beginning of an id needs {BEGINNING_CHARS_MIN} characters or more")
    return _by_beginning(app, text, to_act)


def _by_handle(app: Holdfast, text: str) -> Job | None:
    if len(text) != _HANDLE_CHARS:
        return None
    handle = text.lower()
    return next((job for job in _nearby(app) if job.handle == handle), None)


def _by_beginning(app: Holdfast, text: str, to_act: bool) -> Job:
    fitting = {job.id: job for job in _nearby(app) if job.id.startswith(text)}
    if not fitting:
        raise Trouble(f"there is no job {text!r}; it may have been deleted or pruned{_but_not_all(app)}")
    if len(fitting) > 1:
        some = ", ".join(list(fitting)[:3])
        raise usage(
            f"{text!r} is the beginning of {len(fitting)} ids ({some}{', …' if len(fitting) > 3 else ''}); give more of it"
        )
    [job] = fitting.values()
    if to_act and _but_not_all(app):
        raise usage(
            f"{text!r} may be the beginning of several ids, there are too many jobs to tell; give the whole one: {job.id}"
        )
    return job


def _nearby(app: Holdfast) -> Iterator[Job]:
    for state in _LISTED:
        yield from app.jobs(state=state, limit=PAGE_MAX)
    after: Job | None = None
    for _ in range(NEWEST_MAX // PAGE_MAX):
        page = app.jobs(limit=PAGE_MAX, after=after)
        yield from page
        if len(page) < PAGE_MAX:
            return
        after = page[-1]


def _but_not_all(app: Holdfast) -> str:
    count = sum(sum(states.values()) for states in app.stats().values())
    return f" (looked at the newest {NEWEST_MAX:,} of {count:,} jobs; give the whole id)" if count > NEWEST_MAX else ""
