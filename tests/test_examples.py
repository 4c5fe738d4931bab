"""Every example runs, from an empty directory, and says what its file promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

EXAMPLES = Path(__file__).parents[1] / "examples"
SOURCES = Path(holdfast.__file__).parents[1]

SAID = {
    "quickstart.py": [
        r"enqueued 3 jobs",
        r"succeeded 1 Hello, Ada!",
        r"(scheduled 1 ConnectionError: the line is busy|succeeded 2 Hello, Grace!)",
        r"succeeded 1 Hello, Barbara!",
        r"(all done|1 will be tried again: ConnectionError: the line is busy)",
    ],
    "in_your_transaction.py": [
        r"rolled back: the card was declined",
        r"2 orders, 2 invoices, \{'in_your_transaction.send_invoice': \{'succeeded': 2\}\}",
    ],
    "by_hand.py": [
        r"urgent.tiff: succeeded",
        r"a.tiff: succeeded",
        r"notes.txt: skipped \(not a scan\)",
        r"broken.tiff: failed \(Fatal: cannot be read\)",
        r"locked.tiff: scheduled \(PermissionError: somebody has it open\)",
        r"\{'by_hand.read_scan': \{.*\}\}",
    ],
    "async_app.py": [
        r"the same job: True, created: False",
        *(rf"  \d+: {word}" for word in ("Durable", "jobs", "in", "the", "database", "you", "already", "have")),
        r"succeeded: Durable jobs in …",
    ],
    "gpu_backfill.py": [
        r"4 talks, 3 of them new",
        r"1 talks, 1 of them new",
        r"keynote: succeeded s3://transcripts/keynote.txt",
        r"panel: succeeded s3://transcripts/panel.txt",
        r"silence: skipped nothing to hear",
        r"filing: succeeded s3://transcripts/filing.txt",
        r"\{'gpu_backfill.transcribe': \{.*\}\}",
    ],
}


def run(name: str, where: Path) -> list[str]:
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=where,
        env={**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONIOENCODING": "utf-8"},
    )
    assert ended.returncode == 0, ended.stderr
    assert [
        line for line in ended.stderr.splitlines() if "the line is busy" not in line
    ] == []  # what quickstart shows on purpose
    return ended.stdout.splitlines()


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAID)


@pytest.mark.parametrize("name", SAID)
def test_it_says_what_it_should(name: str, tmp_path: Path) -> None:
    said = run(name, tmp_path)
    assert len(said) == len(SAID[name]), said
    for line, pattern in zip(said, SAID[name], strict=True):
        assert re.fullmatch(pattern, line), (line, pattern)


@pytest.mark.parametrize("name", SAID)
def test_it_can_be_run_again_on_what_it_left(name: str, tmp_path: Path) -> None:
    run(name, tmp_path)
    assert run(name, tmp_path)
