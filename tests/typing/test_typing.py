"""mypy --strict accepts the examples, and rejects what would fail when it is run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

HERE = Path(__file__).parent
EXAMPLES = HERE / "examples.py"
SOURCES = Path(holdfast.__file__).parents[1]

REJECTED = """
import sqlite3
from tests.typing.examples import analyse, anything, app, crunch, nothing, plain, with_context
from holdfast import Context, Holdfast, Job, Key, Retry

analyse.enqueue(document=3)                       # the type of an argument
analyse.enqueue()                                 # a missing argument
analyse.enqueue("a.pdf", dokument="b")            # an unknown keyword
analyse.enqueue("a.pdf", "big")                   # a keyword-only argument by position
plain.enqueue("a.pdf", "3")                       # the type of a second argument
plain.bind(3)                                     # a wrong bind
plain.bind("a.pdf", sheets=3)                     # a wrong bind, by keyword
plain.using(key=Key("k")).enqueue(3)              # through using
plain.using(on=sqlite3.connect("x")).enqueue()    # through using(on=)
plain.using(prio=3)                               # an unknown option
plain.using(priority="high")                      # the type of an option
with_context.enqueue()                            # the context does not count as an argument
with_context.enqueue("a.pdf", "b.pdf")            # and cannot be given
nothing.enqueue(1)                                # no arguments at all
crunch.enqueue("1, 2")                            # the type of a list
crunch.enqueue([1.0, "2"])                        # of a list's item
anything.enqueue("a", "b")                        # after a first argument that may be anything
wrong: str = plain("a.pdf")                       # what calling it returns
wrong_result: str = plain.enqueue("a.pdf").result  # F26: what its job's result is
wrong_later: str = app.wait(plain.enqueue("a.pdf")).result  # and after it was waited for
also_wrong: Job = analyse.aenqueue("a.pdf")       # a forgotten await
app.enqueue_many([1, 2, 3])                       # things that are no jobs
app.finish("lease")                               # a lease that is none
app.claim(seconds="60")                           # the type of a duration
Retry(delays="soon")                              # of a schedule
Key("a", conflict="ignore")                       # a word that is not one of the three
Key(1.5)                                          # a part that is no text and no whole number
app.task(queue=3)                                 # the type of a task's option
app.worker(concurrency="4")                       # of a worker's
"""


def test_mypy_accepts_the_examples_and_rejects_the_mistakes(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    pytest.importorskip("mypy")
    mistakes = tmp_path / "mistakes.py"
    mistakes.write_text(REJECTED)
    cache = pytestconfig.cache.mkdir("mypy") if pytestconfig.cache else tmp_path / "mypy"
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(cache), "--namespace-packages",
         "--explicit-package-bases", "--no-error-summary", str(EXAMPLES), str(mistakes)],
        capture_output=True, text=True, timeout=110, cwd=HERE.parents[1],
        env={"MYPYPATH": f"{SOURCES}:{HERE.parents[1]}:{tmp_path}", "PATH": ""},
    )  # fmt: skip
    errors = re.findall(r"^(.+?):(\d+): error: (.*)$", ended.stdout, re.MULTILINE)
    elsewhere = [error for error in errors if not error[0].endswith("mistakes.py")]
    assert elsewhere == [], ended.stdout
    found = {int(line) for _, line, _ in errors}
    expected = {number for number, line in enumerate(REJECTED.splitlines(), 1) if "  # " in line}
    missed = [REJECTED.splitlines()[number - 1] for number in sorted(expected - found)]
    assert missed == [], ended.stdout + ended.stderr
    assert found == expected
    assert 'No overload variant of "enqueue" of "Task" matches argument type "int"' in ended.stdout


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(holdfast.__file__).parent / "py.typed").exists()
