"""`tail` follows a job to its end, in lines or in JSON lines, and its exit code says how it ended."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run, start

URL = ("--url", "sqlite:///jobs.db")


def test_json_lines_of_an_ended_job(drained: Run, cli: Run) -> None:
    id = drained("add", "first=1").json["id"]
    answer = cli("tail", id, *URL, "--json")
    events = [json.loads(line) for line in answer.lines]
    assert answer.code == 0
    assert [(event["number"], event["kind"]) for event in events] == [(1, "enqueued"), (2, "started"), (3, "succeeded")]
    assert set(events[0]) == {"job", "number", "kind", "at", "data"}
    assert [json.loads(line)["number"] for line in cli("tail", id, *URL, "--json", "--after", "2").lines] == [3]


def test_lines_end_with_the_result_or_the_reason(drained: Run, cli: Run) -> None:
    good, bad = drained("add", "first=1").json["id"], drained("hopeless").json["id"]
    answer = cli("tail", good, *URL)
    assert (answer.code, answer.lines[-1]) == (0, f"{good} succeeded: 2")
    answer = cli("tail", bad, *URL)
    assert answer.code == 1
    assert answer.lines[-1].startswith(f"{bad} failed: ")
    assert "no use" in answer.lines[-1]


def test_follows_live(cli: Run, here: Path) -> None:
    id = cli("enqueue", "tasks", "add", "first=1", "--json").json["id"]
    with start("tail", id, *URL, here=here) as follower:
        assert follower.stdout is not None
        assert "enqueued" in follower.stdout.readline()
        assert cli("worker", "tasks", "--drain").code == 0
        assert "started" in follower.stdout.readline()
        assert follower.stdout.read().splitlines()[-1] == f"{id} succeeded: 2"
    assert follower.returncode == 0
