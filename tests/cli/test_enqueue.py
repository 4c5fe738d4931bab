"""`enqueue` prints the job, takes arguments in three ways, and can wait for the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.cli.conftest import Run, assert_one_line, start
from tests.until import until


def test_prints_the_id_first(cli: Run, app: Holdfast) -> None:
    answer = cli("enqueue", "tasks:app", "tasks.add", "first=1")
    assert answer.code == 0
    id, state, task, queue = answer.out.split()
    assert (state, task, queue) == ("ready", "tasks.add", "queue=default")
    assert app.get(id) is not None


@pytest.mark.parametrize(
    "arguments",
    [
        ("first=1", "second=2"),
        ("--args", "[1, 2]"),
        ("--kwargs", '{"first": 1, "second": 2}'),
        ("--args", "[1]", "--kwargs", '{"second": 2}'),
        ("--args", "[1]", "second=2"),
    ],
)
def test_arguments_in_every_way(drained: Run, app: Holdfast, arguments: tuple[str, ...]) -> None:
    job = app.get(drained("add", *arguments).json["id"])
    assert job is not None
    assert job.result == 3


@pytest.mark.parametrize(("text", "stored"), [("007", "007"), ("true", "true"), ('"x"', '"x"'), ("a=b", "a=b")])
def test_a_text_parameter_takes_text_as_it_is(cli: Run, text: str, stored: str) -> None:
    assert cli("enqueue", "tasks", "greet", f"name={text}", "--json").json["arguments"] == {"name": stored}


@pytest.mark.parametrize(("text", "stored"), [("7", 7), ("[1]", [1]), ("null", None), ("abc", "abc"), ('"7"', "7")])
def test_an_untyped_parameter_takes_json_where_it_is_json(cli: Run, text: str, stored: object) -> None:
    assert cli("enqueue", "tasks", "anything", f"value={text}", "--json").json["arguments"] == {"value": stored}


def test_every_option_reaches_the_job(cli: Run) -> None:
    options = ("--queue", "q", "--priority", "5", "--run-after", "1h", "--key", "a", "--key", "b", "--tag", "x", "--tag", "y")
    more = ("--meta", '{"m": 1}', "--id", "mine", "--parent", "other", "--attempts", "7", "--json")
    job = cli("enqueue", "tasks", "add", "first=1", *options, *more).json
    assert (job["queue"], job["priority"], job["state"], job["key"], job["tags"]) == ("q", 5, "scheduled", ["a", "b"], ["x", "y"])
    assert (job["meta"], job["id"], job["parent"], job["attempts_max"], job["created"]) == ({"m": 1}, "mine", "other", 7, True)


def test_a_second_job_under_a_key_is_told_apart(cli: Run) -> None:
    first = cli("enqueue", "tasks", "add", "first=1", "--key", "k", "--json").json
    again = cli("enqueue", "tasks", "add", "first=2", "--key", "k", "--json").json
    assert (again["id"], again["created"], again["same_arguments"]) == (first["id"], False, False)
    text = cli("enqueue", "tasks", "add", "first=2", "--key", "k").out
    assert "was there already under this key, with other arguments" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tasks", "nope"), ("task 'nope' is not registered", "tasks.add")),
        (("tasks", "add", "--args", "{"), ("--args '{' is not JSON", "an array")),
        (("tasks", "add", "--args", '{"a": 1}'), ("is JSON, but not an array",)),
        (("tasks", "add", "--kwargs", "[1]"), ("is JSON, but not an object",)),
        (("tasks", "add", "first"), ("'first' is not KEY=VALUE",)),
        (("tasks", "add", "first=1", "--kwargs", '{"first": 2}'), ("'first' is given twice",)),
        (("tasks", "add", "first=x"), ("argument 'first'", "expected int", "'x'")),
        (("tasks", "add"), ("first",)),
        (("tasks", "anything", "value=NaN"), ("value",)),
        (("tasks", "add", "first=1", "--attempts", "-1"), ("attempts -1",)),
        (("tasks", "add", "first=1", "--run-after", "soon"), ("--run-after 'soon' is no time",)),
        (("tasks", "add", "first=1", "--run-after", "2030-01-01T00:00"), ("has no timezone",)),
        (("tasks", "add", "first=1", "--queue", "a b"), ("queue 'a b'",)),
        (("tasks", "add", "first=1", "--meta", "7"), ("--meta '7' is JSON, but not an object",)),
        (("tasks", "add", "first=1", "--priority", "high"), ("--priority", "holdfast enqueue --help")),
        (("tasks",), ("TASK",)),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    cli: Run, here: Path, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert_one_line(cli("enqueue", *arguments), 2, *words)
    assert not (here / "jobs.db").exists()


def test_wait_follows_the_job_to_its_end(here: Path, app: Holdfast) -> None:
    with start("worker", "tasks", here=here) as worker:
        try:
            until(app.workers, "the worker has registered")
            with start("enqueue", "tasks", "add", "first=2", "--wait", here=here) as waiter:
                out, err = waiter.communicate(timeout=60)
            assert (waiter.returncode, err) == (0, "")
            assert out.splitlines()[-1].endswith("succeeded: 3")
            with start("enqueue", "tasks", "hopeless", "--wait", "--json", here=here) as waiter:
                out, _ = waiter.communicate(timeout=60)
            assert waiter.returncode == 1
            assert '"state": "failed"' in out
        finally:
            worker.terminate()
            worker.communicate(timeout=60)
    assert worker.returncode == 0
