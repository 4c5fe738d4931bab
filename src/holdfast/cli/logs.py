"""The log of a worker or a server on stderr: time, level, message, one line each, or one JSON object per line.

Nothing in it can begin a line, move the cursor or turn the text around, and no API key, ticket or session is in it.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from textwrap import dedent
from typing import Any

from holdfast.cli.trouble import usage
from holdfast.domain.access import without_keys
from holdfast.domain.sanitize import clean
from holdfast.worker.current import JobFilter

LEVELS = ("debug", "info", "warning", "error")
FORMS = ("text", "json")
FIELDS = ("job", "task", "queue", "attempt", "error")
"""What a record about a job has beside its message, and so has what the job's own code logs."""


def set_up_logging(level: str, form: str) -> None:
    """Before the user's module is loaded, so that a `basicConfig` in it leaves this alone and a `dictConfig` replaces it."""
    if level.lower() not in LEVELS:
        raise usage(f"--log-level {level!r} is unknown; use one of {', '.join(LEVELS)}")
    if form.lower() not in FORMS:
        raise usage(f"--log {form!r} is unknown; use one of {', '.join(FORMS)}")
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(JobFilter())
    handler.setFormatter(JsonLines() if form.lower() == "json" else Lines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class Lines(logging.Formatter):
    """Text from jobs cannot begin a line of its own, nor colour or move anything. A traceback is indented."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).astimezone()
        name = "" if record.name.startswith("holdfast") else f"{record.name}: "
        said = f"{at:%Y-%m-%d %H:%M:%S} {record.levelname:<7} {name}{clean(_message(record))}{_job(record) if name else ''}"
        trace = _traceback(self, record)
        return said if not trace else "\n    ".join([said, *clean(trace, lines=True).splitlines()])


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
            **{name: value for name in FIELDS if (value := getattr(record, name, None)) is not None},
        }
        trace = _traceback(self, record)
        return json.dumps(entry | {"traceback": trace} if trace else entry).replace("\x7f", "\\u007f")


def _message(record: logging.LogRecord) -> str:
    return without_keys(record.getMessage())


def _job(record: logging.LogRecord) -> str:
    """Which job's own code logged it. Our own messages name the job."""
    job = getattr(record, "job", None)
    return f" [{clean(str(getattr(record, 'task', '')))} {clean(str(job))}]" if job else ""


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_text is None and record.exc_info and record.exc_info[0]:
        return without_keys(formatter.formatException(record.exc_info))
    return without_keys(dedent(record.exc_text or ""))
