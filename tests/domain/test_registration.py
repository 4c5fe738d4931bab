"""What @app.task refuses, and what it says to a function whose context is not annotated."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, PayloadError, SettingError
from holdfast.errors import check_platform


@pytest.fixture
def app(tmp_path: Path) -> Holdfast:
    return Holdfast(f"sqlite:///{tmp_path}/jobs.db")


class Mailer:
    def send(self, to: str) -> None: ...

    @classmethod
    def build(cls, to: str) -> None: ...


@pytest.mark.parametrize("fn", [Mailer.send, Mailer().send, Mailer.build])
def test_f29_a_method_is_refused_in_one_line(app: Holdfast, fn: Any) -> None:
    with pytest.raises(SettingError, match=r"^@app.task got the method Mailer.\w+, .*; make it a function$"):
        app.task(fn)
    assert not app.tasks


def test_f29_a_lambda_without_a_name_is_refused_in_one_line(app: Holdfast) -> None:
    with pytest.raises(SettingError, match=r"got a lambda, .*; write it as a def, or give it name="):
        app.task(lambda x: x)
    assert not app.tasks


@pytest.mark.parametrize("name", ["ctx", "context"])
def test_f29_a_context_without_its_annotation_is_hinted_at(app: Holdfast, name: str) -> None:
    scope: dict[str, Any] = {"__name__": "mine"}
    exec(f"def t({name}, x): ...", scope)
    with pytest.raises(PayloadError, match=re.escape(f"annotate it: {name}: Context")):
        app.task(scope["t"]).enqueue(1)


def test_f33_windows_is_refused_when_the_package_is_imported() -> None:
    for platform in ("linux", "darwin"):
        check_platform(platform)
    script = "import asyncio, sys; sys.platform = 'win32'; import holdfast"  # asyncio's own look at it is not what is tried here
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.stderr.splitlines()[-1].startswith("ImportError: Holdfast does not run on Windows")
