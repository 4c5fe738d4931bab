"""A scene: a database, a directory of ledgers, and the processes that play in it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeVar

from holdfast import Event, Holdfast, Job, Task
from holdfast.torture.ledgers import DIRECTORY_VARIABLE, Line, read
from tests.until import PATIENCE, until

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
AnyTask = Task[Any]


class Player:
    """One process, started from `tests.journeys.programs`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process, self._log = process, log
        self.pid = process.pid

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)

    def wait(self, seconds: float = PATIENCE) -> int:
        return self._process.wait(seconds)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def log(self) -> str:
        return self._log.read_text()


class Scene:
    def __init__(self, directory: Path, place: Path | None = None) -> None:
        self.directory = directory
        self.path = (place or directory) / "jobs.db"
        self.ledgers = directory / "ledgers"
        self.ledgers.mkdir()
        self.app = Holdfast(f"sqlite:///{self.path}")
        self._players: list[Player] = []

    # Who plays

    def start(self, program: str, **options: Any) -> Player:
        variables = {"HOLDFAST_URL": self.app.url, DIRECTORY_VARIABLE: str(self.ledgers)}
        log = self.directory / f"{program}-{len(self._players)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.journeys.programs", program, json.dumps(options)],
                cwd=ROOT,
                env=os.environ | variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        player = Player(process, log)
        self._players.append(player)
        return player

    def worker(self, name: str, **options: Any) -> Player:
        """A worker that has registered."""
        player = self.start("worker", name=name, **options)
        self.await_registered(player)
        return player

    def await_registered(self, player: Player) -> None:
        until(lambda: player.pid in self.registered() or not player.alive, f"worker {player.pid} registers")
        assert player.alive, player.log

    def stop(self, player: Player) -> None:
        """SIGSTOP, but not inside a transaction: whoever is stopped there stops all that write to the file."""

        def stopped_outside() -> bool:
            player.signal(signal.SIGSTOP)
            until(lambda: _process_state(player.pid) == "T", "it is stopped")
            if self._writable():
                return True
            player.signal(signal.SIGCONT)
            return False

        until(stopped_outside, "it is stopped outside a transaction")

    def _writable(self) -> bool:
        connection = sqlite3.connect(self.path, timeout=0.2, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            connection.close()
        return True

    def close(self) -> None:
        for player in self._players:
            if player.alive:
                player.kill()
        self.app.close()

    # What is asked for

    def enqueue(self, task: AnyTask, call: str, seconds: float | None = None, later: float | None = None, **options: Any) -> Job:
        durations = {name: value for name, value in (("seconds", seconds), ("later", later)) if value is not None}
        return self.app.enqueue(task.using(**options).bind(call=call, **durations))

    # What is seen

    def lines(self, what: str, call: str) -> list[Line]:
        found = [line for line in read(str(self.ledgers)) if line.what == what and line.call == call]
        return sorted(found, key=lambda line: line.at)

    def await_line(self, what: str, call: str, count: int = 1, seconds: float = PATIENCE) -> Line:
        enough = lambda: len(self.lines(what, call)) >= count  # noqa: E731
        until(enough, f"{what} {call} x {count}", seconds)
        return self.lines(what, call)[count - 1]

    def job(self, job: Job) -> Job:
        found = self.app.get(job.id)
        assert found is not None
        return found

    def kinds(self, job: Job) -> list[str]:
        """The kinds of its events, without what it said itself."""
        return [event.kind for event in self.app.events(job.id) if event.kind != "progress"]

    def written(self, job: Job) -> tuple[Any, ...]:
        """Every byte that the database has about a job."""
        events: list[Event] = list(self.app.events(job.id))
        seq = self.query("SELECT seq FROM holdfast_full_job WHERE id = ?", job.id)[0][0]
        tables = ("full_job", "running", "ready", "scheduled", "finished")
        rows = [self.query(f"SELECT * FROM holdfast_{table} WHERE seq = ?", seq) for table in tables]
        return events, rows, self.query("SELECT * FROM holdfast_error WHERE job = ?", seq)

    def registered(self) -> dict[int, tuple[int, str, int]]:
        """Workers by process: (number, name, beat)."""
        if not self.path.exists():
            return {}
        try:
            rows = self.query("SELECT pid, id, name, beat_tick FROM holdfast_worker ORDER BY id")
        except sqlite3.OperationalError:
            return {}  # not yet migrated
        return {pid: (number, name, beat) for pid, number, name, beat in rows}

    def await_beats(self, player: Player, count: int) -> None:
        """Until it has renewed its leases so many times more."""
        for _ in range(count):
            before = self.registered()[player.pid][2]
            until(lambda before=before: self.registered()[player.pid][2] > before, f"{player.pid} beats")  # type: ignore[misc]

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=PATIENCE)
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()

    def check_integrity(self) -> None:
        assert self.query("PRAGMA integrity_check") == [("ok",)]


def _process_state(pid: int) -> str:
    """One letter, as in `ps`."""
    listed = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()[:1]
