"""`holdfast serve`: where it listens, what it refuses, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Holdfast
from tests.until import PATIENCE, until
from tests.web.conftest import Serve
from tests.web.ground import ROOT, ProcessServer, Program

FOREIGN = "0.0.0.0"


def refused(*flags: str, url: str, prelude: str = "") -> str:
    """The one line that it says."""
    environment = {**os.environ, "HOLDFAST_URL": url, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    program = f"import sys; {prelude}\nfrom holdfast.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "tests.web.tasks:app", *flags]
    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode in (1, 2), ended.stderr
    (line,) = ended.stderr.splitlines()
    return line


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


def test_it_runs_jobs_where_it_was_asked_to_and_finishes_them_at_its_end(serve: Serve, app: Holdfast, tmp_path: Path) -> None:
    server, go_on = serve("--worker", "--concurrency", "2"), tmp_path / "go on"
    body = {"task": "talk", "kwargs": {"words": 2, "waits_for": str(go_on)}}
    id = server.client.post("/api/jobs", json=body).json()["id"]
    for event in app.events(id, follow=True):
        if event.kind == "word":
            break
    server.process.send_signal(signal.SIGTERM)
    go_on.touch()
    assert server.process.wait(PATIENCE) == 0, server.log
    done = app.get(id)
    assert done is not None
    assert (done.state, done.attempt) == ("succeeded", 1)


def test_a_second_signal_hands_back_what_runs(serve: Serve, app: Holdfast, tmp_path: Path) -> None:
    server = serve("--worker")
    job = app.task_named("talk").enqueue(2, waits_for=str(tmp_path / "never"))
    for event in app.events(job.id, follow=True):
        if event.kind == "word":
            break
    server.process.send_signal(signal.SIGTERM)
    until(lambda: "serving no more" in server.log, "it does not stop to serve")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE) == 0, server.log
    left = app.get(job.id)
    assert left is not None
    assert (left.state, left.attempt) == ("ready", 0)


def test_only_this_machine_is_served_unless_there_is_a_key(file_url: str) -> None:
    line = refused("--host", FOREIGN, "--port", "0", url=file_url)
    assert line.startswith("holdfast: host '0.0.0.0' can be reached from other machines, and there is no API key: make one with ")


def test_or_unless_that_is_said_in_so_many_words(serve: Serve, app: Holdfast) -> None:
    server = serve("--host", FOREIGN, "--insecure")
    assert server.client.get("/api/queues").status_code == 200
    app.add_key("first", "admin")
    keyed = serve("--host", FOREIGN)
    assert keyed.client.get("/api/queues").status_code == 401


def test_a_port_that_is_taken_is_one_line(file_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot serve on host '127.0.0.1', port {port}: Address already in use" in refused(
            "--port", str(port), url=file_url
        )


def test_a_host_that_is_none_is_one_line(file_url: str) -> None:
    assert "cannot serve on host 'no.such.host.invalid'" in refused("--host", "no.such.host.invalid", "--insecure", url=file_url)


@pytest.mark.parametrize("missing", ["fastapi", "uvicorn"])
def test_without_the_extra_it_is_one_line(file_url: str, missing: str) -> None:
    line = refused(url=file_url, prelude=f"sys.modules[{missing!r}] = None")
    assert line == f"holdfast: serve needs {missing}, which is not installed: pip install 'holdfast[web]'"


FEW_FILES = """
import resource
from holdfast.web.serving import take_all_files

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, min(hard, 4096) if hard != resource.RLIM_INFINITY else 4096))
take_all_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_a_server_may_open_as_many_files_as_the_system_lets_it() -> None:
    ran = subprocess.run([sys.executable, "-c", FEW_FILES], capture_output=True, text=True, timeout=60, check=True)
    soft, hard = ran.stdout.split()
    assert soft == hard != "64"


def test_h3_serve_prints_an_address_with_a_token_that_works_and_token_prints_the_same(
    file_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_WEB_INSECURE", "false")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    server = ProcessServer(file_url, tmp_path / "server.log")
    try:
        assert server.client.get("/api/session").status_code == 401
        link = server.wait_for("Open ")
        address, _, token = link.partition("/?token=")
        assert address == f"http://127.0.0.1:{server.port}"
        known = {"authorization": f"Bearer {token}"}
        assert server.client.get("/api/session", headers=known).json()["scope"] == "admin"
        printed = Program(file_url, tmp_path / "token.log", "token")
        assert printed.process.wait(PATIENCE) == 0
        assert printed.log == f"{token}\n"
        made = Program(file_url, tmp_path / "key.log", "keys", "add", "first")
        assert made.process.wait(PATIENCE) == 0
        refused = Program(file_url, tmp_path / "refused.log", "token")
        assert (refused.process.wait(PATIENCE), refused.log.count("\n")) == (1, 1)
        assert "there are API keys, so the token opens nothing any more" in refused.log
    finally:
        server.close()
