"""`python -m chaos.watch`: a job is watched by many clients, who are cut off at random, while their server is killed.

A real worker runs the job, `holdfast serve` is killed with SIGKILL and started again on the same port, and the clients are a
process of their own. Every one of them must have every event once, in order, and the end.
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

from chaos.audience import CUTS, Told, Watch
from chaos.broadcast import BLOWS, DIRECTORY_VARIABLE, EMITTED, broadcast, chatter
from chaos.private_server import PrivateServer
from chaos.verdict import gather, judge
from holdfast import Holdfast

ROOT: Final = Path(__file__).parents[1]
STORES: Final = ("sqlite", "postgresql")
TARGET: Final = "chaos.broadcast:app"
JOB: Final = "the/broadcast"
CYCLE_SECONDS: Final = 2.0
"""About how long it takes from one blow to the next: what the job says is spread over that."""
CALM_SECONDS: Final = (0.0, 1.5)
"""How long a server lives once it serves."""
CUTS_PER_LIFE: Final = 1.5
"""How often each client is cut off between two blows, if it is not cut off by the blow."""
FRAME_BYTES: Final = 220
START_SECONDS: Final = 60.0
STILL_SECONDS: Final = 60.0
"""When nobody has got anything for so long, nobody will."""
LOOK_SECONDS: Final = 2.0
EXAMPLES_MAX: Final = 3
SETTINGS: Final = {
    "HOLDFAST_WEB_RECONNECT_SECONDS": "0.1",
    "HOLDFAST_WEB_HEARTBEAT_SECONDS": "2",
    "HOLDFAST_WEB_REQUESTS_PER_SECOND": "100000",
}


class Plan(msgspec.Struct, frozen=True):
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
        return f"python -m chaos.watch --on {self.on} {size} --seed {self.seed}"


class Scene:
    """The processes of a run: each writes a log of its own."""

    def __init__(self, plan: Plan, url: str) -> None:
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
        """Until it answers."""
        process = self.start("server", "holdfast", "serve", TARGET, "--port", str(self.port))
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1.0).close()
                return process
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise RuntimeError(f"it does not serve:\n{self.log('server')[-2000:]}") from None
                time.sleep(0.02)

    def blow(self) -> None:
        with (self._directory / BLOWS).open("ab") as file:
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
    parser = argparse.ArgumentParser(prog="python -m chaos.watch", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--on", choices=STORES, default=STORES[0], help="which database")
    parser.add_argument("--events", type=int, default=10_000, help="how many the job emits")
    parser.add_argument("--clients", type=int, default=50, help="who watch the job")
    parser.add_argument("--feeds", type=int, default=5, help="who watch all jobs")
    parser.add_argument("--kills", type=int, default=20, help="how often the server is killed")
    parser.add_argument("--seed", type=int, help="repeat a run's plan (default: a new one, printed first)")
    parser.add_argument("--dir", help="where to work; what is there afterwards is kept")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    options = parser.parse_args(arguments)
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    directory = tempfile.mkdtemp(prefix=f"holdfast-watch-{seed}-", dir=options.dir)
    plan = Plan(options.on, options.events, options.clients, options.kills, seed, directory, options.feeds)
    sys.stderr.write(f"seed {seed}, in {directory}\n")
    found = run(plan)
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(found)).decode() + "\n" if options.json else page(found))
    if found["ok"] and options.dir is None:
        shutil.rmtree(directory, ignore_errors=True)
    return 0 if found["ok"] else 1


def run(plan: Plan) -> dict[str, Any]:
    with ExitStack() as stack:
        url = stack.enter_context(_database(plan))
        app = stack.enter_context(Holdfast(url))
        app.migrate()
        scene = Scene(plan, url)
        stack.callback(scene.close)
        return _direct(plan, app, scene)


@contextmanager
def _database(plan: Plan) -> Iterator[str]:
    if plan.on == "sqlite":
        yield f"sqlite:///{plan.directory}/jobs.db"
        return
    server = PrivateServer.new()
    try:
        yield server.url()
    finally:
        server.close()


def _direct(plan: Plan, app: Holdfast, scene: Scene) -> dict[str, Any]:
    began = time.monotonic()
    records = Path(plan.directory, "records")
    records.mkdir()
    _enqueue(plan, app)
    between_cuts = plan.events * FRAME_BYTES / (CUTS_PER_LIFE * (plan.kills + 1))
    watch = Watch(scene.port, JOB, plan.clients, plan.seed, str(records), between_cuts, plan.feeds)
    audience = scene.start("audience", "chaos.audience", msgspec.json.encode(watch).decode(), stdout=subprocess.PIPE)
    scene.start("worker", "holdfast", "worker", TARGET, "--concurrency", "4")
    _strike(plan, app, scene)
    told, surprises = _await_end(audience, scene, records)
    seconds = time.monotonic() - began
    others = {job.id: list(app.events(job.id)) for job in app.jobs(task=chatter.name, limit=1_000)}
    evidence = gather(Path(plan.directory, EMITTED), records, list(app.events(JOB)), others)
    verdicts = judge(evidence, plan.clients, plan.feeds)
    surprises += told.surprises + _complaints(scene)
    delivered = sum(len(seen) for seen in (evidence.seen | evidence.fed).values())
    return {
        "ok": not surprises and not any(verdict.broken for verdict in verdicts),
        "seed": plan.seed,
        "command": plan.command,
        "directory": plan.directory,
        "on": plan.on,
        "events": len(evidence.kept),
        "clients": plan.clients,
        "feeds": plan.feeds,
        "kills": plan.kills,
        "delivered": delivered,
        "connects": told.counts.get("connects", 0),
        "refused": told.counts.get("refused", 0),
        "lost": told.counts.get("lost", 0),
        "cuts": {way: told.counts.get(way, 0) for way in CUTS},
        "cut_inside_a_frame": told.counts.get("inside a frame", 0),
        "seconds": round(seconds, 1),
        "surprises": surprises,
        "promises": msgspec.to_builtins(verdicts),
    }


def _enqueue(plan: Plan, app: Holdfast) -> None:
    pause = plan.kills * CYCLE_SECONDS / plan.events
    request = broadcast.using(id=JOB).bind(seed=plan.seed, events=plan.events, blows=plan.kills, pause_seconds=pause)
    app.enqueue(request)


def _strike(plan: Plan, app: Holdfast, scene: Scene) -> None:
    chance = random.Random(f"{plan.seed}/blows")
    server = scene.serve()
    for _ in range(plan.kills):
        time.sleep(chance.uniform(*CALM_SECONDS))
        server.kill()
        server.wait()
        scene.blow()
        app.enqueue(chatter.bind(chance.randrange(2**32)))
        server = scene.serve()


def _await_end(audience: subprocess.Popen[bytes], scene: Scene, records: Path) -> tuple[Told, list[str]]:
    grown_at, size = time.monotonic(), -1
    while True:
        try:
            said, _ = audience.communicate(timeout=LOOK_SECONDS)
            break
        except subprocess.TimeoutExpired:
            now = sum(path.stat().st_size for path in records.iterdir())
            grown_at, size = (time.monotonic(), now) if now > size else (grown_at, size)
            if time.monotonic() - grown_at > STILL_SECONDS:
                return Told({}, []), [f"not every client has seen the end, and nobody got anything for {STILL_SECONDS:g} s"]
    if audience.returncode:
        return Told({}, []), [f"the audience ended with {audience.returncode}: {scene.log('audience')[-1000:]}"]
    return msgspec.json.decode(said, type=Told), []


def _complaints(scene: Scene) -> list[str]:
    """What programs say when something went wrong that they did not expect."""
    found = []
    for name in ("server", "worker"):
        lines = scene.log(name).splitlines()
        wrong = [line for line in lines if "Traceback" in line or "ERROR" in line or "CRITICAL" in line]
        found += [f"{name}: {len(wrong)} complaints in its log, the first: {wrong[0]}"] if wrong else []
    return found


def page(found: dict[str, Any]) -> str:
    cuts = ", ".join(f"{count:,} {way}" for way, count in found["cuts"].items())
    lines = [
        "",
        f"chaos.watch on {found['on']}, seed {found['seed']}: {'every promise held' if found['ok'] else 'BROKEN'}",
        "",
        f"  {found['clients']:,} clients watch a job with {found['events']:,} events, {found['feeds']:,} watch all jobs",
        f"  the server was killed {found['kills']:,} times",
        f"  {found['delivered']:,} events delivered in {found['seconds']:,} s",
        f"  {found['connects']:,} connections; {sum(found['cuts'].values()):,} cut off by the client ({cuts}), "
        f"{found['cut_inside_a_frame']:,} of them inside an event",
        f"  {found['lost']:,} lost with a server, {found['refused']:,} refused while there was none",
        "",
    ]
    for promise in found["promises"]:
        mark = "BROKEN" if promise["broken"] else "ok    "
        lines.append(f"  {mark} {promise['promise']:<44} {len(promise['broken']):>6,} in {promise['trials']:,}")
        lines += [f"    {example}"[:300] for example in promise["broken"][:EXAMPLES_MAX]]
    lines += [f"  ! {surprise}"[:500] for surprise in found["surprises"][: 3 * EXAMPLES_MAX]]
    if not found["ok"]:
        lines += ["", f"  everything is kept in {found['directory']}", f"  again: {found['command']}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
