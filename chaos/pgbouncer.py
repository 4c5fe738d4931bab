"""`python -m chaos.pgbouncer [arguments of pytest]`: the conformance suite behind PgBouncer in transaction mode.

A private PostgreSQL server with Debian's PgBouncer (`apt-get install pgbouncer`) before it; both end with the tests. Holdfast
connects to the pooler only; the tests make their databases on the server itself.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from chaos.private_server import SYSTEM_USER, PrivateServer

_CONFIGURATION: Final = """
[databases]
* = host=127.0.0.1 port={server}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {folder}/users
pool_mode = transaction
max_client_conn = 500
default_pool_size = 10
server_idle_timeout = 5
pidfile = {folder}/pgbouncer.pid
logfile = {folder}/pgbouncer.log
log_connections = 0
log_disconnections = 0
"""


def main(arguments: list[str]) -> int:
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        sys.stderr.write("pgbouncer is not installed; apt-get install pgbouncer\n")
        return 2
    server = PrivateServer.new()
    try:
        pooler, port = _start(program, server)
        try:
            url = f"postgresql://postgres:{server.password}@127.0.0.1:{port}/postgres?pooler=transaction"
            chosen = arguments or ["tests/conformance"]
            command = [sys.executable, "-m", "pytest", "-q", "-k", "postgresql", *chosen]
            direct = server.url("postgres", "postgres")
            urls = {"HOLDFAST_TEST_POSTGRES": url, "HOLDFAST_TEST_POSTGRES_DIRECT": direct}
            return subprocess.run(command, env=os.environ | urls, check=False).returncode
        finally:
            pooler.terminate()
            pooler.wait(30)
            sys.stdout.write(_summary(server.directory / "pgbouncer.log"))
    finally:
        server.close()


def _start(program: str, server: PrivateServer) -> tuple[subprocess.Popen[bytes], int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    folder = server.directory
    (folder / "users").write_text(f'"postgres" "{server.password}"\n')
    (folder / "pgbouncer.ini").write_text(_CONFIGURATION.format(server=server.port, port=port, folder=folder))
    user = SYSTEM_USER if os.geteuid() == 0 else None  # PgBouncer refuses to run as root
    pooler = subprocess.Popen([program, "-q", str(folder / "pgbouncer.ini")], user=user, cwd=folder)
    deadline = time.monotonic() + 10.0
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
            return pooler, port
        except OSError:
            if time.monotonic() > deadline:
                pooler.kill()
                raise
            time.sleep(0.05)


def _summary(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    wrong = [line for line in lines if "WARNING" in line or "ERROR" in line]
    return "".join(f"pgbouncer: {line}\n" for line in wrong[-5:]) + f"pgbouncer: {len(wrong)} warnings and errors\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
