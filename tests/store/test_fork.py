"""Forks of a process that uses an SQLite file (C1, C2): what the child is acknowledged is kept, or the child refuses.

Each runs in a process of its own: to fork a test runner, which has threads, would be asking for trouble.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import Holdfast

SECONDS = 60.0
PRELUDE = """
import multiprocessing, os, signal, sqlite3, sys, threading
from holdfast import Holdfast, StoreUnavailable
app = Holdfast(sys.argv[1])
@app.task(name="double")
def double(number: int) -> int:
    return number * 2
def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
def work_in_child():
    "Opens the file, waits until the test has looked at what the parent did, and goes on."
    say(double.enqueue(1).id)
    say("ready")
    sys.stdin.readline()
    for number in range(20):
        say(double.enqueue(number).id)
    os._exit(0)
double.enqueue(0)
app.jobs()
"""
LEAVES = """
if os.fork() == 0:
    work_in_child()
"""
CLOSES = """
child = os.fork()
if child == 0:
    work_in_child()
app.close()
os.waitpid(child, 0)
"""
IS_KILLED = """
if os.fork() == 0:
    work_in_child()
os.kill(os.getpid(), signal.SIGKILL)
"""
MULTIPROCESSING = """
process = multiprocessing.get_context("fork").Process(target=work_in_child)
process.start()
app.close()
process.join()
"""


@contextmanager
def program(text: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    # From 3.12 on Python warns of every fork beside threads, which is what these programs do on purpose.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PRELUDE + text, f"sqlite:///{path}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def ids_of(process: subprocess.Popen[str]) -> list[str]:
    """All that is left to read; an end of file means that the child has ended, too."""
    out, error = process.communicate(timeout=SECONDS)
    assert error == "", error
    return [line for line in out.split("\n") if line]


@pytest.mark.parametrize(
    "text", [LEAVES, CLOSES, IS_KILLED, MULTIPROCESSING], ids=["leaves", "closes", "killed", "multiprocessing"]
)
def test_c1_what_a_forked_child_is_acknowledged_is_kept_whatever_its_parent_does(text: str, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with program(text, path) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        first, ready = process.stdout.readline().strip(), process.stdout.readline().strip()
        assert ready == "ready"
        if text in (LEAVES, IS_KILLED):
            process.wait(SECONDS)
        with Holdfast(f"sqlite:///{path}") as other:  # the last to close would delete the log, if nobody else had locks
            other.jobs()
        assert path.with_name("jobs.db-wal").exists()
        process.stdin.write("\n")
        ids = [first, *ids_of(process)]
    with Holdfast(f"sqlite:///{path}") as app:
        assert len(ids) == 21
        assert [id for id in ids if app.get(id) is None] == []


BUSY = """
stop = threading.Event()
def write():
    while not stop.is_set():
        app.enqueue_many(double.bind(number) for number in range(300))
def read():
    while not stop.is_set():
        app.jobs(limit=100)
threads = [threading.Thread(target=work) for work in (write, write, read, read)]
for thread in threads:
    thread.start()
children = []
for _ in range(12):
    child = os.fork()
    if child == 0:
        say(double.enqueue(1).id)
        say(double.enqueue(2).id)
        app.close()
        os._exit(0)
    children.append(child)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 12
stop.set()
for thread in threads:
    thread.join()
say(double.enqueue(3).id)
"""


def test_c2_children_that_were_forked_beside_threads_that_write_and_read_can_write(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with program(BUSY, path) as process:
        ids = ids_of(process)
    with Holdfast(f"sqlite:///{path}") as app:
        assert len(ids) == 25
        assert [id for id in ids if app.get(id) is None] == []


REFUSED = """
def refused(what):
    child = os.fork()
    if child == 0:
        try:
            double.enqueue(1)
        except StoreUnavailable as error:
            say(error)
        os._exit(0)
    os.waitpid(child, 0)
"""
OWN_CONNECTION = f"""{REFUSED}
own = sqlite3.connect(sys.argv[1].removeprefix("sqlite:///"))
own.execute("SELECT count(*) FROM sqlite_master")
refused("a connection of the program's own is open")
own.close()
say(double.enqueue(2).id)
if os.fork() == 0:
    say(double.enqueue(3).id)
    os._exit(0)
os.wait()
"""
IN_A_COMMIT = f"""{REFUSED}
def probe(step):
    if step == "commit":
        app.store.probe = None
        refused("in the middle of a commit")
app.store.probe = probe
say(double.enqueue(2).id)
"""


@pytest.mark.parametrize(("text", "jobs"), [(OWN_CONNECTION, 2), (IN_A_COMMIT, 1)], ids=["own connection", "in a commit"])
def test_c1_a_child_that_inherits_the_open_file_refuses_it_in_one_line(text: str, jobs: int, tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with program(text, path) as process:
        error, *ids = ids_of(process)
    assert error == (
        f"{path} was open in the process that this one was forked from, and SQLite's locks do not survive a fork; "
        "close connections of your own before the fork, or start this process with spawn"
    )
    with Holdfast(f"sqlite:///{path}") as app:
        assert len(ids) == jobs
        assert all(app.get(id) is not None for id in ids)


IN_A_TASK = """
@app.task(name="fork")
def fork() -> int:
    child = os.fork()
    if child == 0:
        double.enqueue(7)
        os._exit(0)
    return os.waitpid(child, 0)[1]
job = fork.enqueue()
app.worker(concurrency=2).run_until_empty()
say(app.get(job.id).result, len(app.jobs()), {found.state.value for found in app.jobs()})
"""


def test_a_worker_goes_on_after_a_fork_in_one_of_its_tasks(tmp_path: Path) -> None:
    with program(IN_A_TASK, tmp_path / "jobs.db") as process:
        assert ids_of(process) == ["0 3 {'succeeded'}"]


def test_a_follower_goes_on_after_a_fork(tmp_path: Path) -> None:
    text = """
job = double.enqueue(5)
kinds = []
def follow():
    for event in app.events(job.id, follow=True):
        kinds.append(event.kind)
        started.set()
started = threading.Event()
thread = threading.Thread(target=follow)
thread.start()
started.wait(20)
child = os.fork()
if child == 0:
    app.worker().run_until_empty()
    os._exit(0)
os.waitpid(child, 0)
thread.join(20)
say(*kinds)
"""
    with program(text, tmp_path / "jobs.db") as process:
        assert ids_of(process) == ["enqueued started succeeded"]
