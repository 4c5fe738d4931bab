"""Tasks for the tests of child processes. A module without pytest in it, so that a child is up soon."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import gc
import logging
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import Cancelled, Context, Fatal, Holdfast, Retry, RetryAfter, Skip, Snooze, current_job
from holdfast.testing.elsewhere import elsewhere

app = Holdfast("sqlite:///unused.db")
task = app.task(process=True, retry=Retry(3, delays=[10], jitter=0))


class Odd(ValueError):
    pass


class Odder(Odd):
    pass


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@dataclass
class Page:
    number: int
    text: str


@task
def add(first: int, second: int = 1) -> int:
    return first + second


@task
async def add_later(first: int, second: int) -> int:
    await asyncio.sleep(0)
    return first + second


@task
def whoami() -> list[Any]:
    thread = threading.current_thread() is threading.main_thread()
    return [os.getpid(), os.getppid(), thread, __name__]


@task
def fail(name: str) -> None:
    errors: dict[str, BaseException] = {
        "odd": Odd("not even"),
        "speechless": Speechless(),
        "exit": SystemExit(3),
        "surrogate": ValueError("\ud800"),
        "huge": ValueError("x" * 1_000_000),
        "retry": RetryAfter(7.5, "come back"),
        "snooze": Snooze(60),
        "snooze-surrogate": Snooze(60, "\ud800"),
        "snooze-error": Snooze(60, ValueError("no text")),  # type: ignore[arg-type]
        "skip": Skip("not needed"),
        "skip-error": Skip(ValueError("no text")),  # type: ignore[arg-type]
        "fatal": Fatal("no hope"),
        "cancelled": Cancelled("changed my mind"),
    }
    raise errors[name]


@task
def write_log(text: str) -> str | None:
    log = logging.getLogger("shop.child")
    log.debug("debug %s", text)
    log.info("info %s", text, extra={"colour": "red"})
    try:
        _ = 1 / 0
    except ZeroDivisionError:
        log.exception("error %s", text)
    job = current_job()
    return None if job is None else job.id


@task
def unstorable() -> object:
    return object()


@task
def large(text: str) -> str:
    return text


@task
def talk(ctx: Context, pages: int) -> list[Any]:
    for page in range(1, pages + 1):
        ctx.progress(page, pages, engine="tesseract")
        ctx.emit("page", {"n": page})
    ctx.meter(seconds=1.5)
    ctx.meter(seconds=1.0, pages=pages)
    return [ctx.token, ctx.attempt, ctx.job.id]


@task
def talk_from_many_threads(ctx: Context, threads: int, words: int) -> None:
    def chatter(number: int) -> None:
        for word in range(words):
            ctx.emit("word", [number, word])
            ctx.meter(words=1)

    chatterers = [threading.Thread(target=chatter, args=(number,)) for number in range(threads)]
    for chatterer in chatterers:
        chatterer.start()
    for chatterer in chatterers:
        chatterer.join()


@task
def talk_nonsense(ctx: Context) -> None:
    ctx.progress(float("nan"))


@task
def describe(ctx: Context, page: Page) -> list[Any]:
    job = ctx.job
    return [job.task, job.queue, type(job.arguments["page"]).__name__, page.number, job.tags, job.meta, job.attempts_max]


@task
def resume(ctx: Context) -> None:
    """What the first attempt said is still there in the second."""
    ctx.meter(rounds=1)
    if ctx.attempt == 1:
        ctx.progress(3, 4, note="first")
        raise Odd("once more")
    ctx.progress(4)


@task
def hold_the_lock(ctx: Context, seconds: int) -> None:
    ctx.emit("holding", os.getpid())
    ctypes.PyDLL(None).sleep(seconds)  # a C call that does not let any other thread of Python run


@task
def wait_for_ever(ctx: Context) -> None:
    ctx.emit("waiting", os.getpid())
    threading.Event().wait()


@task
async def wait_for_ever_in_a_loop(ctx: Context) -> None:
    ctx.emit("waiting", os.getpid())
    await asyncio.Event().wait()


@task
def wait_the_first_time(ctx: Context) -> int:
    if ctx.token == 1:
        ctx.emit("waiting", os.getpid())
        threading.Event().wait()
    return ctx.token


@task
def wait_twice(ctx: Context) -> int:
    if ctx.token <= 2:
        ctx.emit("waiting", os.getpid())
        threading.Event().wait()
    return ctx.token


@app.task(process=True, timeout=30, retry=Retry(2, delays=[5], jitter=0))
def wait_too_long(ctx: Context) -> int:
    if ctx.attempt == 1:
        ctx.emit("waiting", os.getpid())
        ctypes.PyDLL(None).sleep(600)
    return ctx.attempt


@task
def wait_for_a_word(ctx: Context, gate: str) -> str:
    ctx.emit("waiting", os.getpid())
    return Path(gate).read_text()


@task
def enqueue_another(ctx: Context, url: str) -> str:
    with elsewhere(app, url):
        return add.using(parent=ctx.job.id).enqueue(1).id


@task
def start_a_program(ctx: Context) -> None:
    program = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    ctx.emit("program", program.pid)
    program.wait()


@task
def terminate_a_program() -> int:
    command = [sys.executable, "-c", "print('up', flush=True); input()"]
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert program.stdout
    program.stdout.readline()
    program.terminate()
    return program.wait()


@task
def terminate_a_fork() -> int | None:
    fork = multiprocessing.get_context("fork").Process(target=signal.pause)
    fork.start()
    fork.terminate()
    fork.join()
    return fork.exitcode


@task
def die_with_a_fork_left(ctx: Context) -> None:
    if not (fork := os.fork()):
        signal.pause()
    ctx.emit("forked", fork)
    os._exit(4)


@task
def exit_hard(code: int) -> None:
    os._exit(code)


@task
def crash() -> None:
    faulthandler.disable()  # its report would only clutter the output of the tests
    os.kill(os.getpid(), signal.SIGSEGV)


@task
def die_the_first_time(ctx: Context, how: str) -> int:
    if ctx.attempt > 1:
        return ctx.attempt
    faulthandler.disable()
    if how == "exit":
        os._exit(7)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    ctypes.string_at(0)
    return 0


@task
def leave_a_chatterbox(ctx: Context) -> None:
    gate = threading.Event()
    _chatterboxes.append(gate)

    def chatter() -> None:
        gate.wait()
        ctx.emit("late", None)
        _spoken.set()

    threading.Thread(target=chatter, daemon=True).start()


_chatterboxes: list[threading.Event] = []
_spoken = threading.Event()


@task
def let_it_chatter() -> str:
    _chatterboxes.pop().set()
    _spoken.wait()
    return "quiet"


@task
def show(text: str) -> None:
    print(text)


class _OnlyWrites:
    def write(self, text: str) -> int:
        return len(text)


@task
def replace_stdout(how: str) -> str:
    if how == "closed":
        sys.stdout.close()
    else:
        vars(sys)["stdout"] = None if how == "none" else _OnlyWrites()
    return how


@task
def environment() -> list[Any]:
    return [os.environ.get("PYTHONPATH"), sys.path, sys.argv]


@task
def memory_kilobytes() -> int:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


@task
def descriptors() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            continue
    return found


@app.task(process=True, retry=Retry(2, delays=[5], jitter=0, on=ValueError, never=Odder))
def choosy(name: str) -> None:
    raise {"value": ValueError, "odd": Odd, "odder": Odder, "key": KeyError}[name](name)


@task
def finish_itself(ctx: Context, path: str) -> None:
    with sqlite3.connect(path) as connection:
        ctx.finish(on=connection, result="early")


@task
async def finish_itself_later(ctx: Context, path: str) -> None:
    with sqlite3.connect(path) as connection:
        await ctx.afinish(on=connection, result="early")


@app.task
def add_in_a_thread(first: int) -> int:
    return first + 1


@app.task
async def add_in_the_loop(first: int) -> int:
    return first + 1


@task
def fork_and_return(pipe: str) -> int:
    """The new process returns as the old one does; how it ended is the result."""
    pid = os.fork()
    if pid == 0:
        return 7
    with open(pipe, "w") as file:
        file.write(str(pid))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@app.task
def fork_in_thread(pipe: str) -> int:
    return fork_and_return(pipe)


@task
def emit_without_end(ctx: Context) -> None:
    while True:
        ctx.emit("chunk", "x" * 60_000)
