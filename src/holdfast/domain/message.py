"""What a callback says: which job has ended, and how. Thin: who wants more asks for the job by its id.

A message is about one ending: a job that is retried and ends again is told of again, under another id.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.domain import codec
from holdfast.domain.bounds import CALLBACK_BODY_BYTES_MAX
from holdfast.domain.job import handle_of, moment_of
from holdfast.domain.secret import NOTHING, Marked, redact, scrub, secrets_in
from holdfast.domain.signature import Signature
from holdfast.domain.text import clip

_LARGE_BYTES: Final = 4_096
"""Of which not more than this is told; but for the result, which comes last and may fill what room is left."""
_ERROR_CHARS: Final = 600
_ROOM: Final = CALLBACK_BODY_BYTES_MAX - 100


class Ended(NamedTuple):
    """A job at its end: the columns of `ended_jobs.sql`."""

    seq: int
    id: str
    task: str
    queue: str
    state: str
    attempt: int
    number: int
    """Of the event that is its end."""
    created_at: int
    finished_at: int
    result: str | None
    reason: str | None
    key: str | None
    tags: str | None
    meta: str | None
    callback: str


class Hidden(NamedTuple):
    """What must not be told of a job, beyond what the names of fields say by themselves."""

    result: Marked = NOTHING
    texts: frozenset[str] = frozenset()
    """Secret arguments, which an error may quote."""


NOTHING_HIDDEN: Final = Hidden()


def hidden_of(signature: Signature | None, arguments: str) -> Hidden:
    """None: the task is not known here, and its marks are not."""
    given = _read(arguments)
    if signature is None:
        return Hidden(texts=frozenset(secrets_in(given)))
    return Hidden(signature.result_secrets, frozenset(secrets_in(given, signature.secrets)))


def message_id(ended: Ended) -> str:
    """The same however often it is sent. Not the job's id alone: that may be used again once the job was deleted."""
    job = hashlib.blake2b(f"{ended.seq}/{ended.id}".encode(), digest_size=12).hexdigest()
    return f"msg_{job}_{ended.number}"


def event_of(ended: Ended, hidden: Hidden = NOTHING_HIDDEN) -> dict[str, Any]:
    """`type`, `timestamp` and `data`, as Standard Webhooks has it; what would make it large is left out, and named."""
    data: dict[str, Any] = {
        "id": ended.id,
        "handle": handle_of(ended.id),
        "task": ended.task,
        "queue": ended.queue,
        "state": ended.state,
        "attempt": ended.attempt,
        "created_at": moment_of(ended.created_at).isoformat(),
        "finished_at": moment_of(ended.finished_at).isoformat(),
    }
    event = {"type": f"job.{ended.state}", "timestamp": moment_of(ended.finished_at).isoformat(), "data": data}
    left_out = []
    for name, value in _more(ended, hidden).items():
        size = len(msgspec.json.encode(value))
        if size <= _LARGE_BYTES or (name == "result" and size + len(msgspec.json.encode(event)) < _ROOM):
            data[name] = value
        else:
            left_out.append(name)
    if left_out:
        data["left_out"] = left_out
    return event


def _more(ended: Ended, hidden: Hidden) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if ended.reason is not None:
        told["error"] = clip(scrub(ended.reason, hidden.texts), _ERROR_CHARS)
    for name, text in (("key", ended.key), ("tags", ended.tags), ("meta", ended.meta)):
        if text is not None:
            told[name] = redact(_read(text))
    if ended.result is not None:
        told["result"] = redact(_read(ended.result), hidden.result)
    return told


def _read(text: str) -> Any:
    """Stored JSON. What somebody has damaged is told as nothing: the job must reach its end all the same."""
    try:
        return codec.decode(text)
    except Exception:
        return None
