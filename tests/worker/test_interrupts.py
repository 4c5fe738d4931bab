"""F4, F5: a program that ends under its worker hands its jobs back: none fails, none loses an attempt, and Ctrl-C ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.until import PATIENCE

from holdfast import Holdfast, Job, Retry

_PROGRAM = """
import asyncio, sys, threading, time
from holdfast import Holdfast, Retry

app = Holdfast(f"sqlite:///{sys.argv[1]}")

def wait():
    print("begun", flush=True)
    time.sleep(60)  # blocks on purpose: until the program is ended

@app.task(name="thread", retry=Retry(1))
def in_thread(): wait()

@app.task(name="process", process=True, retry=Retry(1))
def in_process(): wait()

@app.task(name="loop", retry=Retry(1))
async def in_loop():
    print("begun", flush=True)
    await asyncio.sleep(60)  # blocks on purpose

async def beside(worker):
    working = asyncio.create_task(worker.arun())
    await asyncio.Event().wait()

def by_hand(worker):
    loop = asyncio.new_event_loop()
    working = loop.create_task(worker.arun())
    loop.run_until_complete(asyncio.wait_for(asyncio.shield(working), 60))

def drains(worker):
    print("left:", worker.run_until_empty())

def exits(worker):
    threading.Thread(target=worker.run, daemon=True).start()
    sys.stdin.readline()
    sys.exit(3)

if __name__ == "__main__":
    app.task_named(sys.argv[2]).enqueue()
    worker = app.worker(grace=float(sys.argv[4]))
    if sys.argv[3] == "beside":
        asyncio.run(beside(worker))
    else:
        {"by hand": by_hand, "exits": exits, "drains": drains}[sys.argv[3]](worker)
"""


def _found(tmp_path: Path) -> Job:
    with Holdfast(f"sqlite:///{tmp_path}/jobs.db") as app:
        return app.jobs()[0]


@pytest.mark.parametrize("kind", ["thread", "process", "loop"])
@pytest.mark.parametrize(
    ("how", "interrupts", "grace"),
    [("beside", 1, 0.1), ("beside", 2, 60), ("by hand", 1, 60), ("exits", 0, 60)],
    ids=["asyncio.run", "asyncio.run, twice", "a loop by hand", "sys.exit"],
)
def test_f4_a_program_that_ends_under_its_worker_hands_its_jobs_back(
    tmp_path: Path, kind: str, how: str, interrupts: int, grace: float
) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    command = [sys.executable, str(program), f"{tmp_path}/jobs.db", kind, how, str(grace)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "begun\n"
        if interrupts:
            os.kill(process.pid, signal.SIGINT)
        if interrupts == 2 and kind != "loop":
            threading.Event().wait(0.3)  # blocks on purpose: the first must have been understood
            os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate("\n", timeout=PATIENCE)
    job = _found(tmp_path)
    assert (job.state, job.attempt, job.error) == ("ready", 0, None), errors
    assert process.returncode == (3 if how == "exits" else -signal.SIGINT), errors


@pytest.mark.parametrize("kind", ["thread", "loop"])
def test_f5_ctrl_c_ends_a_program_that_runs_until_empty_and_tells_what_it_waits_for(tmp_path: Path, kind: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    command = [sys.executable, str(program), f"{tmp_path}/jobs.db", kind, "drains", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "begun\n"
        os.kill(process.pid, signal.SIGINT)
        told = process.stderr.readline()
        os.kill(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE)
    assert told == "SIGINT: finishing 1 job, for at most 60 s; once more hands them back\n"
    assert errors.startswith("SIGINT: handing back 1 job\n")
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert (output, process.returncode) == ("", -signal.SIGINT)
    job = _found(tmp_path)
    assert (job.state, job.attempt) == ("ready", 0)


def test_f4_ctrl_c_inside_a_jobs_own_code_is_meant_for_the_program(tmp_path: Path) -> None:
    """In a loop by hand, the signal interrupts whatever code runs at that moment."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # other tests of the process may have left their own
    try:
        interrupted_inside_a_job(tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)


def interrupted_inside_a_job(tmp_path: Path) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(name="busy", retry=Retry(1))
    async def busy() -> None:
        worker.stop()  # so that it is not claimed again
        signal.raise_signal(signal.SIGINT)

    busy.enqueue()
    loop, worker = asyncio.new_event_loop(), app.worker()
    working = loop.create_task(worker.arun())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(working)
    loop.run_until_complete(working)
    loop.close()
    job = app.jobs()[0]
    assert (job.state, job.attempt, job.error) == ("ready", 0, None)


@pytest.mark.parametrize("how", ["own task", "awaited"])
def test_f4_a_task_that_cancels_itself_has_failed(tmp_path: Path, how: str) -> None:
    app = Holdfast(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def giving_up() -> None:
        if how == "own task":
            asyncio.get_running_loop().call_soon(_current().cancel)
            await asyncio.Event().wait()
        other = asyncio.create_task(asyncio.Event().wait())
        other.cancel()
        await other

    job = giving_up.using(attempts=1).enqueue()
    app.worker().run_until_empty()
    found = app.wait(job.id)
    assert (found.state, found.error) == ("failed", "CancelledError: the task's code cancelled itself")


def _current() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task
