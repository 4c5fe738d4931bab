"""A child process logs as its worker does: by its levels, and through its handlers, for the records go to the worker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from holdfast.worker.current import JobFilter

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_KEPT: Final = (
    "name", "levelno", "levelname", "pathname", "filename", "module", "lineno", "funcName", "created", "msecs", "thread",
    "threadName", "process", "processName", "exc_text", "stack_info",
)  # fmt: skip
_PLAIN: Final = (str, int, float, bool, type(None))


def levels() -> dict[str, int]:
    """Of this process: of the root (by no name) and of all loggers that have one of their own."""
    known = [
        (name, each.level) for name, each in list(logging.root.manager.loggerDict.items()) if isinstance(each, logging.Logger)
    ]
    return {"": logging.root.level, **{name: level for name, level in known if level}}


def send_records(levels: dict[str, int], send: Callable[[dict[str, Any]], None]) -> None:
    """In a child: what reaches the root is sent. A `basicConfig` of the user's leaves this alone, a `dictConfig` replaces it."""
    for name, level in levels.items():
        logging.getLogger(name or None).setLevel(level)
    handler = _Sender(send)
    handler.addFilter(JobFilter())
    logging.root.addHandler(handler)


def take_record(fields: dict[str, Any]) -> None:
    """In the worker: as if it had been logged here."""
    logger = logging.root if fields.pop("handled", False) else logging.getLogger(fields["name"])
    record = logging.makeLogRecord(fields)
    if logger.isEnabledFor(record.levelno):
        logger.handle(record)


class _Sender(logging.Handler):
    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._send(_fields_of(record))
        except Exception:
            self.handleError(record)


def _fields_of(record: logging.LogRecord) -> dict[str, Any]:
    if record.exc_info and record.exc_info[0] and not record.exc_text:
        record.exc_text = logging.Formatter().formatException(record.exc_info)
    own = {
        name: value if isinstance(value, _PLAIN) else repr(value) for name, value in vars(record).items() if name not in _STANDARD
    }
    kept = {name: getattr(record, name, None) for name in _KEPT}
    return {**own, **kept, "msg": record.getMessage(), "args": None, "handled": _is_handled(record.name)}


def _is_handled(name: str) -> bool:
    """Whether a logger below the root has a handler here: the worker's logger has it too, and would write the record again."""
    logger: logging.Logger | None = logging.getLogger(name)
    while logger is not None and logger is not logging.root:
        if logger.handlers:
            return True
        logger = logger.parent if logger.propagate else None
    return False
