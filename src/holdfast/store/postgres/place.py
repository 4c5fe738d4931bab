"""Where the database is: its URL taken apart, and what its errors mean for a person. No password leaves this file."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from holdfast.errors import SettingError, StoreUnavailable
from holdfast.store.sql import SCHEMA
from holdfast.store.url import check_escaped, masked

SERVER_OLDEST: Final = 140_000
CHANNEL: Final = "holdfast"
"""On which commits are told of; the same for all schemas, for to be woken for nothing does no harm."""
FOLLOWERS_CHANNEL: Final = "holdfast_followers"
"""For those that only followers care for: no job became ready, and no worker has anything to do."""
CONNECT_SECONDS: Final = 5
CALL_SECONDS: Final = 30.0
LOCK_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 5.0
"""A transaction of ours that asks for nothing more has lost its client: it would hold its locks for as long."""
_SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,49}")
_POOLERS: Final = ("session", "transaction")
_SECRET: Final = re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|\S+)|(://[^:@/\s]*:)[^@\s]*@", re.IGNORECASE)

_KEPT_ALIVE: Final = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""A peer that takes nothing more is gone: a busy server still does. So this may be shorter than the longest statement."""


class Place(NamedTuple):
    """One database. `conninfo` is for the driver alone: it has the password in it."""

    conninfo: str
    shown: str
    schema: str = SCHEMA
    pooled: bool = False
    """Behind a pooler that gives every transaction another session: nothing may be left in a session."""

    def __repr__(self) -> str:
        return f"<Place {self.shown} schema {self.schema}>"


def place_of(url: str) -> Place:
    """`postgresql://user:password@host:port,host:port/name?schema=jobs&pooler=transaction`, and whatever else libpq takes."""
    check_escaped(url)
    base, _, query = url.partition("?")
    ours: dict[str, str] = {}
    theirs: list[tuple[str, str]] = []
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in ("schema", "pooler"):
            ours[name] = value
        else:
            theirs.append((name, value))
    schema, pooler = ours.get("schema", SCHEMA), ours.get("pooler", "session")
    if not _SCHEMA_NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise SettingError(f"database URL: schema={schema!r} must be small letters, digits and _; use schema=holdfast")
    if pooler not in _POOLERS:
        raise SettingError(f"database URL: pooler={pooler!r} is unknown; use pooler=transaction, or leave it out")
    conninfo = base + ("?" + urlencode(theirs, quote_via=quote) if theirs else "")
    try:
        parts = conninfo_to_dict(conninfo)
    except psycopg.Error as error:
        raise SettingError(f"database URL {masked(url)} cannot be read: {_line(error)}") from None
    return Place(conninfo, _shown({name: str(value) for name, value in parts.items()}), schema, pooler == "transaction")


def options_of(place: Place) -> dict[str, str | int]:
    """What a connection asks for, unless the URL says otherwise: nothing may wait for ever."""
    given = conninfo_to_dict(place.conninfo)
    wanted: dict[str, str | int] = {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "holdfast",
        "client_encoding": "utf8",
        **_KEPT_ALIVE,
    }
    if "," in str(given.get("host", "")):
        wanted["target_session_attrs"] = "read-write"  # the one of them that may be written to
    chosen = {name: value for name, value in wanted.items() if name not in given}
    if not place.pooled:
        chosen["options"] = f"{SETTINGS} {given.get('options') or os.environ.get('PGOPTIONS', '')}".strip()
    return chosen


_PLANS: Final = (
    "enable_seqscan=off",
    "enable_hashjoin=off",
    "enable_mergejoin=off",
    "enable_bitmapscan=off",
    "jit=off",
    "plan_cache_mode=force_generic_plan",
)
"""Every hot statement goes by keys, from few rows to few rows. Statistics of tables that fill and empty by the second must not
talk the planner into anything else."""
_BOUNDS: Final = (f"statement_timeout={CALL_SECONDS * 1000:.0f}", f"lock_timeout={LOCK_SECONDS * 1000:.0f}")
SETTINGS: Final = " ".join(
    f"-c {setting}"
    for setting in (
        "default_transaction_isolation=read\\ committed",
        *_BOUNDS,
        f"idle_in_transaction_session_timeout={IDLE_SECONDS * 1000:.0f}",
        *(f"tcp_{name}={value}" for name, value in _KEPT_ALIVE.items() if name != "keepalives" and name.startswith("keep")),
        *_PLANS,
    )
)
SETTINGS_LOCAL: Final = "; ".join(f"SET LOCAL {setting.replace('=', ' = ')}" for setting in (*_BOUNDS, *_PLANS))


def _shown(parts: dict[str, str]) -> str:
    hosts = (parts.get("host") or parts.get("hostaddr") or "localhost").split(",")
    ports = (parts.get("port") or "5432").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    where = ",".join(f"{unquote(host) or 'localhost'}:{port or '5432'}" for host, port in zip(hosts, ports, strict=False))
    return f"{where}/{parts.get('dbname') or parts.get('user') or ''}"


# What a person can do about it, by SQLSTATE or its class; the longest that fits wins.
_MEANINGS: Final[dict[str, tuple[str, str]]] = {
    "08": ("cannot be reached", "check that the server runs and the network leads to it"),
    "28": ("does not let this user in", "check user, password and pg_hba.conf"),
    "3D000": ("does not exist", "create the database, or give another name"),
    "3F000": ("has no Holdfast tables", "call app.migrate(), or run `holdfast migrate`"),
    "42P01": ("has no Holdfast tables", "call app.migrate(), or run `holdfast migrate`"),
    "42501": ("may not be changed by this user", "grant it the rights, or let another user run `holdfast migrate`"),
    "25006": ("is read-only", "connect to the primary server"),
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
_WORDS: Final = (
    (re.compile(r'database "[^"]*" does not exist'), "3D000"),
    (re.compile(r'role "[^"]*" does not exist|authentication failed|no pg_hba.conf entry|not permitted to log in'), "28000"),
    (re.compile(r"too many (clients|connections)|remaining connection slots"), "53300"),
)
_LOST: Final = ("cannot be reached", "check that the server runs and the network leads to it")
_UNKNOWN: Final = ("refused a statement", "look at the server's log")


def explain(error: psycopg.Error, shown: str) -> StoreUnavailable:
    """The same error for a person: what, which server, and the remedy, in one line."""
    state = error.sqlstate or _state_of(str(error))
    known = max((key for key in _MEANINGS if state.startswith(key)), key=len, default="")
    lost = not state and isinstance(error, psycopg.OperationalError)
    what, remedy = _MEANINGS.get(known, _LOST if lost else _UNKNOWN)
    name = f"{type(error).__name__} {state}".strip()
    return StoreUnavailable(f"{shown} {what} ({name}: {_line(error)}); {remedy}")


def _state_of(said: str) -> str:
    """When a connection is refused, psycopg has only the server's words."""
    return next((state for words, state in _WORDS if words.search(said)), "")


def unknown_outcome(shown: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{shown}: the connection was lost while it committed, and the outcome is unknown; "
        "look whether the work is there before you do it again"
    )


def _line(error: psycopg.Error) -> str:
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
    """PgBouncer, unless told otherwise, takes no settings with a connection: then they are sent with every transaction."""
    return "unsupported startup parameter" in str(error)
