"""The program as a whole: help, environment variables, pipes, and what happens without its extra."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import typer

import holdfast
from holdfast.cli import demo_torture
from holdfast.cli.program import app
from tests.cli.conftest import Run, assert_one_line, environment, start

COMMANDS = [
    "worker",
    "enqueue",
    "jobs",
    "show",
    "explain",
    "tail",
    "cancel",
    "retry",
    "skip",
    "queues",
    "pause",
    "resume",
    "stats",
    "meters",
    "doctor",
    "migrate",
    "prune",
    "demo",
    "torture",
]


def test_help_lists_every_command(cli: Run) -> None:
    for arguments in ([], ["--help"]):
        answer = cli(*arguments)
        assert (answer.code, answer.err) == (0, "")
        assert all(f"\n  {command} " in answer.out for command in COMMANDS)
    assert cli("--version").out == f"holdfast {holdfast.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_names_its_environment_variable(cli: Run, command: str) -> None:
    group: Any = typer.main.get_command(app)
    flags = [p for p in group.commands[command].params if p.param_type_name == "option" and p.name != "help"]
    text = cli(command, "--help").out
    assert text.count("HOLDFAST_") == len(flags)
    assert "\x1b" not in text


def test_an_unknown_command_or_flag_is_one_line(cli: Run) -> None:
    assert_one_line(cli("wrker"), 2, "no such command 'wrker'", "holdfast --help")
    assert_one_line(cli("stats", "--nope"), 2, "--nope", "holdfast stats --help")
    assert_one_line(cli("show"), 2, "ID", "holdfast show --help")


@pytest.mark.parametrize(
    ("arguments", "spared"),
    [
        (["--version"], {"typer", "rich", "fastapi", "psycopg"}),
        (["jobs", "-a", "tasks"], {"fastapi", "starlette", "uvicorn", "psycopg", "watchfiles"}),
    ],
)
def test_f32_a_command_imports_no_library_that_it_does_not_need(
    cli: Run, here: Path, arguments: list[str], spared: set[str]
) -> None:
    cli("migrate", "-a", "tasks")
    script = "import sys; from holdfast.cli import main\ntry: main()\nexcept SystemExit: pass\nprint(*sys.modules)"
    command = [sys.executable, "-c", script, *arguments]
    ended = subprocess.run(command, cwd=here, env=environment(), capture_output=True, text=True, timeout=60, check=True)
    assert not spared & set(ended.stdout.splitlines()[-1].split())


def test_f30_a_suggestion_reads_as_a_sentence(cli: Run) -> None:
    answer = cli("job")
    assert_one_line(answer, 2, "no such command 'job'; did you mean", "? See: holdfast --help")
    assert "?;" not in answer.err


def test_f30_queues_are_listed(cli: Run) -> None:
    cli("enqueue", "tasks", "add", "first=1", "--queue", "mail")
    assert [line.split()[:2] for line in cli("queues", "-a", "tasks").lines] == [["QUEUE", "DEPTH"], ["mail", "1"]]


def test_an_unexpected_error_is_one_line_too(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("a\nbug")

    cli("migrate", "-a", "tasks")
    monkeypatch.setattr("holdfast.client.Client.stats", fail)
    assert_one_line(cli("stats", "-a", "tasks"), 1, "unexpected KeyError", "--traceback")
    assert "in fail" in cli("stats", "-a", "tasks", "--traceback").err


def test_a_pipe_that_is_closed_early_is_no_error(cli: Run, here: Path) -> None:
    for _ in range(3):
        cli("enqueue", "tasks", "add", "first=1")
    code = "import sys; from holdfast.cli.program import run; sys.stdin.readline(); sys.exit(run(sys.argv[1:]))"
    with subprocess.Popen(
        [sys.executable, "-c", code, "jobs", "--app", "tasks", "--json"],
        cwd=here,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write("\n")
        process.stdin.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


def test_a_terminal_without_unicode_gets_escapes(cli: Run, here: Path) -> None:
    cli("enqueue", "tasks", "greet", "name=grün", "--id", "greeting")
    with start("show", "greeting", "--app", "tasks", here=here, PYTHONIOENCODING="ascii") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "gr\\xfcn" in out


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_it_says_what_to_install(here: Path, missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\nfrom holdfast.cli import main\nmain()"
    answer = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stderr == "holdfast: the command line is an extra; install it with: pip install 'holdfast[cli]'\n"


def test_torture_passes_its_flags_on(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def run(**flags: Any) -> int:
        given.update(flags)
        return 1

    monkeypatch.setattr(demo_torture, "_package", lambda name: types.SimpleNamespace(run=run))
    assert cli("torture", "--kills", "5", "--seed", "3", "--workers", "2", "--dir", "d", "--json").code == 1
    flags = {"minutes": None, "kills": 5, "seed": 3, "workers": 2, "enqueuers": None, "directory": "d", "json": True}
    assert given == {**flags, "url": None}


@pytest.mark.parametrize(("option", "value"), [("--on", "oracle"), ("--chaos", "restart"), ("--times", "3")])
def test_torture_has_no_option_of_another_program(cli: Run, option: str, value: str) -> None:
    assert_one_line(cli("torture", option, value), 2, option)


def test_a_part_that_is_not_installed_is_one_line(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(importlib, "import_module", fail)
    assert_one_line(cli("torture"), 1, "no holdfast.torture")
