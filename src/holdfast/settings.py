"""Where the store is and how long things last; every setting has an environment variable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from holdfast.errors import SettingError, StoreUnavailable
from holdfast.store.clock import Clock
from holdfast.store.sqlite.driver import SqliteStore
from holdfast.store.store import Store

URL_VARIABLE: Final = "HOLDFAST_URL"
URL_DEFAULT: Final = "sqlite:///holdfast.db"
LEASE_SECONDS: Final = 15.0
RETENTION_SECONDS: Final = 7 * 86_400.0
CONCURRENCY: Final = 10
GRACE_SECONDS: Final = 30.0
PRIORITY: Final = 100
QUEUE: Final = "default"


def url_of(url: str | None, environment: Mapping[str, str] | None = None) -> str:
    """The URL given, else $HOLDFAST_URL, else a file in the working directory."""
    return url or (os.environ if environment is None else environment).get(URL_VARIABLE) or URL_DEFAULT


def open_store(url: str, clock: Clock | None = None) -> Store:
    """The store that a URL names. Nothing is opened or created before it is first used."""
    scheme, found, rest = url.partition("://")
    if not found:
        raise SettingError(f"database URL {url!r} has no scheme; use sqlite:///jobs.db")
    if scheme in ("postgresql", "postgres"):
        raise StoreUnavailable(f"database URL {_masked(url)} is not supported by this version; use sqlite:///jobs.db")
    if scheme != "sqlite":
        raise SettingError(f"database URL {_masked(url)}: scheme {scheme!r} is unknown; use sqlite:///jobs.db")
    if "?" in rest:
        raise SettingError(f"database URL {url!r} has parameters, and a file has none; use {url.partition('?')[0]}")
    if not rest.startswith("/") or rest == "/" or rest.startswith(("/:", "/file:")):
        raise SettingError(
            f"database URL {url!r} names no file; use sqlite:///jobs.db (relative) or sqlite:////var/lib/jobs.db (absolute)"
        )
    return SqliteStore(rest[1:], clock=clock)


def _masked(url: str) -> str:
    """A URL for an error message, without its password."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://…@{rest.rpartition('@')[2]}" if "@" in rest else url
