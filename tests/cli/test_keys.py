"""`holdfast keys`: made once, listed, revoked; every mistake is one line."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
import typer

from holdfast import Holdfast
from holdfast.cli.program import app as program
from tests.cli.conftest import Run, assert_one_line

URL = ("--url", "sqlite:///jobs.db")
KEY = re.compile(r"hf_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


def test_a_key_is_printed_alone_so_that_it_can_be_kept_in_a_variable(cli: Run, app: Holdfast) -> None:
    app.migrate()
    answer = cli("keys", "add", "ci", "--scope", "operate", "-q", "a,b", "--expires", "90d", *URL)
    assert answer.code == 0
    assert KEY.fullmatch(answer.out.strip())
    assert re.fullmatch(r"A key with scope operate for queues a, b, until \S+ \S+ UTC\. It is shown this once\.\n", answer.err)
    [made] = app.keys()
    assert answer.out.startswith(f"hf_{made.prefix}_")
    assert (made.name, made.scope, made.queues) == ("ci", "operate", ("a", "b"))
    assert made.expires_at is not None
    assert cli("keys", "list", *URL, "--json").json[0]["prefix"] == made.prefix


def test_the_list_shows_what_can_still_be_used(cli: Run, app: Holdfast) -> None:
    app.migrate()
    assert cli("keys", "list", *URL).lines == ["No keys."]
    good, gone = (cli("keys", "add", name, *URL, "--json").json for name in ("good", "gone"))
    assert KEY.fullmatch(good["key"])
    assert cli("keys", "revoke", gone["key"], *URL).out == f"key {gone['prefix']} (gone) is revoked\n"
    lines = cli("keys", "list", *URL).lines
    assert lines[0].split() == ["PREFIX", "NAME", "SCOPE", "STATE", "QUEUES", "CREATED", "EXPIRES", "LAST", "USED"]
    assert [line.split()[:5] for line in lines[1:]] == [
        [good["prefix"], "good", "read", "good", "all"],
        [gone["prefix"], "gone", "read", "revoked", "all"],
    ]
    listed = cli("keys", "list", *URL, "--json").json
    assert [(key["state"], key["revoked_at"] is None) for key in listed] == [("good", True), ("revoked", False)]
    fields = {"prefix", "name", "scope", "state", "queues", "created_at", "expires_at", "last_used_at", "revoked_at"}
    assert set(listed[0]) == fields
    assert good["key"] not in str(listed) + "".join(lines)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add"], ("NAME",)),
        (["add", ""], ("name ''",)),
        (["add", "x", "--scope", "root"], ("scope 'root'", "read, operate, admin")),
        (["add", "x", "-q", "a b"], ("queue 'a b'",)),
        (["add", "x", "-q", "a,,b"], ("empty name",)),
        (["add", "x", "--expires", "90"], ("--expires '90' has no unit", "90d")),  # F7, as for prune
        (["add", "x", "--expires", "soon"], ("--expires 'soon'", "10m")),
        (["add", "x", "--expires", "2020-01-01T00:00Z"], ("is over already",)),
        (["revoke", "nope"], ("'nope'", "holdfast keys list")),
        (["revoke", "000000000000"], ("no API key '000000000000'",)),
        (["rvoke"], ("rvoke",)),
    ],
)
def test_a_mistake_is_one_line(cli: Run, app: Holdfast, arguments: list[str], words: tuple[str, ...]) -> None:
    app.migrate()
    assert_one_line(cli("keys", *arguments, *([] if arguments == ["rvoke"] else URL)), 2, *words)
    assert app.keys() == []


def test_a_database_that_is_not_there_is_not_made(cli: Run, here: Path) -> None:
    assert_one_line(cli("keys", "add", "x", *URL), 1, "there is no database", "holdfast migrate")
    assert not (here / "jobs.db").exists()


def test_help_names_every_command_and_variable(cli: Run) -> None:
    for arguments in (("keys",), ("keys", "--help")):
        answer = cli(*arguments)
        assert (answer.code, answer.err) == (0, "")
        assert all(f"\n  {command} " in answer.out for command in ("list", "add", "revoke"))
    group: Any = typer.main.get_command(program)
    for name, command in group.commands["keys"].commands.items():
        flags = [each for each in command.params if each.param_type_name == "option" and each.name != "help"]
        assert cli("keys", name, "--help").out.count("HOLDFAST_") == len(flags), name


def test_the_file_keeps_its_rights(cli: Run, app: Holdfast, here: Path) -> None:
    before = os.umask(0)
    try:
        app.migrate()
        assert cli("keys", "add", "x", *URL).code == 0
        files = [file for file in here.iterdir() if file.name.startswith("jobs.db")]
        assert files
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    finally:
        os.umask(before)


def test_a_name_cannot_move_the_cursor(cli: Run, app: Holdfast) -> None:
    app.migrate()
    assert_one_line(cli("keys", "add", "a\x1b[31mb", *URL), 2, "printable")
