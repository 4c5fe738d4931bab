"""What an error of PostgreSQL's means: to a person, in one line with the remedy; and to a caller that may try again."""

from __future__ import annotations

import re
from typing import Final

import psycopg
from psycopg import errors

from holdfast.errors import StoreUnavailable
from holdfast.store.op import Refused

_SECRET: Final = re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)|(://[^:@/\s]*:)[^@\s]*@", re.IGNORECASE)

# What a person can do about it, by SQLSTATE or its class; the longest that fits wins.
_MEANINGS: Final[dict[str, tuple[str, str]]] = {
    "08": ("cannot be reached", "check that the server runs and the network leads to it"),
    "28": ("does not let this user in", "check user, password and pg_hba.conf"),
    "3D000": ("does not exist", "create the database, or give another name"),
    "3F000": ("has no Holdfast tables", "call app.migrate(), or run `holdfast migrate`"),
    "42P01": ("has no Holdfast tables", "call app.migrate(), or run `holdfast migrate`"),
    "42501": ("may not be changed by this user", "grant it the rights, or let another user run `holdfast migrate`"),
    "25006": ("is read-only", "connect to the primary server, or clear default_transaction_read_only"),
    "40": ("is contended", "try again"),
    "53": ("has no room left", "free some space or connections on the server"),
    "53100": ("cannot grow: the disk is full", "free some space; nothing of this write was kept"),
    "53300": ("has no connection left", "raise max_connections, or put a pooler before it"),
    "54": ("was sent more than it takes", "send less, and keep large data in files"),
    "55P03": ("is locked by another transaction", "try again; look for a transaction that is left open"),
    "57014": ("did not answer in time", "try again; look for what keeps the server busy"),
    "57P": ("is shutting down or starting up", "try again"),
    "58": ("cannot be read or written", "check the server's disk and log"),
    "XX": ("is damaged, or has a bug", "look at the server's log"),
}
_OF_SERVER: Final = (
    "08", "25", "28", "3D", "3F", "40", "42501", "42P01", "53", "55", "57", "58", "F0", "XX001", "XX002",
)  # fmt: skip
"""What is wrong with the server, the rights or the rows that others hold; anything else, with a statement or its values."""
_WORDS: Final = (
    (re.compile(r'database "[^"]*" does not exist'), "3D000"),
    (re.compile(r'role "[^"]*" does not exist|authentication failed|no pg_hba.conf entry|not permitted to log in'), "28000"),
    (re.compile(r"too many (clients|connections)|remaining connection slots"), "53300"),
)
_LOST: Final = ("cannot be reached", "check that the server runs and the network leads to it")
IGNORED: Final = "the settings that were sent with the connection are ignored"
_UNKNOWN: Final = ("refused a statement", "look at the server's log")


def explain(error: psycopg.Error, shown: str) -> StoreUnavailable:
    """The same error for a person: what, which server, and the remedy, in one line."""
    state = error.sqlstate or _state_of(str(error))
    known = max((key for key in _MEANINGS if state.startswith(key)), key=len, default="")
    lost = not state and isinstance(error, psycopg.OperationalError)
    what, remedy = _MEANINGS.get(known, _LOST if lost else _UNKNOWN)
    name = f"{type(error).__name__} {state}".strip()
    kind = StoreUnavailable if lost or state.startswith(_OF_SERVER) else Refused
    return kind(f"{shown} {what} ({name}: {line_of(error)}); {remedy}")


def _state_of(said: str) -> str:
    """When a connection is refused, psycopg has only the server's words."""
    return next((state for words, state in _WORDS if words.search(said)), "")


def unknown_outcome(shown: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{shown}: the connection was lost while it committed, and the outcome is unknown; "
        "look whether the work is there before you do it again"
    )


def line_of(error: psycopg.Error) -> str:
    """Where a row was refused, the server goes on to quote it, with the job's arguments: these are nobody's business."""
    whole = (error.diag.message_primary if isinstance(error, psycopg.IntegrityError) else None) or str(error)
    said = " ".join(whole.split()) or type(error).__name__
    return _SECRET.sub(lambda found: f"{found[1] or found[3]}…{'@' if found[3] else ''}", said)


def is_lost(error: BaseException) -> bool:
    """The connection is gone, not only the statement refused."""
    return isinstance(error, errors.OperationalError) and (
        error.sqlstate is None or error.sqlstate.startswith(("08", "57P0")) or error.sqlstate == "25P03"
    )


def is_stale_plan(error: BaseException) -> bool:
    """What the server prepared is gone or no longer fits: the layout changed, or a pooler gave us another session."""
    replanned = isinstance(error, errors.FeatureNotSupported) and "cached plan" in str(error)
    return replanned or is_mixed_up(error)


def is_mixed_up(error: BaseException) -> bool:
    """There is a pooler in between that mixes up prepared statements."""
    return isinstance(error, errors.InvalidSqlStatementName | errors.DuplicatePreparedStatement)


def is_refused_by_pooler(error: BaseException) -> bool:
    """PgBouncer, unless told otherwise, takes no settings with a connection, or ignores them: then each transaction has them."""
    return "unsupported startup parameter" in str(error) or IGNORED in str(error)
