"""Where it plays: a temporary directory, a database in it, worker processes that can be killed, and a page to watch it all."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Final

from holdfast.demo import ledger

LEASE_SECONDS: Final = 2.0
CONCURRENCY: Final = 2
STOP_SECONDS: Final = 10.0
PAGE: Final = "page"
_COMMAND: Final = ("worker", "holdfast.demo.tasks:app", "--lease", f"{LEASE_SECONDS:g}s", "-c", str(CONCURRENCY))


class Stage:
    """All that the demo leaves behind is in `directory`; no worker outlives it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
        self.url = f"sqlite:///{self.directory / 'demo.db'}"
        self.ledger = self.directory / "ledger.jsonl"
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.killed: set[str] = set()
        self.token = f"demo-{secrets.token_urlsafe(24)}"
        self.page_url: str | None = None
        self._page: subprocess.Popen[bytes] | None = None

    def start_worker(self, name: str) -> None:
        self.workers[name] = self._start(name, "holdfast", *_COMMAND, "--name", name)

    def start_page(self) -> None:
        """Its address answers from now on: a request waits until the page runs. Without the extra there is none."""
        if any(find_spec(name) is None for name in ("fastapi", "uvicorn")):
            return
        with socket.create_server(("127.0.0.1", 0)) as bound:
            descriptor = bound.fileno()
            self._page = self._start(PAGE, "holdfast.demo.page", str(descriptor), pass_fds=(descriptor,))
            self.page_url = f"http://127.0.0.1:{bound.getsockname()[1]}/?token={self.token}"

    def _start(self, name: str, module: str, *arguments: str, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env=self._environment(name),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=pass_fds,
                start_new_session=True,  # Ctrl-C is for the demo, which then stops them all
            )

    def kill_worker(self, name: str) -> None:
        """As the kernel does when memory runs out: no warning, no clean-up."""
        self.workers[name].send_signal(signal.SIGKILL)
        self.workers[name].wait()
        self.killed.add(name)

    def stop_workers(self) -> None:
        _stop(*self.workers.values())

    def stop(self) -> None:
        """Everything."""
        _stop(*self.workers.values(), *([self._page] if self._page else []))

    def died(self) -> str | None:
        """The name of a worker that ended although the demo did not kill it."""
        return next(
            (name for name, worker in self.workers.items() if name not in self.killed and worker.poll() is not None), None
        )

    def remove(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)

    def _environment(self, name: str) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
        page = {"HOLDFAST_WEB_TOKEN": self.token}
        return {**kept, **page, "HOLDFAST_URL": self.url, ledger.LEDGER_VARIABLE: str(self.ledger), ledger.WORKER_VARIABLE: name}

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()


def _stop(*processes: subprocess.Popen[bytes]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
