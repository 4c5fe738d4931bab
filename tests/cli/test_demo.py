"""The demo: ends by itself, says what happened, and is judged from its ledger."""

from __future__ import annotations

import re
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast.demo.ledger import Entry
from holdfast.demo.verdict import Cast, verdicts
from holdfast.domain.job import Attempt, Job
from holdfast.domain.states import State
from tests.cli.conftest import start

CAST = Cast(flaky="flaky", dead="dead", keyed="keyed", keyed_again="keyed", interrupted=["long"])


@pytest.mark.slow
def test_the_demo_plays_to_its_end(here: Path) -> None:
    with start("demo", "--clean", here=here, TMPDIR=str(here)) as demo:
        out, err = demo.communicate(timeout=110)
    assert (demo.returncode, err) == (0, ""), out
    assert out.count("✔") == 5
    for words in (
        "killed worker-b with SIGKILL",
        "worker-a has taken over",
        "finished once each",
        "failed for good, with its reason",
    ):
        assert words in out
    assert [path.name for path in here.iterdir() if path.name.startswith("holdfast-demo-")] == []


def test_an_interrupted_demo_takes_its_workers_along(here: Path) -> None:
    with start("demo", "--clean", here=here, TMPDIR=str(here)) as demo:
        assert demo.stdout is not None
        line = next(line for line in demo.stdout if "started two worker processes" in line)
        assert re.search(r"lease of 2 seconds", line)
        demo.send_signal(signal.SIGTERM)
        # The workers hold copies of no pipe of ours; the demo itself waits for them before it ends.
        demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert [path.name for path in here.iterdir() if path.name.startswith("holdfast-demo-")] == []


def job(id: str, state: State = State.SUCCEEDED, attempt: int = 1, error: str = "") -> Job:
    at = datetime.now(UTC)
    errors = (Attempt(at, 1, error, "", ""),) if error else ()
    return Job(
        id=id, task="t", queue="q", state=state, priority=1, attempt=attempt, attempts_max=3, token=1, arguments="{}",
        created_at=at, thaw_arguments=str, thaw_result=str, error=error or None, errors=errors,
    )  # fmt: skip


def good() -> dict[str, Job]:
    jobs = [job("flaky", attempt=3), job("dead", State.FAILED, error="ValueError"), job("keyed")]
    return {each.id: each for each in [*jobs, job("long", attempt=2, error="WorkerLost")]}


def entries(*ids: str) -> list[Entry]:
    return [Entry(id, 1, 1) for id in ids]


def held(jobs: dict[str, Job], ledger: list[Entry], cast: Cast = CAST) -> list[bool]:
    return [verdict.holds for verdict in verdicts(jobs, ledger, cast)]


def test_the_verdict_of_a_good_run() -> None:
    assert held(good(), entries("flaky", "keyed", "long")) == [True] * 5


def test_the_verdict_sees_what_was_lost_or_done_twice() -> None:
    assert held(good(), entries("flaky", "keyed"))[0] is False
    assert held(good(), entries("flaky", "keyed", "long", "long"))[0] is False
    assert held(good(), entries("flaky", "keyed", "long", "dead"))[0] is False
    assert held(good() | {"x": job("x", State.RUNNING)}, entries("flaky", "keyed", "long"))[0] is False
    assert held(good() | {"long": job("long")}, entries("flaky", "keyed", "long"))[1] is False
    assert held(good() | {"flaky": job("flaky")}, entries("flaky", "keyed", "long"))[2] is False
    assert held(good() | {"dead": job("dead")}, entries("flaky", "keyed", "long", "dead"))[3] is False
    assert held(good(), entries("flaky", "keyed", "long"), CAST._replace(keyed_again="other"))[4] is False
