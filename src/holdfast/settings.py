"""Where the store is and how long things last; every setting has an environment variable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from holdfast.errors import SettingError
from holdfast.store.clock import Clock
from holdfast.store.sqlite.driver import SqliteStore
from holdfast.store.store import Store
from holdfast.store.url import masked

URL_VARIABLE: Final = "HOLDFAST_URL"
LISTEN_URL_VARIABLE: Final = "HOLDFAST_LISTEN_URL"
URL_DEFAULT: Final = "sqlite:///holdfast.db"
LEASE_SECONDS: Final = 15.0
RETENTION_SECONDS: Final = 7 * 86_400.0
CONCURRENCY: Final = 10
GRACE_SECONDS: Final = 30.0
PRIORITY: Final = 100
QUEUE: Final = "default"
_EXAMPLES: Final = "sqlite:///jobs.db or postgresql://user@host/name"


def url_of(url: str | None, environment: Mapping[str, str] | None = None) -> str:
    """The URL given, else $HOLDFAST_URL, else a file in the working directory."""
    return url or (os.environ if environment is None else environment).get(URL_VARIABLE) or URL_DEFAULT


def open_store(url: str, clock: Clock | None = None, listen_url: str | None = None) -> Store:
    """The store that a URL names. Nothing is opened or created before it is first used."""
    scheme, found, rest = url.partition("://")
    if not found:
        raise SettingError(f"database URL {url!r} has no scheme; use {_EXAMPLES}")
    if scheme in ("postgresql", "postgres"):
        return _postgres(url, clock, listen_url or os.environ.get(LISTEN_URL_VARIABLE) or None)
    if scheme != "sqlite":
        raise SettingError(f"database URL {masked(url)}: scheme {scheme!r} is unknown; use {_EXAMPLES}")
    if "?" in rest:
        raise SettingError(f"database URL {url!r} has parameters, and a file has none; use {url.partition('?')[0]}")
    if not rest.startswith("/") or rest == "/" or rest.startswith(("/:", "/file:")):
        raise SettingError(
            f"database URL {url!r} names no file; use sqlite:///jobs.db (relative) or sqlite:////var/lib/jobs.db (absolute)"
        )
    return SqliteStore(rest[1:], clock=clock)


def _postgres(url: str, clock: Clock | None, listen_url: str | None) -> Store:
    try:
        from holdfast.store.postgres.driver import PostgresStore
    except ImportError as error:
        raise SettingError(f"database URL {masked(url)} needs psycopg ({error}); pip install 'holdfast[postgres]'") from error
    return PostgresStore(url, clock=clock, listen_url=listen_url)
