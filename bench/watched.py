"""The processes of a run with watchers: how they are started and asked, and what the server among them holds and uses."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

from bench.checkout import ROOT
from bench.chorus import GAUGE
from bench.ground import Figures

START_SECONDS: Final = 60.0
TELL_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 900.0
SETTINGS: Final = {
    "HOLDFAST_WEB_AUTH": "off",
    "HOLDFAST_WEB_REQUESTS_PER_SECOND": "1000000",
    "HOLDFAST_WEB_STREAMS_PER_CALLER_MAX": "1000000",
}
TICK: Final = os.sysconf("SC_CLK_TCK")


class Program:
    """A process of ours; its complaints are in a file."""

    def __init__(self, directory: Path, url: str, *command: str, **variables: str) -> None:
        self._errors = directory / f"{command[0]}.log"
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                env={**os.environ, **SETTINGS, "HOLDFAST_URL": url, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,  # as services have: the system shares the processor between sessions
            )

    def ask(self, verb: str, **arguments: Any) -> Figures:
        assert self.process.stdin
        assert self.process.stdout
        print(json.dumps({"verb": verb, **arguments}), file=self.process.stdin, flush=True)
        heard, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        line = self.process.stdout.readline() if heard else ""
        if not line:
            raise RuntimeError(f"no answer to {verb}: {self.complaints[-1500:]}")
        figures: Figures = json.loads(line)
        return figures

    @property
    def complaints(self) -> str:
        return self._errors.read_text(errors="replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Watched(Program):
    """`holdfast serve`, and what it holds and uses."""

    def __init__(self, directory: Path, url: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._gauge = directory / "gauge"
        command = ("holdfast", "serve", "bench.chorus:app", "--port", str(self.port), "--log-level", "warning")
        super().__init__(directory, url, *command, **{GAUGE: str(self._gauge)})
        wait_until(self._serves, START_SECONDS, "it does not serve")

    def _serves(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(self.complaints[-1500:])
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def holds(self) -> Figures:
        self._gauge.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        wait_until(self._gauge.exists, TELL_SECONDS, "it does not tell what it holds")
        told: Figures = json.loads(self._gauge.read_text())
        return told | {"descriptors": len(os.listdir(f"/proc/{self.process.pid}/fd")), "mb": self.megabytes()}

    def megabytes(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    @contextmanager
    def used(self, figures: Figures, name: str) -> Iterator[None]:
        """CPU, as seconds and as a share of one core."""
        before, since = self.cpu_seconds(), monotonic()
        yield
        seconds = self.cpu_seconds() - before
        figures |= {f"{name}_cpu_seconds": seconds, f"{name}_cpu_percent": 100 * seconds / (monotonic() - since)}


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = monotonic() + seconds
    while not condition():
        if monotonic() > deadline:
            raise RuntimeError(f"{what}, within {seconds:g} s")
        sleep(0.02)
