"""The fleet: the worker and enqueuer processes of a run. A process that has ended is started again in its slot."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.torture.forks import ForkServer
from holdfast.torture.ledgers import DIRECTORY_VARIABLE, Ledger

LEASES_SECONDS: Final = (0.5, 0.7, 1.0)
"""Of the workers: short, so that a job that was cut off is started again within seconds."""
STALL_SECONDS: Final = 60.0
"""How long a drain may last without a single job that ends."""
TERMINATE_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 0.05
OPEN_JOBS: Final = """
SELECT (SELECT count(*) FROM holdfast_ready) + (SELECT count(*) FROM holdfast_scheduled) + (SELECT count(*) FROM holdfast_running)
"""
"""One statement: with several, a job that moves in between would be counted twice or not at all."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What every run has. All random numbers come from the seed; only the timing of the machine does not."""

    seed: int
    workers: int
    enqueuers: int
    directory: str

    @property
    def ledgers(self) -> str:
        return os.path.join(self.directory, "ledgers")

    @property
    def logs(self) -> str:
        return os.path.join(self.directory, "logs")


class Slot(msgspec.Struct):
    role: str
    name: str
    life: int = 0
    pid: int | None = None
    killed: bool = False


class Fleet:
    def __init__(self, plan: Plan, url: str, module: str, poison: bool = False) -> None:
        """`module` is the load, see `forks`; with `poison` it has jobs that kill their worker."""
        self.slots = [Slot("worker", f"worker-{n}") for n in range(plan.workers)]
        self.slots += [Slot("enqueuer", f"enqueuer-{n}") for n in range(plan.enqueuers)]
        self.kills = {"worker": 0, "enqueuer": 0}
        self.killed_by_jobs = 0
        self.drain_seconds = 0.0
        self.surprises: list[str] = []
        self._poison = poison
        self._ledger = Ledger(plan.ledgers)
        self._forks = ForkServer(module, plan.logs, plan.seed, {"HOLDFAST_URL": url, DIRECTORY_VARIABLE: plan.ledgers})

    def fill(self) -> None:
        """Start a process in every slot whose process has ended. An end that is not our SIGKILL is a surprise."""
        ended = self._forks.ended()
        for slot in self.slots:
            if slot.pid in ended:
                self._bury(slot, ended[slot.pid])
            if slot.pid is None:
                slot.life += 1
                slot.pid, slot.killed = self._forks.start(slot.role, slot.name, slot.life), False

    def _bury(self, slot: Slot, code: int) -> None:
        if code == -signal.SIGKILL and self._poison and not slot.killed and slot.role == "worker":
            self.killed_by_jobs += 1
        elif not (code == -signal.SIGKILL and slot.killed):
            how = f"with exit code {code}" if code >= 0 else f"by signal {-code}"
            self.surprises.append(f"{slot.name} ended by itself, {how}; see logs/{slot.name}.log")
        slot.pid = None

    def signal(self, slot: Slot, number: int) -> bool:
        """False if there is no such process any more."""
        return slot.pid is not None and self._forks.signal(slot.pid, number)

    def kill(self, slot: Slot) -> None:
        if not slot.killed and self.signal(slot, signal.SIGKILL):
            slot.killed = True
            self._ledger.write("kill", ids=[str(slot.pid)])
            self.kills[slot.role] += 1

    def wait_for_children(self) -> None:
        """After the last kill: children of killed enqueuers may still enqueue, and none of them may hang."""
        deadline = time.monotonic() + STALL_SECONDS
        while self._ledger.is_held():
            if time.monotonic() > deadline:
                self.surprises.append(f"a forked child had not ended {STALL_SECONDS:g} s after its parent")
                return
            time.sleep(LOOK_SECONDS)

    def drain(self, slots: list[Slot], open_jobs: Callable[[], int], progress: Callable[[], None] | None = None) -> None:
        """The workers of these slots run until no job is open; then SIGTERM ends them. All others were killed before."""
        self.slots = slots
        began = moved = time.monotonic()
        left = open_jobs()
        while left:
            self.fill()
            time.sleep(LOOK_SECONDS)
            now, before, left = time.monotonic(), left, open_jobs()
            moved = now if left != before else moved
            if now - moved > STALL_SECONDS:
                self.surprises.append(f"{left} jobs were still open after {STALL_SECONDS:g} s in which none ended")
                break
            if progress is not None:
                progress()
        self.drain_seconds = time.monotonic() - began
        self._terminate()

    def _terminate(self) -> None:
        """An idle worker ends at once after SIGTERM, with exit code 0."""
        for slot in self.slots:
            self.signal(slot, signal.SIGTERM)
        running = {slot.pid: slot for slot in self.slots if slot.pid is not None}
        deadline = time.monotonic() + TERMINATE_SECONDS
        while running and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            for pid, code in self._forks.ended().items():
                ended = running.pop(pid, None)
                if ended is not None and code != 0:
                    self._bury(ended, code)
        self.surprises += [f"{slot.name} did not end within {TERMINATE_SECONDS:g} s of SIGTERM" for slot in running.values()]

    def close(self) -> None:
        """Every process that is left is killed."""
        self._forks.close()
