"""MODULE:APP: found from the working directory, and every way of getting it wrong is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from tests.cli.conftest import Run, assert_one_line, start


@pytest.mark.parametrize("target", ["tasks", "tasks:app", "package.inner:jobs", "package.inner:holder.app"])
def test_found_from_the_working_directory(cli: Run, here: Path, target: str) -> None:
    (here / "package").mkdir()
    (here / "package" / "__init__.py").touch()
    holder = "class holder:\n    app = jobs\n"
    (here / "package" / "inner.py").write_text(
        "from holdfast import Holdfast\njobs = Holdfast('sqlite:///jobs.db')\n"
        f"@jobs.task(name='add')\ndef add(first): ...\n{holder}"
    )
    assert cli("enqueue", target, "add", "first=1").code == 0


@pytest.mark.parametrize(
    ("target", "content", "code", "words"),
    [
        ("missing", None, 2, ("there is no module 'missing'",)),
        ("mod.missing", "", 2, ("there is no module 'mod.missing'",)),
        ("mod.py", "", 2, ("did you mean mod:app?",)),
        ("./mod.py", "", 2, ("use MODULE:APP, for example mod:app",)),
        (":app", None, 2, ("does not name an app",)),
        ("mod", "x = 1", 2, ("'app' in module 'mod' is not there; the module has no Holdfast app",)),
        ("mod:other", "from holdfast import Holdfast\njobs = Holdfast()", 2, ("'other'", "the module has: mod:jobs")),
        ("mod", "app = 3", 2, ("is a int, not a Holdfast app",)),
        ("mod", "import not_there", 1, ("No module named 'not_there' (mod.py, line 1)", "--traceback")),
        ("mod", "def (", 1, ("SyntaxError", "--traceback")),
        ("mod", "\nraise RuntimeError('two\\nlines\\x1b')", 1, ("RuntimeError: two lines\\x1b (mod.py, line 2)",)),
        ("mod", "raise SystemExit(0)", 1, ("SystemExit: 0",)),
        ("mod", "from holdfast import Holdfast\napp = Holdfast('mysql://x')", 1, ("scheme 'mysql' is unknown",)),
    ],
)
@pytest.mark.parametrize("command", ["worker", "enqueue"])
def test_a_wrong_target_is_one_line(
    cli: Run, here: Path, command: str, target: str, content: str | None, code: int, words: tuple[str, ...]
) -> None:
    if content is not None:
        (here / "mod.py").write_text(content)
    arguments = [target, "add"] if command == "enqueue" else [target]
    assert_one_line(cli(command, *arguments), code, *words)


def test_traceback_shows_the_users_own_error(cli: Run, here: Path) -> None:
    (here / "mod.py").write_text("\n\nraise RuntimeError('mine')")
    for arguments in (["--traceback", "worker", "mod"], ["worker", "mod", "--traceback"]):
        answer = cli(*arguments)
        assert answer.code == 1
        assert 'mod.py", line 3' in answer.err
        assert answer.err.splitlines()[-1].startswith("holdfast: module 'mod' cannot be imported")


def test_a_database_is_named_by_flag_app_or_environment(cli: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("enqueue", "tasks", "add", "first=1")
    assert len(cli("jobs", "--url", "sqlite:///jobs.db", "--json").json) == 1
    assert len(cli("jobs", "--app", "tasks", "--json").json) == 1
    assert len(cli("jobs", "--app", "tasks", "--url", f"sqlite:///{here}/jobs.db", "--json").json) == 1
    monkeypatch.setenv("HOLDFAST_URL", "sqlite:///jobs.db")
    assert len(cli("jobs", "--json").json) == 1
    monkeypatch.setenv("HOLDFAST_APP", "missing")
    assert len(cli("jobs", "--json", "--url", "sqlite:///jobs.db").json) == 1
    assert_one_line(cli("jobs"), 2, "there is no module 'missing'")


OPEN = "import holdfast\nqueue = holdfast.Holdfast()\n@queue.task(name='add')\ndef add(first: int) -> int: return first\n"
"""An app that leaves its database to the environment."""


@pytest.mark.parametrize("how", ["position", "flag", "environment"])
@pytest.mark.parametrize("url", ["flag", "environment"])
def test_f1_every_command_takes_the_app_and_the_database_in_the_same_ways(
    cli: Run, here: Path, monkeypatch: pytest.MonkeyPatch, how: str, url: str
) -> None:
    (here / "open_app.py").write_text(OPEN)
    if how == "environment":
        monkeypatch.setenv("HOLDFAST_APP", "open_app:queue")
    if url == "environment":
        monkeypatch.setenv("HOLDFAST_URL", "sqlite:///here.db")
    place = ["--url", "sqlite:///here.db"] if url == "flag" else []
    target = {"position": ["open_app:queue"], "flag": ["-a", "open_app:queue"], "environment": []}[how]
    asking = target if how == "flag" else []
    assert cli("enqueue", *target, "add", "first=1", *place).code == 0
    assert cli("worker", *target, "--drain", *place).code == 0
    for command in (["jobs"], ["stats"], ["doctor"], ["migrate"]):
        answer = cli(*command, *asking, *place)
        assert (answer.code, answer.err) == (0, ""), command
    assert [job["state"] for job in cli("jobs", *asking, *place, "--json").json] == ["succeeded"]
    assert {path.name for path in here.glob("*.db")} == {"here.db"}


def test_f1_the_remedy_for_a_missing_database_is_the_app_that_is_here(cli: Run, here: Path) -> None:
    cli("enqueue", "tasks", "add", "first=1")
    for command in (["jobs"], ["show", "x"], ["doctor"]):
        answer = cli(*command)
        first = f"there is no database at {here}/holdfast.db; name your app: holdfast {command[0]} -a tasks:app"
        assert_one_line(answer, 1, first, "--url")
        assert "migrate" not in answer.err
    assert_one_line(cli("migrate"), 2, "no database is named; name your app: holdfast migrate -a tasks:app")
    assert not (here / "holdfast.db").exists()
    answer = cli("jobs", "--url", "sqlite:///typo.db")
    assert_one_line(answer, 1, f"there is no database at {here}/typo.db; name your app: holdfast jobs -a tasks:app")


def test_f1_the_remedy_repeats_how_the_app_was_named(cli: Run, here: Path) -> None:
    assert_one_line(cli("jobs", "-a", "tasks"), 1, f"{here}/jobs.db; tasks creates it", "holdfast migrate -a tasks\n")


def test_f1_two_databases_are_never_mixed_in_silence(cli: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = cli("enqueue", "tasks", "add", "first=1", "--url", "sqlite:///other.db")
    assert_one_line(answer, 2, "--url sqlite:///other.db", f"tasks names its own database, {here}/jobs.db", "Holdfast()")
    monkeypatch.setenv("HOLDFAST_URL", "postgresql://me:secret@host/other")
    for command in (["enqueue", "tasks", "add", "first=1"], ["jobs", "-a", "tasks"], ["worker", "tasks", "--drain"]):
        answer = cli(*command)
        assert answer.code == 0
        assert "HOLDFAST_URL (postgresql://…@host/other) is not used" in answer.err
        assert f"tasks names its own database, {here}/jobs.db, and code goes before the environment" in answer.err
    monkeypatch.setenv("HOLDFAST_URL", f"sqlite:///{here}/../{here.name}/jobs.db")
    assert cli("jobs", "-a", "tasks").err == ""


def test_f1_an_app_that_is_named_twice_or_not_at_all_is_one_line(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_one_line(cli("worker", "tasks", "-a", "tasks"), 2, "the app is named twice")
    assert_one_line(cli("enqueue", "tasks", "add", "-a", "tasks"), 2, "the app is named twice")
    assert_one_line(cli("worker"), 2, "holdfast worker needs an app", "-a tasks:app", "HOLDFAST_APP")
    assert_one_line(cli("enqueue", "add"), 2, "'add' alone", "-a tasks:app")
    assert_one_line(cli("enqueue"), 2, "TASK")
    monkeypatch.setenv("HOLDFAST_APP", "missing")
    assert cli("enqueue", "tasks", "add", "first=1").code == 0  # what was typed goes first


def test_f1_a_worker_begins_by_saying_what_it_works_on(cli: Run, here: Path) -> None:
    with start("worker", "tasks:app", "--drain", "-q", "a,b", "-c", "3", here=here) as worker:
        _, err = worker.communicate(timeout=60)
    said = [line.split("INFO", 1)[1].strip() for line in err.splitlines()[:3]]
    assert said[0] == f"holdfast {holdfast.__version__}, app tasks:app, database {here}/jobs.db"
    assert said[1] == "5 tasks: tasks.add, tasks.anything, tasks.greet, tasks.hopeless, tasks.hostile"
    assert said[2].endswith("works on a, b, 3 at a time")


def test_asking_creates_no_database(cli: Run, here: Path) -> None:
    for command in (
        ["jobs"],
        ["stats"],
        ["show", "x"],
        ["tail", "x"],
        ["cancel", "x"],
        ["doctor"],
        ["prune", "--older-than", "1d"],
    ):
        assert_one_line(cli(*command, "--url", "sqlite:///typo.db"), 1, f"there is no database at {here}/typo.db")
    assert not (here / "typo.db").exists()


@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        ("jobs.db", 2, ("'jobs.db' has no scheme",)),
        ("mysql://user:secret@host/db", 2, ("scheme 'mysql' is unknown",)),
        ("sqlite:////", 2, ("names no file",)),
    ],
)
def test_a_wrong_url_is_one_line(cli: Run, url: str, code: int, words: tuple[str, ...]) -> None:
    answer = cli("jobs", "--url", url)
    assert answer.code in (1, 2)
    assert answer.err.count("\n") == 1
    assert "secret" not in answer.err


def test_a_directory_as_database_is_one_line(cli: Run, here: Path) -> None:
    (here / "folder").mkdir()
    assert_one_line(cli("jobs", "--url", "sqlite:///folder"), 1, "folder is a directory")


def test_a_file_that_is_no_database_is_one_line(cli: Run, here: Path) -> None:
    (here / "text.db").write_text("just some text, and more than enough of it to be read as a header" * 20)
    assert_one_line(cli("jobs", "--url", "sqlite:///text.db"), 1, "text.db is not an SQLite database")


def test_a_newer_schema_is_one_line(cli: Run, here: Path) -> None:
    import sqlite3

    cli("migrate", "--url", "sqlite:///jobs.db")
    connection = sqlite3.connect(here / "jobs.db")
    connection.execute("INSERT INTO holdfast_migration VALUES (9999, 0)")
    connection.commit()
    connection.close()
    for command in (["jobs"], ["stats"], ["migrate"], ["migrate", "--print"]):
        assert_one_line(cli(*command, "--url", "sqlite:///jobs.db"), 1, "schema version 9999", "upgrade Holdfast")
