"""The fork server: a process with all modules imported and nothing open, which forks the workers and enqueuers of a run.

A fresh interpreter for every kill would cost more than the kill. The server has one thread and no database connection, so a
fork of it is a clean start. The server alone waits for its children, so the pid of a signal cannot belong to another process.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

Program = Callable[[random.Random, str, int], None]
"""The main function of a child: its own random numbers (from seed, name and life), its name, and its life (1, 2, …)."""


class ForkServer:
    """The parent's end: one line of JSON per command, one per answer."""

    def __init__(self, module: str, logs: str, seed: int, variables: dict[str, str]) -> None:
        """`module` calls `serve` when it is run with -m."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, logs, str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | variables,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands, self._answers = self._process.stdin, self._process.stdout

    def start(self, role: str, name: str, life: int) -> int:
        return int(self._call("start", role, name, life))

    def signal(self, pid: int, number: int) -> bool:
        """False if the process has already ended."""
        return bool(self._call("signal", pid, number))

    def ended(self) -> dict[int, int]:
        """The processes that ended since the last call: pid to exit code, or to minus the signal."""
        return dict(self._call("ended"))

    def close(self) -> None:
        """Every child that still runs is killed."""
        self._commands.close()
        self._process.wait(30)
        self._answers.close()

    def _call(self, *command: Any) -> Any:
        self._commands.write(msgspec.json.encode(command) + b"\n")
        self._commands.flush()
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError("the fork server has ended; see its output above")
        return msgspec.json.decode(answer)


def serve(programs: dict[str, Program]) -> None:
    """The server's end, until its input is closed. Arguments of the command line: the directory for logs, and the seed."""
    children = Children(programs, sys.argv[1], int(sys.argv[2]))
    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        verb, *arguments = msgspec.json.decode(line)
        answer = getattr(children, verb)(*arguments)
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()
    children.kill_all()


class Children:
    def __init__(self, programs: dict[str, Program], logs: str, seed: int) -> None:
        self._programs, self._logs, self._seed = programs, logs, seed
        self._alive: set[int] = set()
        self._ended: list[tuple[int, int]] = []

    def start(self, role: str, name: str, life: int) -> int:
        def run() -> None:
            _redirect(os.path.join(self._logs, f"{name}.log"))
            self._programs[role](random.Random(f"{self._seed}/{name}/{life}"), name, life)

        pid = in_child(run)
        self._alive.add(pid)
        return pid

    def signal(self, pid: int, number: int) -> bool:
        self._reap()
        if pid not in self._alive:
            return False
        os.kill(pid, number)
        return True

    def ended(self) -> list[tuple[int, int]]:
        self._reap()
        ended, self._ended = self._ended, []
        return ended

    def _reap(self) -> None:
        while self._alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._alive.discard(pid)
            self._ended.append((pid, os.waitstatus_to_exitcode(status)))

    def kill_all(self) -> None:
        for pid in self._alive:
            os.kill(pid, signal.SIGKILL)
        for pid in self._alive:
            os.waitpid(pid, 0)


def in_child(run: Callable[[], None]) -> int:
    """Fork; the pid of the child, which runs this and ends."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        run()
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _redirect(log: str) -> None:
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, descriptor in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, descriptor)
