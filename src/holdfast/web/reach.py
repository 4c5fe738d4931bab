"""What a key that is for some queues reaches: their tasks, their jobs, keys of their own. The rest is not there for it.

Every route that takes a name from a request asks here, or `visible_job`, what the caller may mean by it. The answer about what
belongs to another queue is the answer about what does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from holdfast.app import Holdfast
from holdfast.domain.event import RESERVED_PREFIX
from holdfast.domain.job import NewJob
from holdfast.domain.key import Key
from holdfast.registry import AnyTask
from holdfast.web.access import Caller
from holdfast.web.problem import Problem, misfit

QUEUE_PART: Final = "holdfast.queue"
"""The first part of keys that were given by a caller for some queues only; the second is the queue."""
NAMES_MAX: Final = 20


def tasks_of(app: Holdfast, caller: Caller) -> Iterator[AnyTask]:
    """Those that the caller may know of and enqueue: of its own queues, wherever a job of them is to go."""
    for name, task in sorted(app.tasks.items()):
        if not name.startswith(RESERVED_PREFIX) and caller.may_see(task.queue):
            yield task


def task_of(app: Holdfast, caller: Caller, name: str) -> AnyTask:
    found = app.tasks.get(name)
    if found is None or name.startswith(RESERVED_PREFIX) or not caller.may_see(found.queue):
        known = ", ".join([task.name for task in tasks_of(app, caller)][:NAMES_MAX]) or "none"
        raise misfit("/task", f"task {name!r} is not registered with this app; registered: {known}")
    return found


def check_new(caller: Caller, job: NewJob, *, has_id: bool) -> NewJob:
    """The job as this caller may have it. Keys and ids are shared by all queues: under its own name a key takes nobody else's."""
    options = job.options
    if not caller.may_see(options.queue):
        raise Problem(403, f"queue {options.queue!r} is not one of those that the key of {caller.name!r} is for")
    if caller.queues is None:
        return job
    if has_id:
        raise misfit("/id", "an API key for some queues cannot choose ids, which all queues share; leave it out, and use key")
    if options.key is None:
        return job
    if options.key.conflict == "replace":
        raise Problem(403, "an API key for some queues cannot replace a job; use the key's conflict return or raise")
    return msgspec.structs.replace(job, options=msgspec.structs.replace(options, key=_own(options.key, options.queue)))


def _own(key: Key, queue: str) -> Key:
    return Key(QUEUE_PART, queue, *key.parts, scope=key.scope, conflict=key.conflict, failed=key.failed)
