"""The parent's side of a child: start it, tell it what to do, read its figures, see it end."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.checkout import ROOT, environment
from bench.systems import Entry

END_SECONDS = 60
ANSWER_SECONDS = 900


class ChildFailed(RuntimeError):
    """A child ended or hung without an answer; what it said last is part of the message."""


class Child:
    def __init__(self, entry: Entry, directory: Path) -> None:
        self._system = entry.name
        self._errors = (directory / f"errors-{entry.name}.txt").open("a+")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.child", entry.module, entry.maker, str(directory), str(entry.checkout)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env=environment(entry.checkout),
        )

    def tell(self, verb: str, **arguments: Any) -> None:
        assert self._process.stdin
        try:
            print(json.dumps({"verb": verb, **arguments}), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise self._failure() from None

    def hear(self) -> dict[str, float]:
        assert self._process.stdout
        heard, _, _ = select.select([self._process.stdout], [], [], ANSWER_SECONDS)
        line = self._process.stdout.readline() if heard else ""
        if not line:
            raise self._failure()
        figures: dict[str, float] = json.loads(line)
        return figures

    def call(self, verb: str, **arguments: Any) -> dict[str, float]:
        self.tell(verb, **arguments)
        return self.hear()

    def __enter__(self) -> Self:
        try:
            self.hear()  # ready: imported, connected, schema there
        except ChildFailed:
            self._end()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind:
            self._process.kill()
        self._end()

    def _end(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def _failure(self) -> ChildFailed:
        self._errors.seek(0)
        said = self._errors.read().strip().splitlines()[-6:]
        return ChildFailed(f"{self._system}: " + ("\n    ".join(said) or f"no answer within {ANSWER_SECONDS} s"))
