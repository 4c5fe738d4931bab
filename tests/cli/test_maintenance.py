"""`migrate` and `prune`."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import Run, assert_one_line

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
    assert cli("prune", "--older-than", "0s", *URL, "--json").json == {"pruned": 1}
    assert cli("jobs", *URL, "--json").json == []


@pytest.mark.parametrize(("flags", "words"), [((), ("--older-than",)), (("--older-than", "ages"), ("'ages' is not a duration",))])
def test_prune_needs_an_age(cli: Run, flags: tuple[str, ...], words: tuple[str, ...]) -> None:
    cli("migrate", *URL)
    assert_one_line(cli("prune", *flags, *URL), 2, *words)
