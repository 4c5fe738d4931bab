"""A small process that has imported everything and opened nothing, and forks workers and enqueuers.

A fresh interpreter for every kill would cost more than the kill. It has one thread and no database, so that a fork of it is
a clean start; it alone waits for its children, so that a process number it signals cannot be somebody else's.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback

import msgspec

from holdfast.torture.ask import ask
from holdfast.torture.steady import ask_on, work_on
from holdfast.torture.work import work


class Children:
    def __init__(self, logs: str, seed: int) -> None:
        self._programs = {"worker": work, "enqueuer": ask, "steady worker": work_on, "steady enqueuer": ask_on}
        self._logs, self._seed = logs, seed
        self._alive: set[int] = set()
        self._ended: list[tuple[int, int]] = []

    def start(self, role: str, name: str, life: int) -> int:
        pid = os.fork()
        if pid:
            self._alive.add(pid)
            return pid
        code = 1
        try:
            redirect(os.path.join(self._logs, f"{name}.log"))
            self._programs[role](self._seed, name, life)
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)

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


def redirect(log: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)


def main(logs: str, seed: int) -> None:
    children = Children(logs, seed)
    gc.collect()
    gc.freeze()
    for line in sys.stdin.buffer:
        verb, *arguments = msgspec.json.decode(line)
        answer = getattr(children, verb)(*arguments)
        sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
        sys.stdout.buffer.flush()
    children.kill_all()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
