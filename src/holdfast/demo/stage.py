"""Where it plays: a temporary directory, a database in it, and worker processes that can be killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final

from holdfast.demo import ledger

LEASE_SECONDS: Final = 2.0
CONCURRENCY: Final = 2
STOP_SECONDS: Final = 10.0
_COMMAND: Final = ("worker", "holdfast.demo.tasks:app", "--lease", f"{LEASE_SECONDS:g}s", "-c", str(CONCURRENCY))


class Stage:
    """All that the demo leaves behind is in `directory`; no worker outlives it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
        self.url = f"sqlite:///{self.directory / 'demo.db'}"
        self.ledger = self.directory / "ledger.jsonl"
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: set[str] = set()

    def start_worker(self, name: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as output:
            self.workers[name] = subprocess.Popen(
                [sys.executable, "-m", "holdfast", *_COMMAND, "--name", name],
                env=self._environment(name),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the demo, which then stops its workers
            )

    def kill_worker(self, name: str) -> None:
        """As the kernel does when memory runs out: no warning, no clean-up."""
        self.workers[name].send_signal(signal.SIGKILL)
        self.workers[name].wait()
        self.killed.add(name)

    def stop_workers(self) -> None:
        for worker in self.workers.values():
            worker.terminate()
        for worker in self.workers.values():
            try:
                worker.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def died(self) -> str | None:
        """The name of a worker that ended although nobody killed it."""
        return next(
            (name for name, worker in self.workers.items() if name not in self.killed and worker.poll() is not None), None
        )

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _environment(self, name: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
        return {**kept, "HOLDFAST_URL": self.url, ledger.LEDGER_VARIABLE: str(self.ledger), ledger.WORKER_VARIABLE: name}

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop_workers()
