"""What a process has used so far: processor seconds and its largest memory."""

from __future__ import annotations

import resource
from pathlib import Path

STATUS = Path("/proc/self/status")


def cpu_seconds() -> float:
    """User and system time of this process and of its children that have ended."""
    return sum(
        used.ru_utime + used.ru_stime for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def peak_megabytes() -> float:
    # ru_maxrss of a fresh child starts at its parent's size; VmHWM belongs to this program alone.
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
