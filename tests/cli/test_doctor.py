"""`doctor` tells what is well, what is not, and what to do; and changes nothing."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.cli import doctor
from tests.cli.conftest import Answer, Run

URL = ("--url", "sqlite:///jobs.db")


def checks(answer: Answer) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in answer.json["checks"]}


def test_a_healthy_database(cli: Run) -> None:
    cli("migrate", *URL)
    answer = cli("doctor", *URL, "--deep", "--json")
    assert answer.code == 0
    assert answer.json["ok"] is True
    assert set(answer.json) == {"ok", "at", "path", "checks", "counts", "oldest_ready", "workers"}
    found = checks(answer)
    assert {found[name]["status"] for name in ("file", "place", "mode", "log", "schema", "jobs", "workers", "integrity")} == {
        "ok"
    }


@pytest.mark.parametrize(("version", "status"), [((3, 51, 2), "warning"), ((3, 51, 3), "ok"), ((3, 40, 1), "warning")])
def test_an_old_sqlite_is_a_warning(cli: Run, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], status: str) -> None:
    cli("migrate", *URL)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    answer = cli("doctor", *URL, "--json")
    assert (answer.code, checks(answer)["sqlite"]["status"]) == (0, status)


def test_work_without_workers_is_a_warning(cli: Run) -> None:
    id = cli("enqueue", "tasks", "add", "first=1", "--json").json["id"]
    answer = cli("doctor", *URL, "--json")
    assert (answer.code, answer.json["oldest_ready"], answer.json["counts"]) == (0, id, {"ready": 1})
    assert checks(answer)["workers"]["status"] == "warning"
    assert "start one: holdfast worker" in cli("doctor", *URL).out


def test_a_job_that_nobody_takes_is_a_warning(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    id = cli("enqueue", "tasks", "add", "first=1", "--json").json["id"]
    assert "stalled" not in checks(cli("doctor", *URL, "--json"))
    monkeypatch.setattr(doctor, "LATE_SECONDS", -1.0)
    stalled = checks(cli("doctor", *URL, "--json"))["stalled"]
    assert stalled["status"] == "warning"
    assert id in stalled["detail"]
    assert "no living worker serves queue default" in stalled["detail"]


def test_workers_and_their_last_beat(cli: Run, app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("enqueue", "tasks", "add", "first=1")
    assert app.claim(worker="by\x1bhand") is not None
    [worker] = cli("doctor", *URL, "--json").json["workers"]
    assert (worker["name"], worker["by_hand"], worker["running"], worker["silent"]) == ("by\x1bhand", True, 1, False)
    assert worker["pid"] == os.getpid()
    assert "by\\x1bhand (by hand)" in cli("doctor", *URL).out


def test_open_modes_are_a_warning(cli: Run, here: Path) -> None:
    cli("migrate", *URL)
    os.chmod(here / "jobs.db", 0o644)
    assert checks(cli("doctor", *URL, "--json"))["mode"]["detail"] == "jobs.db is 0644, others can reach its jobs; chmod 600 it"


def test_a_large_log_is_a_warning(cli: Run, monkeypatch: pytest.MonkeyPatch, app: Holdfast) -> None:
    cli("enqueue", "tasks", "add", "first=1")
    app.jobs()  # an open connection keeps the log
    cli("enqueue", "tasks", "add", "first=1")
    monkeypatch.setattr(doctor, "WAL_BYTES_MAX", 10)
    assert checks(cli("doctor", *URL, "--json"))["log"]["status"] == "warning"


def test_an_empty_file_is_not_migrated(cli: Run, here: Path) -> None:
    (here / "jobs.db").touch(0o600)
    answer = cli("doctor", *URL, "--json")
    assert answer.code == 1
    assert "run: holdfast migrate" in checks(answer)["schema"]["detail"]
    assert answer.json["counts"] is None
    assert (here / "jobs.db").stat().st_size == 0


def test_damage_is_found_by_looking_deep(cli: Run, here: Path, app: Holdfast) -> None:
    for _ in range(3):
        cli("enqueue", "tasks", "add", "first=1")
    app.close()
    data = bytearray((here / "jobs.db").read_bytes())
    page = 4096
    for start in range(3 * page, len(data), page):
        data[start : start + 64] = b"\xff" * 64
    (here / "jobs.db").write_bytes(data)
    answer = cli("doctor", *URL, "--deep")
    assert answer.code == 1
    assert "Traceback" not in answer.err


def test_a_file_that_is_no_database_fails(cli: Run, here: Path) -> None:
    (here / "jobs.db").write_text("not a database, but long enough to look like one" * 50)
    answer = cli("doctor", *URL, "--json")
    assert answer.code == 1
    assert checks(answer)["schema"]["status"] == "failed"
