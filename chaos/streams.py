"""`python -m chaos.streams`: many clients follow a job, with random cuts, while their web server is killed again and again.

A worker runs the job, `holdfast serve` is killed with SIGKILL and started again on the same port, and the clients are a process
of their own. Every client must receive every event once, in order, and the end.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from chaos.private_server import PrivateServer
from chaos.stream_checks import gather, judge
from chaos.stream_clients import CUTS, ClientCounts, ClientPlan
from chaos.stream_job import DIRECTORY_VARIABLE, EMITTED, KILLS, broadcast, chatter
from holdfast import Holdfast

ROOT: Final = Path(__file__).parents[1]
STORES: Final = ("sqlite", "postgresql")
TARGET: Final = "chaos.stream_job:app"
JOB: Final = "the/broadcast"
CYCLE_SECONDS: Final = 2.0
"""The expected time from one kill to the next: the pauses of the job are chosen for it."""
CALM_SECONDS: Final = (0.0, 1.5)
"""How long a web server runs after its first response, at least and at most."""
CUTS_PER_LIFE: Final = 1.5
"""How often each client cuts its connection between two kills, on average."""
FRAME_BYTES: Final = 220
START_SECONDS: Final = 60.0
STILL_SECONDS: Final = 60.0
"""When no client has received anything for so long, the run has failed."""
LOOK_SECONDS: Final = 2.0
EXAMPLES_MAX: Final = 3
SETTINGS: Final = {
    "HOLDFAST_WEB_AUTH": "off",
    "HOLDFAST_WEB_RECONNECT_SECONDS": "0.1",
    "HOLDFAST_WEB_HEARTBEAT_SECONDS": "2",
    "HOLDFAST_WEB_REQUESTS_PER_SECOND": "100000",
}


class StreamPlan(msgspec.Struct, frozen=True):
    on: str
    events: int
    clients: int
    kills: int
    seed: int
    directory: str
    feeds: int

    @property
    def command(self) -> str:
        size = f"--events {self.events} --clients {self.clients} --feeds {self.feeds} --kills {self.kills}"
        return f"python -m chaos.streams --on {self.on} {size} --seed {self.seed}"


class StreamProcesses:
    """The processes of a run, each with a log."""

    def __init__(self, plan: StreamPlan, url: str) -> None:
        self._plan, self._directory = plan, Path(plan.directory)
        self._variables = {**os.environ, **SETTINGS, "HOLDFAST_URL": url, DIRECTORY_VARIABLE: plan.directory}
        self._living: list[subprocess.Popen[bytes]] = []
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]

    def start(self, name: str, *command: str, stdout: int | None = None) -> subprocess.Popen[bytes]:
        with (self._directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=log if stdout is None else stdout,
                stderr=log,
            )
        self._living.append(process)
        return process

    def serve(self) -> subprocess.Popen[bytes]:
        """Start the web server, and wait until it accepts connections."""
        process = self.start("server", "holdfast", "serve", TARGET, "--port", str(self.port))
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                return process
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError(f"the web server does not accept connections:\n{self.log('server')[-2000:]}") from None
                time.sleep(0.02)

    def count_kill(self) -> None:
        with (self._directory / KILLS).open("ab") as file:
            file.write(b".")

    def log(self, name: str) -> str:
        path = self._directory / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        for process in self._living:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.streams", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--on", choices=STORES, default=STORES[0], help="which database")
    parser.add_argument("--events", type=int, default=10_000, help="how many the job emits")
    parser.add_argument("--clients", type=int, default=50, help="how many follow the job")
    parser.add_argument("--feeds", type=int, default=5, help="how many follow all jobs")
    parser.add_argument("--kills", type=int, default=20, help="how often the web server is killed")
    parser.add_argument("--seed", type=int, help="repeat the run with this seed (default: a new one, which is printed)")
    parser.add_argument("--dir", help="where database and logs go, and are kept (default: a temporary one)")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    directory = tempfile.mkdtemp(prefix=f"holdfast-streams-{seed}-", dir=options.dir)
    plan = StreamPlan(options.on, options.events, options.clients, options.kills, seed, directory, options.feeds)
    sys.stderr.write(f"seed {seed}, in {directory}\n")
    found = run(plan)
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n" if options.json else page(found))
    if found["ok"] and options.dir is None:
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if found["ok"] else 1


def run(plan: StreamPlan) -> dict[str, Any]:
    with ExitStack() as stack:
        url = stack.enter_context(_database(plan))
        app = stack.enter_context(Holdfast(url))
        app.migrate()
        processes = StreamProcesses(plan, url)
        stack.callback(processes.close)
        return _follow(plan, app, processes)


@contextmanager
def _database(plan: StreamPlan) -> Iterator[str]:
    if plan.on == "sqlite":
        yield f"sqlite:///{plan.directory}/jobs.db"
        return
    server = PrivateServer.new()
    try:
        yield server.url()
    finally:
        server.close()


def _follow(plan: StreamPlan, app: Holdfast, processes: StreamProcesses) -> dict[str, Any]:
    began = time.monotonic()
    records = Path(plan.directory, "records")
    records.mkdir()
    _enqueue(plan, app)
    between_cuts = plan.events * FRAME_BYTES / (CUTS_PER_LIFE * (plan.kills + 1))
    clients_plan = ClientPlan(processes.port, JOB, plan.clients, plan.seed, str(records), between_cuts, plan.feeds)
    clients = processes.start(
        "clients", "chaos.stream_clients", msgspec.json.encode(clients_plan).decode(), stdout=subprocess.PIPE
    )
    processes.start("worker", "holdfast", "worker", TARGET, "--concurrency", "4")
    _kill_servers(plan, app, processes)
    counted, surprises = _await_end(clients, processes, records)
    seconds = time.monotonic() - began
    others = {job.id: list(app.events(job.id)) for job in app.jobs(task=chatter.name, limit=1_000)}
    evidence = gather(Path(plan.directory, EMITTED), records, list(app.events(JOB)), others)
    results = judge(evidence, plan.clients, plan.feeds)
    surprises += counted.surprises + _logged_errors(processes)
    delivered = sum(len(seen) for seen in (evidence.seen | evidence.fed).values())
    return {
        "ok": not surprises and not any(result.broken for result in results),
        "seed": plan.seed,
        "command": plan.command,
        "directory": plan.directory,
        "on": plan.on,
        "events": len(evidence.kept),
        "clients": plan.clients,
        "feeds": plan.feeds,
        "kills": plan.kills,
        "delivered": delivered,
        "connects": counted.counts.get("connects", 0),
        "refused": counted.counts.get("refused", 0),
        "lost": counted.counts.get("lost", 0),
        "cuts": {way: counted.counts.get(way, 0) for way in CUTS},
        "cut_inside_a_frame": counted.counts.get("inside a frame", 0),
        "seconds": round(seconds, 1),
        "surprises": surprises,
        "promises": msgspec.to_builtins(results),
    }


def _enqueue(plan: StreamPlan, app: Holdfast) -> None:
    pause = plan.kills * CYCLE_SECONDS / plan.events
    request = broadcast.using(id=JOB).bind(seed=plan.seed, events=plan.events, kills=plan.kills, pause_seconds=pause)
    app.enqueue(request)


def _kill_servers(plan: StreamPlan, app: Holdfast, processes: StreamProcesses) -> None:
    chance = random.Random(f"{plan.seed}/kills")
    server = processes.serve()
    for _ in range(plan.kills):
        time.sleep(chance.uniform(*CALM_SECONDS))
        server.kill()
        server.wait()
        processes.count_kill()
        app.enqueue(chatter.bind(chance.randrange(2**32)))
        server = processes.serve()


def _await_end(clients: subprocess.Popen[bytes], processes: StreamProcesses, records: Path) -> tuple[ClientCounts, list[str]]:
    grown_at, size = time.monotonic(), -1
    while True:
        try:
            output, _ = clients.communicate(timeout=LOOK_SECONDS)
            break
        except subprocess.TimeoutExpired:
            now = sum(path.stat().st_size for path in records.iterdir())
            grown_at, size = (time.monotonic(), now) if now > size else (grown_at, size)
            if time.monotonic() - grown_at > STILL_SECONDS:
                return ClientCounts({}, []), [
                    f"not every client has received the end, and none received anything for {STILL_SECONDS:g} s"
                ]
    if clients.returncode:
        return ClientCounts({}, []), [
            f"the clients ended with exit code {clients.returncode}: {processes.log('clients')[-1000:]}"
        ]
    return msgspec.json.decode(output, type=ClientCounts), []


def _logged_errors(processes: StreamProcesses) -> list[str]:
    """Errors in the logs of web server and worker: neither has a reason for one."""
    found = []
    for name in ("server", "worker"):
        lines = processes.log(name).splitlines()
        wrong = [line for line in lines if "Traceback" in line or "ERROR" in line or "CRITICAL" in line]
        found += [f"{name}: {len(wrong)} errors in its log, the first: {wrong[0]}"] if wrong else []
    return found


def page(found: dict[str, Any]) -> str:
    cuts = ", ".join(f"{count:,} {way}" for way, count in found["cuts"].items())
    lines = [
        "",
        f"chaos.streams on {found['on']}, seed {found['seed']}: {'every promise held' if found['ok'] else 'BROKEN'}",
        "",
        f"  {found['clients']:,} clients follow a job with {found['events']:,} events, {found['feeds']:,} follow all jobs",
        f"  the web server was killed {found['kills']:,} times",
        f"  {found['delivered']:,} events delivered in {found['seconds']:,} s",
        f"  {found['connects']:,} connections; {sum(found['cuts'].values()):,} cut by the client ({cuts}), "
        f"{found['cut_inside_a_frame']:,} of them inside an event",
        f"  {found['lost']:,} lost with a server, {found['refused']:,} refused while none ran",
        "",
    ]
    for promise in found["promises"]:
        mark = "BROKEN" if promise["broken"] else "ok    "
        lines.append(f"  {mark} {promise['promise']:<44} {len(promise['broken']):>6,} in {promise['trials']:,}")
        lines += [f"    {example}"[:300] for example in promise["broken"][:EXAMPLES_MAX]]
    lines += [f"  ! {surprise}"[:500] for surprise in found["surprises"][: 3 * EXAMPLES_MAX]]
    if not found["ok"]:
        lines += ["", f"  database, records and logs are kept in {found['directory']}", f"  again: {found['command']}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
