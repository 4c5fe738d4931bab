"""`migrate` and `prune`."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Run, assert_one_line, on_terminal

URL = ("--url", "sqlite:///jobs.db")


def schema_of(path: Path) -> list[tuple[str, str]]:
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()
    finally:
        connection.close()


def test_migrate_creates_a_private_file_once(cli: Run, here: Path) -> None:
    first, again = cli("migrate", *URL, "--json").json, cli("migrate", *URL, "--json").json
    assert first["applied"]
    assert (again["applied"], again["version"]) == ([], first["version"])
    assert os.stat(here / "jobs.db").st_mode & 0o777 == 0o600
    assert "nothing to do" in cli("migrate", *URL).out


def test_the_printed_sql_does_the_same(cli: Run, here: Path) -> None:
    script = cli("migrate", *URL, "--print").out
    assert not (here / "jobs.db").exists()
    connection = sqlite3.connect(here / "by_hand.db", isolation_level=None)
    connection.executescript(script)
    connection.close()
    cli("migrate", *URL)
    assert schema_of(here / "by_hand.db") == schema_of(here / "jobs.db")
    assert cli("migrate", "--url", "sqlite:///by_hand.db", "--json").json["applied"] == []
    assert cli("migrate", *URL, "--print").out == "-- nothing to do\n"


def test_prune_counts_what_it_removes(drained: Run, cli: Run) -> None:
    drained("add", "first=1")
    assert cli("prune", "--older-than", "7d", *URL).out == "0 jobs removed\n"
    assert cli("prune", "--older-than", "0s", "--yes", *URL, "--json").json == {"pruned": 1, "dry_run": False, "count": 1}
    assert cli("jobs", *URL, "--json").json == []


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), ("--older-than",)),
        (("--older-than", "ages"), ("'ages' is not a duration",)),
        (("--older-than", "7"), ("'7' has no unit", "7d", "7s")),
        (("--older-than", " 7.5 "), ("has no unit", "7.5d")),
    ],
)
def test_f7_prune_needs_an_age_with_its_unit(cli: Run, drained: Run, flags: tuple[str, ...], words: tuple[str, ...]) -> None:
    drained("add", "first=1")
    assert_one_line(cli("prune", *flags, "--yes", *URL), 2, *words)
    assert len(cli("jobs", *URL, "--json").json) == 1


def test_f7_prune_removes_nothing_before_it_was_confirmed(drained: Run, cli: Run, here: Path) -> None:
    drained("add", "first=1")
    assert_one_line(cli("prune", "--older-than", "0s", *URL), 2, f"1 job of {here}/jobs.db", "--yes", "--dry-run")
    assert cli("prune", "--older-than", "0s", "--dry-run", "--yes", *URL).out == (
        f"1 job of {here}/jobs.db ended more than 0s ago and would be removed\n"
    )
    assert len(cli("jobs", *URL, "--json").json) == 1


@pytest.mark.parametrize(("typed", "left"), [("n\n", 1), ("\n", 1), ("\x03", 1), ("y\n", 0)])
def test_f7_prune_asks_on_a_terminal(drained: Run, cli: Run, here: Path, typed: str, left: int) -> None:
    drained("add", "first=1")
    code, shown = on_terminal(["prune", "--older-than", "0s", *URL], here, {"[y/N]": typed})
    assert f"Remove 1 job of {here}/jobs.db that ended more than 0s ago? [y/N]" in shown
    assert code == {"\x03": 130}.get(typed, 0)
    assert len(cli("jobs", *URL, "--json").json) == left
