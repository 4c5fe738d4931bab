"""`cancel`, `retry` and `skip`: one or several ids, each on its own."""

from __future__ import annotations

import pytest

from holdfast import Holdfast
from tests.cli.conftest import Run

URL = ("--url", "sqlite:///jobs.db")


@pytest.mark.parametrize(("verb", "state"), [("cancel", "cancelled"), ("skip", "skipped")])
def test_ending_several_with_a_reason_and_back(cli: Run, app: Holdfast, verb: str, state: str) -> None:
    ids = [cli("enqueue", "tasks", "add", "first=1", "--json").json["id"] for _ in range(2)]
    answer = cli(verb, *ids, "--reason", "not today", *URL)
    assert answer.code == 0
    assert [line.split() for line in answer.lines] == [[id, state, "tasks.add"] for id in ids]
    assert [(job.state, job.error) for job in app.jobs()] == [(state, "not today")] * 2
    again = cli("retry", *ids, *URL, "--json")
    assert [(job["id"], job["state"]) for job in again.json] == [(id, "ready") for id in ids]


def test_what_is_wrong_with_one_does_not_keep_the_others(cli: Run, drained: Run) -> None:
    done = drained("add", "first=1").json["id"]
    ready = cli("enqueue", "tasks", "add", "first=1", "--json").json["id"]
    answer = cli("cancel", done, "no-such-job", ready, *URL, "--json")
    assert answer.code == 1
    assert [job["id"] for job in answer.json] == [ready]
    illegal, unknown = answer.err.splitlines()
    assert illegal.startswith(f"holdfast: job {done}: a job that is succeeded cannot be moved by 'cancel'")
    assert "there is no job 'no-such-job'" in unknown


def test_a_key_that_went_to_another_job_is_one_line(cli: Run, drained: Run) -> None:
    first = drained("hopeless", "--key", "k").json["id"]
    cli("enqueue", "tasks", "hopeless", "--key", "k")
    answer = cli("retry", first, *URL)
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "is held by job" in answer.err
