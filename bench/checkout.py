"""Which checkout a child process measures: this one, or the one of `--against`.

`bench` is always this checkout's. `holdfast` comes from the `src` of the entry's checkout, and each child proves that it does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def is_checkout(directory: Path) -> bool:
    return (directory / "src" / "holdfast" / "__init__.py").is_file()


def environment(checkout: Path) -> dict[str, str]:
    """The checkout's source comes before everything else, an editable install too."""
    paths = [str(checkout / "src"), os.environ.get("PYTHONPATH")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def prove(checkout: Path) -> None:
    """End the process unless its holdfast is the checkout's; a rival's process has none."""
    imported = sys.modules.get("holdfast")
    if imported is None:
        return
    found, expected = Path(imported.__file__ or "").resolve(), (checkout / "src").resolve()
    if not found.is_relative_to(expected):
        raise SystemExit(f"holdfast was imported from {found}, which is not under {expected}")


def revision(checkout: Path) -> str:
    """The commit, marked if there are changes on top of it."""
    if not (checkout / ".git").exists():
        return "no git"
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "git cannot tell"
