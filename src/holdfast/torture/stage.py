"""The stage: where workers and enqueuers are started and struck, seen from the process that directs the run."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import msgspec

from holdfast.torture.ledger import DIRECTORY_VARIABLE
from holdfast.torture.plan import Plan


class Stage:
    """Orders to the process that forks them; see `forks`."""

    def __init__(self, plan: Plan, url: str) -> None:
        variables = {"HOLDFAST_URL": url, DIRECTORY_VARIABLE: plan.ledgers}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "holdfast.torture.forks", plan.logs, str(plan.seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | variables,
            start_new_session=True,
        )

    def start(self, role: str, name: str, life: int) -> int:
        return int(self._ask("start", role, name, life))

    def signal(self, pid: int, number: int) -> bool:
        """False: it has ended already."""
        return bool(self._ask("signal", pid, number))

    def ended(self) -> list[tuple[int, int]]:
        """Who has ended since the last time: (pid, exit code, or minus the signal)."""
        return [(pid, code) for pid, code in self._ask("ended")]

    def close(self) -> None:
        """Whoever is left is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _ask(self, *command: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(command) + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError("the process that starts workers and enqueuers has ended; see its output above")
        return msgspec.json.decode(answer)
