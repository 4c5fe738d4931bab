"""Where the database is, from its URL, and what every connection to it asks for. No password is shown."""

from __future__ import annotations

import os
import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from holdfast.errors import SettingError
from holdfast.store.postgres.errors import line_of
from holdfast.store.sql import SCHEMA
from holdfast.store.url import check_escaped, masked

SERVER_OLDEST: Final = 140_000
CONNECT_SECONDS: Final = 5
CALL_SECONDS: Final = 30.0
LOCK_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 5.0
"""A transaction of ours that asks for nothing more has lost its client: it would hold its locks for as long."""
_SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,49}")
_POOLERS: Final = ("session", "transaction")

_KEPT_ALIVE: Final = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""A peer that takes nothing more is gone: a busy server still does. So this may be shorter than the longest statement."""


class Location(NamedTuple):
    """One database. `conninfo` is for the driver alone: it has the password in it."""

    conninfo: str
    shown: str
    schema: str = SCHEMA
    pooled: bool = False
    """Behind a pooler that gives every transaction another session: nothing may be left in a session."""

    def __repr__(self) -> str:
        return f"<Location {self.shown} schema {self.schema}>"


def location_of(url: str) -> Location:
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
        raise SettingError(f"database URL {masked(url)} cannot be read: {line_of(error)}") from None
    return Location(conninfo, _shown({name: str(value) for name, value in parts.items()}), schema, pooler == "transaction")


def options_of(location: Location) -> dict[str, str | int]:
    """What a connection asks for. The URL may say otherwise, but not about what our statements' results depend on."""
    given = conninfo_to_dict(location.conninfo)
    wanted: dict[str, str | int] = {"connect_timeout": CONNECT_SECONDS, "application_name": "holdfast", **_KEPT_ALIVE}
    if "," in str(given.get("host", "")):
        wanted["target_session_attrs"] = "read-write"  # the one of them that may be written to
    chosen = {name: value for name, value in wanted.items() if name not in given}
    if not location.pooled:
        chosen["options"] = " ".join(part for part in (_ASKED, _given_options(location), PINNED_OPTIONS) if part)
    return {**chosen, "client_encoding": "utf8"}


def settings_local(location: Location) -> str:
    """The same for one transaction, behind a pooler: nothing may be left in a session there."""
    if not location.pooled:
        return ""
    return _local(*_BOUNDS, *_PLANS, *_PINNED) if "synchronous_commit" in _given_options(location) else SETTINGS_LOCAL


def _given_options(location: Location) -> str:
    return str(conninfo_to_dict(location.conninfo).get("options") or os.environ.get("PGOPTIONS", ""))


SEARCH_PATH: Final = "pg_catalog,pg_temp"
"""Other users of the database may create functions and operators in `public`, which a name alone would find (CVE-2018-1058)."""
_PINNED: Final = (
    f"search_path={SEARCH_PATH}",
    "standard_conforming_strings=on",
    "datestyle=ISO,YMD",
    "intervalstyle=postgres",
    "timezone=UTC",
    "extra_float_digits=1",
)
"""What the results of our statements depend on, whatever is set for the role or the database."""
_SAFE: Final = ("synchronous_commit=on",)
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


def _options(*settings: str) -> str:
    return " ".join(f"-c {setting}" for setting in settings)


def _local(*settings: str) -> str:
    return "; ".join(f"SET LOCAL {setting.replace('=', ' = ')}" for setting in settings)


_ASKED: Final = _options(
    "default_transaction_isolation=read\\ committed",
    *_BOUNDS,
    f"idle_in_transaction_session_timeout={IDLE_SECONDS * 1000:.0f}",
    *(f"tcp_{name}={value}" for name, value in _KEPT_ALIVE.items() if name != "keepalives" and name.startswith("keep")),
    *_PLANS,
    *_SAFE,
)
PINNED_OPTIONS: Final = _options(*_PINNED)
SETTINGS_LOCAL: Final = _local(*_BOUNDS, *_PLANS, *_SAFE, *_PINNED)


def _shown(parts: dict[str, str]) -> str:
    hosts = (parts.get("host") or parts.get("hostaddr") or "localhost").split(",")
    ports = (parts.get("port") or "5432").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    where = ",".join(f"{unquote(host) or 'localhost'}:{port or '5432'}" for host, port in zip(hosts, ports, strict=False))
    return f"{where}/{parts.get('dbname') or parts.get('user') or ''}"
