"""`queues`, `pause`, `resume` and `queue set|reset|log`: what a person sees of queues, and does about them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast import Breaker, Holdfast, Rate
from holdfast.cli.limit_text import limits_text, options_in
from holdfast.domain.limits import checked, limits_of
from holdfast.store.op import json_of
from holdfast.testing import ManualClock
from tests.cli.conftest import Run, assert_one_line, on_terminal

APP = ("-a", "tasks")


def row_of(cli: Run, queue: str) -> str:
    return next(line for line in cli("queues", *APP).lines if line.split()[0] == queue)


def test_a_queue_is_one_row_with_what_waits_runs_and_holds_it_up(cli: Run, app: Holdfast) -> None:
    for number in range(3):
        cli("enqueue", "tasks", "add", f"first={number}")
    cli("queue", "set", "default", "concurrency=2", "rate=60/min", "gap=10", "max_depth=3", *APP)
    assert cli("queues", *APP).lines[0].split() == ["QUEUE", "DEPTH", "RUNNING", "PACE", "FAILED", "WORKERS", "WAIT", "STATE"]
    assert re.fullmatch(r"default +3/3 +0/2 +60/min, gap 10s +- +- +- +full; no worker", row_of(cli, "default"))
    app.claim()
    assert re.fullmatch(r"default +2/3 +1/2 +60/min, gap 10s +- +- +- +no worker", row_of(cli, "default"))


def test_a_queue_on_which_nothing_is_wrong_is_open(cli: Run, app: Holdfast) -> None:
    cli("enqueue", "tasks", "add", "first=1")
    cli("worker", "tasks", "--drain")
    assert row_of(cli, "default").endswith(" open")
    (told,) = cli("queues", *APP, "--json").json
    assert (told["name"], told["processed"], told["blocks"], told["limits"]["concurrency"]) == ("default", 1, [], None)


def test_p2_a_pause_shows_who_until_when_and_why(cli: Run, app: Holdfast) -> None:
    cli("enqueue", "tasks", "add", "first=1")
    said = cli("pause", "default", "--for", "10m", "--reason", "upstream is down", *APP)
    assert re.fullmatch(r"default is paused by \S+@\S+ until \d\d:\d\d:\d\d: upstream is down\n", said.out), said
    assert re.search(r"paused by \S+ until \d\d:\d\d:\d\d: upstream is down; no worker$", row_of(cli, "default"))
    assert cli("resume", "default", *APP).out == "default is resumed\n"
    assert cli("resume", "default", *APP).out == "default was not paused\n"
    assert cli("pause", "default", "--json", *APP).json["paused"]["until"] is None


def test_p2_a_pause_older_than_a_day_stands_out(cli: Run, here: Path) -> None:
    long_ago = ManualClock(datetime.now(UTC) - timedelta(days=3))
    with Holdfast("sqlite:///jobs.db", clock=long_ago) as before:
        before.migrate()
        before.pause("old", actor="kim")
    cli("pause", "new", *APP)
    assert row_of(cli, "old").endswith("paused by kim for 3d now")
    assert "now" not in row_of(cli, "new")
    _, shown = on_terminal(["queues", *APP], here, {}, TERM="xterm")
    assert re.search(r"\x1b\[1;31mpaused by kim", shown), shown
    assert not re.search(r"\x1b\[1;31mpaused by (?!kim)", shown)


def test_an_open_breaker_shows_until_when(cli: Run, app: Holdfast) -> None:
    for _ in range(2):
        cli("enqueue", "tasks", "hopeless")
    cli("queue", "set", "other", "breaker=1,15,300", *APP)
    lease = app.claim()
    assert lease is not None
    app.fail(lease, "broken")
    assert re.search(r"breaker open until \d\d:\d\d:\d\d; no worker$", row_of(cli, "other"))


def test_limits_are_set_reset_and_logged(cli: Run, app: Holdfast) -> None:
    cli("enqueue", "tasks", "add", "first=1")
    limits = ["concurrency=2", "rate=60/min:5,1000/h", "gap=10", "max_depth=50", "breaker=2,15,300"]
    said = cli("queue", "set", "default", *limits, *APP)
    assert said.out == "default has max_depth=50 concurrency=2 rate=60/min:5,1000/h gap=10s breaker=2,15,300\n"
    (queue,) = app.queues()
    assert queue.limits.rates == (Rate(60, 60, 5), Rate(1000, 3600))
    assert (queue.limits.breaker, queue.limits.gap) == (Breaker(2, 15, 300), 10.0)
    said = cli("queue", "set", "default", "gap=none", "rate=none", "breaker=none", "max_depth=none", *APP)
    assert said.out == "default has concurrency=2\n"
    assert cli("queue", "reset", "default", *APP).out == "default has no limits\n"
    lines = [line.split(maxsplit=5) for line in cli("queue", "log", "default", *APP).lines[1:]]
    assert [words[4] for words in lines] == ["reset", "changed", "changed"]
    assert lines[1][5] == "gap=none rate=none breaker=none max_depth=none"
    assert lines[2][5] == "concurrency=2 rate=60/min:5,1000/h gap=10 max_depth=50 breaker=2,15,300"
    assert cli("queue", "log", "default", "--json", *APP).json[0]["action"] == "reset"


@pytest.mark.parametrize(
    "text",
    ["no limits", "max_depth=50 concurrency=2 rate=60/min gap=10s breaker=2,15,300", "rate=5/s:3,7/90s,1/day", "gap=0.5s"],
)
def test_what_is_read_can_be_typed(text: str) -> None:
    words = [] if text == "no limits" else text.split()
    assert limits_text(limits_of(None, json_of(checked(options_in(words))))) == text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["speed=3"], "a queue has no limit 'speed'; use concurrency, rate, gap, max_depth, breaker"),
        (["fast"], "'fast' sets no limit; use NAME=VALUE"),
        (["concurrency=2", "concurrency=3"], "concurrency is given twice"),
        (["concurrency=many"], "concurrency 'many' is not a whole number"),
        (["concurrency=0"], "concurrency 0 must be a whole number from 1"),
        (["max_depth=-1"], "max_depth '-1' is not a whole number"),
        (["rate=fast"], "rate 'fast' is no rate; use for example rate=60/min"),
        (["rate=60/moon"], "rate '60/moon' is no rate"),
        (["rate=0/min"], "rate 0.0 must be a number above 0"),
        (["rate=60/0s"], "rate per 0"),
        (["gap=soon"], "gap 'soon' is not a duration"),
        (["breaker=on"], "breaker 'on' is no breaker; use AFTER,BASE,CAP"),
        (["breaker=2,300,15"], "breaker cap 15 is less than its base 300"),
    ],
)
def test_a_limit_that_makes_no_sense_is_one_line(cli: Run, app: Holdfast, words: list[str], said: str) -> None:
    cli("migrate", *APP)
    assert_one_line(cli("queue", "set", "default", *words, *APP), 2, said)
    assert app.queue_changes("default") == []


def test_a_queue_that_is_not_there_is_named_with_those_that_are(cli: Run, app: Holdfast) -> None:
    cli("enqueue", "tasks", "add", "first=1")
    for command in (["resume", "defualt"], ["queue", "reset", "defualt"], ["queue", "log", "defualt"]):
        assert_one_line(cli(*command, *APP), 1, "there is no queue 'defualt'; known: default")
    assert_one_line(cli("pause", "default", "--for", "soon", *APP), 2, "--for 'soon' is not a duration")
    answer = cli("pause", "defualt", *APP)
    assert (answer.code, answer.err) == (0, "holdfast: queue defualt has had no job yet; known: default\n")
