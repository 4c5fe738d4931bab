"""`jobs`, `stats` and `show`, in a pipe and on a terminal."""

from __future__ import annotations

import io
import json
import re
import sys

import msgspec
import pytest

from holdfast import Holdfast
from holdfast.cli.job_row import note
from tests.cli.conftest import Run, assert_one_line

URL = ("--url", "sqlite:///jobs.db")
FIELDS = {
    "id", "handle", "task", "queue", "state", "priority", "attempt", "attempts_max", "token", "event_count", "arguments",
    "result", "error", "errors", "progress", "meter", "key", "tags", "meta", "parent", "callback", "callback_status",
    "created_at", "run_after", "started_at", "finished_at",
}  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """From now on stdout is a terminal of 80 columns, without colours."""
    for name, value in {"COLUMNS": "80", "LINES": "24", "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    return screen


def test_jobs_in_a_pipe_shows_whole_ids_and_whole_lines(cli: Run, app: Holdfast) -> None:
    long = "x" * 300
    id = cli("enqueue", "tasks", "hostile", f"text={long}", "--json").json["id"]
    cli("worker", "tasks", "--drain")
    header, row = cli("jobs", *URL).lines
    assert header.split() == ["ID", "STATE", "TASK", "QUEUE", "TRY", "AGE", "NOTE"]
    assert row.startswith(f"{id}  failed  tasks.hostile  default  1/1")
    assert row.endswith(f"ValueError: {long}")
    assert "\x1b" not in row


def test_jobs_on_a_narrow_terminal_keeps_handles_whole(cli: Run, app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("enqueue", "tasks", "hostile", f"text={'x' * 300}")
    cli("worker", "tasks", "--drain")
    screen = terminal(monkeypatch)
    cli("jobs", *URL)
    header, row = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue()).splitlines()
    assert header.startswith("HANDLE ")
    assert row.startswith(app.jobs()[0].handle)
    assert len(row.rstrip()) <= 80
    assert row.rstrip().endswith("…")


@pytest.mark.parametrize("command", ["show", "tail"])
def test_on_a_terminal_text_of_jobs_is_escaped_too(cli: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    id = cli("enqueue", "tasks", "hostile", "--kwargs", json.dumps({"text": "\x1b]0;owned\x07\r\u202e"}), "--json").json["id"]
    cli("worker", "tasks", "--drain")
    screen = terminal(monkeypatch)
    cli(command, id, *URL)
    assert not {"\x1b]", "\x07", "\u202e"} & {
        screen.getvalue()[at : at + size] for size in (1, 2) for at in range(len(screen.getvalue()))
    }
    assert "\\x1b]0;owned\\x07" in screen.getvalue()


def test_filters_and_pages(cli: Run) -> None:
    for number in range(5):
        cli("enqueue", "tasks", "add", f"first={number}", "--tag", f"t{number % 2}")
    options = ("--id", "child", "--queue", "q", "--parent", "mother-pruned-long-ago", "--run-after", "1h")
    cli("enqueue", "tasks", "greet", "name=x", *options)
    firsts = [job["arguments"]["first"] for job in cli("jobs", *URL, "--task", "tasks.add", "--json").json]
    assert firsts == [4, 3, 2, 1, 0]
    assert [job["arguments"]["first"] for job in cli("jobs", *URL, "--tag", "t1", "--oldest", "--json").json] == [1, 3]
    for flag, value in (("queue", "q"), ("parent", "mother-pruned-long-ago"), ("state", "scheduled"), ("task", "tasks.greet")):
        assert [job["id"] for job in cli("jobs", *URL, f"--{flag}", value, "--json").json] == ["child"]
    page = cli("jobs", *URL, "--limit", "2", "--json").json
    rest = cli("jobs", *URL, "--after", page[-1]["handle"], "--json").json
    assert len({job["id"] for job in page + rest}) == 6


def test_an_empty_page_says_so(cli: Run) -> None:
    cli("migrate", *URL)
    assert cli("jobs", *URL).out == "No jobs.\n"
    assert cli("jobs", *URL, "--json").json == []
    assert cli("stats", *URL).out == "No jobs.\n"
    assert cli("stats", *URL, "--json").json == {}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--state", "foo"), ("state 'foo' is unknown", "scheduled")),
        (("--limit", "0"), ("limit 0 must be from 1 to 1000",)),
        (("--limit", "many"), ("--limit",)),
        (("--colour",), ("--colour", "holdfast jobs --help")),
    ],
)
def test_a_wrong_filter_is_one_line(cli: Run, flags: tuple[str, ...], words: tuple[str, ...]) -> None:
    cli("migrate", *URL)
    assert_one_line(cli("jobs", *URL, *flags), 2, *words)


