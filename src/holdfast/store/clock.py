"""Two clocks: the wall clock, for people and schedules, and one that cannot be set, for leases.

A lease must not end because somebody set the clock, and must end if the machine slept through it. The tick
starts again at every boot, and differs between time namespaces: a stored tick means something only beside the name of both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Final, Protocol

_BOOT_ID_LINUX: Final = Path("/proc/sys/kernel/random/boot_id")
_BOOT_ID_MAC: Final = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
_TIME_NAMESPACE: Final = "/proc/self/ns/time"
_TICK_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    def now(self) -> int:
        """Wall time, in microseconds since 1970."""

    def tick(self) -> int:
        """Microseconds since some moment before now; moved by nothing but time, suspend included."""

    def boot(self) -> str:
        """Names the boot that `tick` counts in; empty where the system has no such name."""


class SystemClock:
    """The machine's own clocks."""

    __slots__ = ()

    def now(self) -> int:
        return time.time_ns() // 1000

    def tick(self) -> int:
        return time.clock_gettime_ns(_TICK_CLOCK) // 1000

    def boot(self) -> str:
        return _boot_id(sys.platform)


@cache
def _boot_id(platform: str) -> str:
    try:
        if platform == "darwin":
            answer = subprocess.run(_BOOT_ID_MAC, capture_output=True, text=True, timeout=5, check=True)
            return answer.stdout.strip()
        return f"{_linux_boot_id()} {_time_namespace()}".strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _linux_boot_id() -> str:
    try:
        return _BOOT_ID_LINUX.read_text("ascii").strip()
    except OSError:
        return ""  # a sandbox


def _time_namespace() -> str:
    """Ticks of two namespaces count from two moments."""
    try:
        return os.readlink(_TIME_NAMESPACE)
    except OSError:
        return ""
