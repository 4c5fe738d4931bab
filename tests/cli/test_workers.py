"""`workers` and `ping`, and what is said where nobody works."""

from __future__ import annotations

import re
import signal
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import Run, assert_one_line, start
from tests.cli.test_worker import read_until

APP = ("-a", "tasks")


def test_f28_workers_are_listed_and_pinged_while_they_live(cli: Run, here: Path) -> None:
    cli("migrate", *APP)
    assert cli("workers", *APP).out == "No workers.\n"
    assert cli("ping", *APP).out == f"{here}/jobs.db answers; living workers: none\n"
    assert_one_line(cli("ping", "--here", *APP), 1, f"no worker lives on {socket.gethostname()}", "living: none")
    with start("worker", "tasks", "--name", "w1", "-q", "a,b", "-c", "3", "--no-callbacks", here=here) as worker:
        read_until(worker, "works on")
        header, row = cli("workers", *APP).lines
        assert header.split() == ["NAME", "HOST", "PID", "QUEUES", "SLOTS", "RUNNING", "LAST", "BEAT", "SINCE"]
        assert re.fullmatch(rf"w1 +{socket.gethostname()} +{worker.pid} +a, b +3 +0 +\S+ ago +\d{{4}}-.*", row)
        [told] = cli("workers", *APP, "--json").json
        assert (told["name"], told["queues"], told["slots"], told["alive"]) == ("w1", ["a", "b"], 3, True)
        assert cli("ping", "--here", "--worker", "w1", *APP).code == 0
        assert_one_line(cli("ping", "--worker", "w2", *APP), 1, "no worker 'w2' lives", "living: w1")
        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=60)
    assert cli("ping", "--worker", "w1", *APP).code == 1


def test_f28_ping_fails_without_a_database(cli: Run, here: Path) -> None:
    assert_one_line(cli("ping", *APP), 1, f"there is no database at {here}/jobs.db")


@pytest.mark.parametrize("queue", ["default", "other"])
def test_f17_a_job_that_no_worker_takes_says_so(cli: Run, here: Path, queue: str) -> None:
    with start("worker", "tasks", "-q", "other", here=here) as worker:
        read_until(worker, "works on")
        id = cli("enqueue", "tasks", "add", "first=1", "--queue", queue, "--run-after", "1h", "--json").json["id"]
        reason = "no living worker takes queue default"
        assert (reason in cli("jobs", *APP).out) == (queue == "default")
        assert (reason in cli("show", id, *APP).out) == (queue == "default")
        worker.terminate()
        worker.communicate(timeout=60)
    assert f"no living worker takes queue {queue}" in cli("jobs", *APP).out


def test_f17_waiting_for_a_job_that_no_worker_takes_says_so_at_once(cli: Run, here: Path) -> None:
    with start("enqueue", "tasks", "add", "first=1", "--wait", here=here) as waiting:
        assert "no living worker takes queue default; start one: holdfast worker tasks\n" in read_until(waiting, "waiting for")
        assert cli("worker", "tasks", "--drain").code == 0
        out, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert out.splitlines()[-1].endswith("succeeded: 2")