def test_stats_counts_by_task_and_state(drained: Run, cli: Run) -> None:
    drained("add", "first=1")
    drained("hopeless")
    cli("enqueue", "tasks", "add", "first=1")
    assert cli("stats", *URL, "--json").json == {"tasks.add": {"ready": 1, "succeeded": 1}, "tasks.hopeless": {"failed": 1}}
    header, *rows = cli("stats", *URL).lines
    assert header.split() == ["TASK", "READY", "SUCCEEDED", "FAILED"]
    assert [row.split() for row in rows] == [
        ["tasks.add", "1", "1", "-"],
        ["tasks.hopeless", "-", "-", "1"],
        ["all", "1", "1", "1"],
    ]


def test_show_tells_everything(drained: Run, cli: Run) -> None:
    id = drained("hopeless", "--key", "k", "--tag", "eu", "--meta", '{"who": "me"}', "--parent", "mother").json["id"]
    job = cli("show", id, *URL, "--json").json
    assert set(job) == FIELDS | {"events"}
    assert [event["kind"] for event in job["events"]] == ["enqueued", "started", "failed"]
    assert [event["number"] for event in job["events"]] == [1, 2, 3]
    assert (job["meter"], job["errors"][0]["attempt"], job["error"][-6:]) == ({"tokens": 3.0}, 1, "no use")
    text = cli("show", id, *URL).out
    for fact in (
        id,
        job["handle"],
        "tasks.hopeless",
        "other",
        "failed",
        "tokens=3",
        '["k"]',
        "eu",
        '"who"',
        "mother",
        "Attempt 1",
    ):
        assert fact in text


def test_show_gives_the_latest_events(drained: Run, cli: Run) -> None:
    id = drained("add", "first=1").json["id"]
    assert [event["number"] for event in cli("show", id, *URL, "--events", "1", "--json").json["events"]] == [3]
    assert cli("show", id, *URL, "--events", "0", "--json").json["events"] == []
    assert "2 earlier ones" in cli("show", id, *URL, "--events", "1").out


@pytest.mark.parametrize(
    "text", ["\x1b[2J\x1b]0;owned\x07", "a\r\nb\nc", "\u202e\u2066evil", "\x9b31m\x7f", "[bold red]x[/] :boom:"]
)
def test_text_of_jobs_cannot_reach_the_terminal(cli: Run, text: str) -> None:
    kwargs = json.dumps({"text": text})
    id = cli("enqueue", "tasks", "hostile", "--kwargs", kwargs, "--json").json["id"]
    cli("worker", "tasks", "--drain")
    for command in (["jobs"], ["show", id], ["tail", id], ["show", id, "--json"], ["tail", id, "--json"], ["jobs", "--json"]):
        out = cli(*command, *URL).out
        assert not set("\x1b\r\x07\x9b\x7f\u202e\u2066") & set(out)
    assert "[bold red]x[/] :boom:" not in text or "[bold red]x[/] :boom:" in cli("jobs", *URL).out
    assert cli("show", id, *URL, "--json").json["arguments"] == {"text": text}


def test_f30_a_retry_that_is_overdue_is_due(cli: Run, app: Holdfast) -> None:
    cli("enqueue", "tasks", "add", "first=1", "--run-after", "1h")
    assert re.search(r" in \d+m", cli("jobs", *URL).out)
    [job] = app.jobs()
    past = msgspec.structs.replace(job, run_after=job.created_at)
    assert re.match(r"due \S+ ago$", note(past))


def test_explain_says_why_a_job_waits_and_what_would_start_it(cli: Run, app: Holdfast) -> None:
    id = cli("enqueue", "tasks", "add", "first=1").out.split()[0]
    answer = cli("explain", id, "--app", "tasks")
    assert answer.code == 0
    assert "no living worker takes queue default" in answer.out
    assert "start a worker for queue default" in answer.out
    (reason,) = cli("explain", id, "--app", "tasks", "--json").json["reasons"]
    assert (reason["kind"], reason["remedy"]) == ("no_worker", "start a worker for queue default")
