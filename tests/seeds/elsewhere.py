"""Another process, for what must hold between processes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec

PRELUDE = """
import os, sys, json
from holdfast import *
app = Holdfast(sys.argv[1])
def answer(value):
    print(json.dumps(value), flush=True)
"""


def run_there(url: str, script: str, *, exit_code: int = 0) -> list[Any]:
    """Runs a script on the database in a new process; what it answered, line by line."""
    ended = subprocess.run([sys.executable, "-c", PRELUDE + script, url], capture_output=True, text=True, timeout=60)
    assert ended.returncode == exit_code, ended.stderr
    return [msgspec.json.decode(line) for line in ended.stdout.splitlines()]


DIES_WITH_A_JOB = """
lease = app.claim(worker="ocr-1", seconds=float(sys.argv[2]) if len(sys.argv) > 2 else 0.001)
answer([lease.job.id, os.getpid()])
os._exit(9)
"""
"""Claims a job for a moment and is gone, as under kill -9: nothing of it is cleaned up."""
