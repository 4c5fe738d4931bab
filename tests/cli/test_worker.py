"""`worker` as a real process: drains, stops when told, starts again when its code changes, logs one line per message."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.cli.logs import JsonLines, Lines
from holdfast.store import browse
from tests.cli.conftest import Run, assert_one_line, start

WAITING = """
from pathlib import Path
from holdfast import Context, Holdfast
app = Holdfast("sqlite:///jobs.db")

@app.task
def wait(ctx: Context) -> str:
    ctx.emit("here")
    with open("gate") as gate:
        return gate.read()
"""


def read_until(process: subprocess.Popen[str], word: str) -> str:
    """The first line on stderr that has this word."""
    assert process.stderr is not None
    for line in process.stderr:
        if word in line:
            return line
    raise AssertionError(f"the process ended without saying {word!r}")


def test_drain_runs_everything_and_exits(cli: Run, app: Holdfast, here: Path) -> None:
    ids = [cli("enqueue", "tasks", "add", f"first={number}", "--json").json["id"] for number in range(5)]
    later = cli("enqueue", "tasks", "add", "first=1", "--run-after", "1h", "--json").json["id"]
    with start("worker", "tasks", "--drain", "-c", "2", "--name", "w1", here=here) as worker:
        out, err = worker.communicate(timeout=60)
    assert (worker.returncode, out) == (0, "")
    assert all(line.split()[2] == "INFO" for line in err.splitlines())
    assert [app.wait(id, timeout=5).result for id in ids] == [1, 2, 3, 4, 5]
    job = app.get(later)
    assert job is not None
    assert job.state == "scheduled"


@pytest.mark.parametrize("flags", [(), ("--retries",)])
def test_f19_drain_tells_what_is_left_and_waits_for_retries_if_asked(cli: Run, here: Path, flags: tuple[str, ...]) -> None:
    cli("enqueue", "tasks", "add", "first=1", "--run-after", "1h")
    with start("worker", "tasks", "--drain", "--name", "w1", *flags, here=here) as worker:
        _, err = worker.communicate(timeout=60)
    assert worker.returncode == 0
    assert "worker w1: left are 1 scheduled, 0 ready and 0 running jobs" in err


def test_only_the_queues_that_were_asked_for(cli: Run, app: Holdfast) -> None:
    for queue in ("a", "b", "c"):
        cli("enqueue", "tasks", "add", "first=1", "--queue", queue)
    assert cli("worker", "tasks", "--drain", "-q", "a,b").code == 0
    assert {job.queue: str(job.state) for job in app.jobs()} == {"a": "succeeded", "b": "succeeded", "c": "ready"}


def test_sigterm_lets_the_running_job_finish(cli: Run, app: Holdfast, here: Path) -> None:
    (here / "waiting.py").write_text(WAITING)
    os.mkfifo(here / "gate")
    id = cli("enqueue", "waiting", "wait", "--json").json["id"]
    with start("worker", "waiting", here=here) as worker:
        next(event for event in app.events(id, follow=True) if event.kind == "here")
        worker.send_signal(signal.SIGTERM)
        read_until(worker, "SIGTERM")
        (here / "gate").write_text("opened")
        worker.communicate(timeout=60)
    assert worker.returncode == 0
    job = app.get(id)
    assert job is not None
    assert (job.state, job.result) == ("succeeded", "opened")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("-c", "0"), ("concurrency 0",)),
        (("-c", "ten"), ("--concurrency",)),
        (("--lease", "soon"), ("--lease 'soon' is not a duration",)),
        (("--lease", "1ms"), ("too short",)),
        (("--grace", "-1"), ("--grace '-1' is not a duration",)),
        (("--retries",), ("--retries goes with --drain",)),
        (("-q", "a,,b"), ("holds an empty name",)),
        (("-q", "a b"), ("queue 'a b'",)),
        (("--log-level", "loud"), ("--log-level 'loud' is unknown", "debug, info")),
        (("--log", "xml"), ("--log 'xml' is unknown", "text, json")),
    ],
)
def test_a_wrong_flag_is_one_line(cli: Run, flags: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert_one_line(cli("worker", "tasks", *flags), 2, *words)


def test_every_flag_has_an_environment_variable(cli: Run, here: Path, app: Holdfast) -> None:
    cli("enqueue", "tasks", "add", "first=1", "--queue", "q")
    flags = {"DRAIN": "1", "QUEUE": "q,r", "CONCURRENCY": "3", "NAME": "named", "LEASE": "5s", "GRACE": "1s"}
    variables = {f"HOLDFAST_WORKER_{name}": value for name, value in flags.items()}
    with start("worker", "tasks", here=here, HOLDFAST_LOG_FORMAT="json", **variables) as worker:
        _, err = worker.communicate(timeout=60)
    first, *_ = said = [json.loads(line) for line in err.splitlines()]
    assert worker.returncode == 0
    assert "worker named works on q, r, 3 at a time" in [each["message"] for each in said]
    assert set(first) == {"at", "level", "logger", "message"}


def test_a_worker_that_fails_leaves_its_jobs_to_others(app: Holdfast) -> None:
    """Its row in the store is what they expire by: it must not sign off while it holds them."""

    ran: list[int] = []

    @app.task
    def add(first: int) -> int:
        ran.append(first)
        return first

    def fail(verb: str) -> None:
        if verb == "notices" and ran:  # of every transaction, with reports and without
            raise RuntimeError("a bug")

    add.enqueue(1)
    app.store.probe = fail
    with pytest.raises(RuntimeError, match="a bug"):
        app.worker().run_until_empty()
    app.store.probe = None
    [job] = app.jobs()
    [worker] = app.store.read(lambda _: browse.workers())
    assert (job.state, worker[-1]) == ("running", 1)


# Reload


def test_reload_starts_again_when_a_loaded_file_changes(cli: Run, app: Holdfast, here: Path) -> None:
    with start("worker", "tasks", "--reload", "--name", "w1", here=here) as parent:
        try:
            read_until(parent, "works on all queues")
            code = (here / "tasks.py").read_text()
            (here / "tasks.py").write_text(code.replace("return first + second", "return 100 + first + second"))
            assert "tasks.py changed" in read_until(parent, "changed")
            read_until(parent, "works on all queues")
            id = cli("enqueue", "tasks", "add", "first=1", "--json").json["id"]
            assert app.wait(id, timeout=60).result == 102
        finally:
            parent.terminate()
            parent.communicate(timeout=60)
    assert parent.returncode == 0


def test_reload_waits_for_the_cure_of_a_broken_module(here: Path) -> None:
    code = (here / "tasks.py").read_text()
    (here / "tasks.py").write_text("def (")
    with start("worker", "tasks", "--reload", here=here) as parent:
        try:
            assert "SyntaxError" in read_until(parent, "cannot be imported")
            read_until(parent, "waiting for a change")
            (here / "tasks.py").write_text(code)
            read_until(parent, "works on all queues")
        finally:
            parent.terminate()
            parent.communicate(timeout=60)
    assert parent.returncode == 0


def test_reload_ends_with_a_worker_that_is_done(here: Path, cli: Run) -> None:
    cli("enqueue", "tasks", "add", "first=1")
    with start("worker", "tasks", "--reload", "--drain", here=here) as parent:
        parent.communicate(timeout=60)
    assert parent.returncode == 0


def test_reload_gives_up_on_a_module_that_is_not_there(here: Path) -> None:
    with start("worker", "missing", "--reload", here=here) as parent:
        _, err = parent.communicate(timeout=60)
    assert parent.returncode == 2
    assert "there is no module 'missing'" in err


# The log


def record(message: str, *args: object, name: str = "holdfast.worker") -> logging.LogRecord:
    return logging.LogRecord(name, logging.WARNING, __file__, 1, message, args, None)


def test_f30_a_log_line_begins_with_its_date() -> None:
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d WARNING hello$", Lines().format(record("hello")))


def test_f30_a_worker_without_jobs_stops_without_counting_them(here: Path) -> None:
    with start("worker", "tasks", here=here) as worker:
        read_until(worker, "works on")
        worker.send_signal(signal.SIGTERM)
        assert read_until(worker, "SIGTERM").endswith("SIGTERM: nothing runs here; stopping\n")
        worker.communicate(timeout=60)


def test_a_log_line_is_one_line() -> None:
    line = Lines().format(record("job %s said %s", "1", "x\r\n2000-01-01 INFO \x1b[2Jforged\u202e"))
    assert line.count("\n") == 0
    assert line.endswith("WARNING job 1 said x\\r\\n2000-01-01 INFO \\x1b[2Jforged\\u202e")
    assert Lines().format(record("hello", name="myapp.mail")).endswith("myapp.mail: hello")


def test_a_json_log_line_is_ascii() -> None:
    line = JsonLines().format(record("said %s", "\x1b\n\u202e\x7f"))
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["message"] == "said \x1b\n\u202e\x7f"
