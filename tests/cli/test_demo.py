"""The demo: ends by itself, says what happened, and is judged from its ledger."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from holdfast.demo.ledger import Entry
from holdfast.demo.verdict import Cast, verdicts
from holdfast.domain.job import Attempt, Job
from holdfast.domain.states import State
from tests.cli.conftest import environment, start

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
        "Watch it at http://127.0.0.1:",
        "finished once each",
        "failed for good, with its reason",
    ):
        assert words in out
    assert [path.name for path in here.iterdir() if path.name.startswith("holdfast-demo-")] == []


def test_an_interrupted_demo_takes_its_workers_along(here: Path) -> None:
    with start("demo", "--clean", here=here, TMPDIR=str(here)) as demo:
        assert demo.stdout is not None
        url = re.sub(r"^Watch it at ", "", next(line for line in demo.stdout if "Watch it at" in line).strip())
        line = next(line for line in demo.stdout if "started two worker processes" in line)
        assert re.search(r"lease of 2 seconds", line)
        url, _, token = url.partition("?token=")
        known = {"authorization": f"Bearer {token}"}
        assert httpx.get(url, timeout=60).status_code == 401
        assert "<title>Jobs · Holdfast</title>" in httpx.get(url, headers=known, timeout=60).text
        assert httpx.get(f"{url}api/jobs", headers=known, timeout=60).json()["jobs"]
        demo.send_signal(signal.SIGTERM)
        # The workers hold copies of no pipe of ours; the demo itself waits for them before it ends.
        demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert [path.name for path in here.iterdir() if path.name.startswith("holdfast-demo-")] == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_without_the_extra_the_demo_says_how_to_get_it(here: Path) -> None:
    code = "import sys; sys.modules['fastapi'] = None; from holdfast.cli import main; main()"
    command = [sys.executable, "-c", code, "demo", "--clean"]
    with subprocess.Popen(command, cwd=here, env=environment(TMPDIR=str(here)), stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        said = [next(demo.stdout), next(demo.stdout)]
        assert "pip install 'holdfast[web]'" in said[1]
        assert "enqueued" in next(demo.stdout)
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=60)
    assert demo.returncode == 130


STAY = """
from holdfast.demo import after, pages, stage, story

with stage.Stage() as here:
    app, tasks = story._open(here)
    pages.write_documents(here.directory)
    here.start_page()
    after.stay(here, tasks, None)
    here.stop()
    here.remove()
"""


def test_while_the_page_stays_there_is_work_to_watch(here: Path) -> None:
    command = [sys.executable, "-c", STAY]
    with subprocess.Popen(command, cwd=here, env=environment(TMPDIR=str(here)), stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        url = next(line for line in demo.stdout if "The page is still there" in line).split()[-1]
        assert "Ctrl-C ends the demo" in next(line for line in demo.stdout if "ends" in line)
        url, _, token = url.partition("?token=")
        known = {"authorization": f"Bearer {token}"}
        id = httpx.get(f"{url}api/jobs", headers=known, timeout=60).json()["jobs"][0]["id"]
        wanted = {**known, "accept": "text/event-stream"}
        with httpx.stream("GET", f"{url}api/jobs/{id}/events", headers=wanted, timeout=60) as events:
            assert any(line == "event: progress" for line in events.iter_lines())
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=60)
    assert demo.returncode == 0


def job(id: str, state: State = State.SUCCEEDED, attempt: int = 1, error: str = "") -> Job:
    at = datetime.now(UTC)
    errors = (Attempt(at, 1, error, "", ""),) if error else ()
    return Job(
        id=id, task="t", queue="q", state=state, priority=1, attempt=attempt, attempts_max=3, token=1,
        created_at=at, error=error or None, errors=errors,
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


def test_what_a_person_stopped_is_no_part_of_the_verdict() -> None:
    stopped = {id: job(id, State.CANCELLED, error="WorkerLost") for id in ("long", "flaky")}
    found = list(verdicts(good() | stopped, entries("keyed", "long"), CAST))
    assert [verdict.holds for verdict in found] == [True] * 4
    assert "1 finished once each" in found[0].text
    assert "2 stopped by hand" in found[0].text


def test_the_verdict_sees_what_was_lost_or_done_twice() -> None:
    assert held(good(), entries("flaky", "keyed"))[0] is False
    assert held(good(), entries("flaky", "keyed", "long", "long"))[0] is False
    assert held(good(), entries("flaky", "keyed", "long", "dead"))[0] is False
    assert held(good() | {"x": job("x", State.RUNNING)}, entries("flaky", "keyed", "long"))[0] is False
    assert held(good() | {"long": job("long")}, entries("flaky", "keyed", "long"))[1] is False
    assert held(good() | {"flaky": job("flaky")}, entries("flaky", "keyed", "long"))[2] is False
    assert held(good() | {"dead": job("dead")}, entries("flaky", "keyed", "long", "dead"))[3] is False
    assert held(good(), entries("flaky", "keyed", "long"), CAST._replace(keyed_again="other"))[4] is False
