"""A job is found by its id, its handle, or the beginning of its id if that is the only one."""

from __future__ import annotations

import pytest

from holdfast import Holdfast
from holdfast.cli import lookup
from tests.cli.conftest import Run, assert_one_line

URL = ("--url", "sqlite:///jobs.db")


def test_by_id_handle_and_beginning(cli: Run) -> None:
    job = cli("enqueue", "tasks", "add", "first=1", "--json").json
    mine = cli("enqueue", "tasks", "add", "first=1", "--id", "order-17", "--json").json
    for text in (job["id"], job["handle"], job["handle"].upper(), job["id"][:20]):
        assert cli("show", text, *URL, "--json").json["id"] == job["id"]
    for text in ("order-17", "orde", mine["handle"]):
        assert cli("show", text, *URL, "--json").json["id"] == "order-17"


def test_a_whole_id_goes_before_the_beginning_of_another(cli: Run) -> None:
    for id in ("order-1", "order-10"):
        cli("enqueue", "tasks", "add", "first=1", "--id", id)
    assert cli("show", "order-1", *URL, "--json").json["id"] == "order-1"


def test_an_ambiguous_beginning_names_the_candidates(cli: Run) -> None:
    for id in ("order-1", "order-2", "order-3", "order-4"):
        cli("enqueue", "tasks", "add", "first=1", "--id", id)
    assert_one_line(cli("show", "order", *URL), 2, "'order' is the beginning of 4 ids", "order-4", "…")


def test_no_such_job_is_one_line(cli: Run) -> None:
    cli("migrate", *URL)
    assert_one_line(cli("show", "nothing-like-it", *URL), 1, "there is no job 'nothing-like-it'")
    assert_one_line(cli("show", "abc", *URL), 1, "there is no job 'abc'", "4 characters or more")
    assert_one_line(cli("tail", "0123456789abcdef", *URL), 1, "there is no job")


def test_a_beginning_is_not_acted_on_where_nobody_can_tell(cli: Run, app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    for id in ("alpha", "beta-1", "beta-2"):
        cli("enqueue", "tasks", "add", "first=1", "--id", id)
    monkeypatch.setattr(lookup, "NEWEST_MAX", 2)
    answer = cli("cancel", "alph", *URL)
    assert (answer.code, answer.out) == (2, "")
    assert "give the whole one: alpha" in answer.err
    assert cli("show", "alph", *URL).code == 0
    assert cli("cancel", "alpha", *URL).code == 0
