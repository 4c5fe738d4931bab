"""A directory with a module of tasks in it, and the program: called in this process, or started as a real one."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast import Holdfast
from holdfast.cli.program import run as run_program

SOURCE = str(Path(holdfast.__file__).parents[1])
MODULE = '''
"""Tasks that the tests run."""
from holdfast import Context, Fatal, Holdfast, Retry

app = Holdfast("sqlite:///jobs.db")

@app.task
def add(first: int, second: int = 1) -> int:
    return first + second

@app.task
def greet(name: str) -> str:
    return f"hello {name}"

@app.task
def anything(value):
    return value

@app.task(retry=Retry(1))
def hostile(ctx: Context, text: str) -> None:
    ctx.progress(1, 2, note=text)
    ctx.emit("said", {"text": text})
    raise ValueError(text)

@app.task(queue="other", retry=Retry(1))
def hopeless(ctx: Context) -> None:
    ctx.meter(tokens=3)
    raise Fatal("no use")
'''


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Run = Callable[..., Answer]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory: empty but for `tasks.py`. What is imported from it is forgotten afterwards."""
    (tmp_path / "tasks.py").write_text(MODULE, encoding="utf-8")
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def cli(here: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    """`holdfast ARGUMENTS`, in this process, with its output as a pipe would get it."""

    def run(*arguments: str) -> Answer:
        capfd.readouterr()
        before = os.environ.get("HOLDFAST_URL")
        code = run_program(arguments)
        os.environ.pop("HOLDFAST_URL", None)  # a process of its own would have taken it along
        os.environ.update({} if before is None else {"HOLDFAST_URL": before})
        out, err = capfd.readouterr()
        return Answer(code, out, err)

    return run


@pytest.fixture
def app(here: Path) -> Iterator[Holdfast]:
    """The same database as that of `tasks.py`; it has no tasks of its own."""
    with Holdfast("sqlite:///jobs.db") as opened:
        yield opened


@pytest.fixture
def drained(cli: Run) -> Run:
    """Enqueue a job, run a worker until nothing is left, and give what `enqueue` answered."""

    def run(*arguments: str) -> Answer:
        answer = cli("enqueue", "tasks", *arguments, "--json")
        assert answer.code == 0, answer.err
        assert cli("worker", "tasks", "--drain").code == 0
        return answer

    return run


@contextmanager
def start(*arguments: str, here: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """`python -m holdfast ARGUMENTS` as a process of its own; whatever the test does, it does not outlive it."""
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
        cwd=here,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def on_terminal(arguments: Sequence[str], here: Path, answers: Mapping[str, str], **variables: str) -> tuple[int, str]:
    """`holdfast ARGUMENTS` on a terminal, where each text that appears is answered by what a person types; code and screen."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "holdfast", *arguments]
    with subprocess.Popen(
        command, cwd=here, env=environment(**variables), stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:  # fmt: skip
        os.close(slave)
        shown, waiting = "", dict(answers)
        with suppress(OSError), closing(os.fdopen(master, "rb", 0)) as terminal:  # EIO: the other end was closed
            while part := terminal.read(4096):
                shown += part.decode()
                for text in [text for text in waiting if text in shown]:
                    os.write(master, waiting.pop(text).encode())
    return process.returncode, shown.replace("\r\n", "\n")


def environment(**variables: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("HOLDFAST_")}
    return {**kept, "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1", **variables}


def assert_one_line(answer: Answer, code: int, *words: str) -> None:
    """An error as users must see it."""
    assert answer.code == code, answer
    assert answer.out == ""
    assert re.fullmatch(r"holdfast: [^\n]+\n", answer.err), answer.err
    assert "Traceback" not in answer.err
    for word in words:
        assert word in answer.err
