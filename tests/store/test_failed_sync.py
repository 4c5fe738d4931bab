"""A sync that fails refuses the commit that asked for it, and is not tried again on its connection."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys
from holdfast import Holdfast, StoreUnavailable

app = Holdfast(sys.argv[1])

@app.task(name="t")
def t(n: int) -> None: ...

t.enqueue(0)
os.write(2, b"begin\\n")
for n in range(1, 5):
    before = app.store._writer
    try:
        t.enqueue(n)
        said = "acknowledged" if app.store._writer is before else "acknowledged on a new connection"
    except StoreUnavailable as error:
        said = f"refused: {error}"
    os.write(2, f"job {n} {said}\\n".encode())
os.write(2, b"end\\n")
os._exit(0)
"""


def traced(folder: Path, *inject: str) -> list[str]:
    """What the program says between its first job and its end, with its syncs where they came."""
    folder.mkdir()
    strace = ["strace", "-f", "-qq", "-e", "trace=fdatasync", *inject]
    command = [*strace, sys.executable, "-c", PROGRAM, f"sqlite:///{folder / 'jobs.db'}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if "ptrace" in ended.stderr:
        pytest.skip("strace may not trace here")
    return [line for line in ended.stderr.splitlines() if "fdatasync(" in line or re.match(r"(begin|job|end)\b", line)]


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace, to let a sync fail")
def test_l1_a_failed_sync_refuses_its_job_and_is_not_tried_again_on_its_connection(tmp_path: Path) -> None:
    whole = traced(tmp_path / "whole")
    before = sum("fdatasync(" in line for line in whole[: whole.index("begin")])
    lines = traced(tmp_path / "failing", "-e", f"inject=fdatasync:error=EIO:when={before + 2}")
    failed = next(number for number, line in enumerate(lines) if "INJECTED" in line)
    refused = next(line for line in lines[failed:] if line.startswith("job "))  # before it, closing the connection may sync
    assert refused.startswith("job 2 refused:")
    assert "SQLITE_IOERR_FSYNC" in refused
    said = [line for line in lines if line.startswith("job ")]
    assert said[0] == "job 1 acknowledged"
    assert said[2:] == ["job 3 acknowledged on a new connection", "job 4 acknowledged"]
