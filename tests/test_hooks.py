"""A hook overrides what it needs; one that fails is left out of that call, and no job notices."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast, Hook, Job


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app


class Fresh(Hook):
    """As one would write it for a framework that keeps connections: something before each job, something after."""

    def __init__(self) -> None:
        self.turns: list[str] = []

    @contextmanager
    def running(self, job: Job) -> Iterator[None]:
        self.turns.append(f"before {job.task}")
        yield
        self.turns.append(f"after {job.task}")


class Bare:
    """The same, without the base class."""

    __init__, running = Fresh.__init__, Fresh.running
    turns: list[str]


@pytest.mark.parametrize("kind", [Fresh, Bare])
def test_f14_a_hook_with_running_only_is_enough(app: Holdfast, caplog: pytest.LogCaptureFixture, kind: type[Any]) -> None:
    @app.task(name="double")
    def double(n: int) -> int:
        return 2 * n

    hook = kind()
    app.hooks.append(hook)
    with caplog.at_level(logging.WARNING):
        job = double.enqueue(1)
        app.enqueue_many([double.bind(2)])
        app.worker().run_until_empty()
    assert app.stats() == {"double": {"succeeded": 2}}
    assert app.wait(job.id).result == 2
    assert hook.turns == ["before double", "after double"] * 2
    assert not caplog.records


def test_f14_a_hook_that_overrides_nothing_does_nothing(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(name="half")
    async def half(n: int) -> float:
        return n / 2

    app.hooks.append(Hook())
    with caplog.at_level(logging.WARNING):
        half.enqueue(1)
        app.worker().run_until_empty()
    assert app.stats() == {"half": {"succeeded": 1}}
    assert not caplog.records


def test_f14_a_hook_whose_method_cannot_even_be_read_is_left_out(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Hook):
        @property
        def enqueueing(self) -> Any:
            raise RuntimeError("no such thing")

    @app.task(name="half")
    def half(n: int) -> float:
        return n / 2

    app.hooks.append(Broken())
    half.enqueue(1)
    app.worker().run_until_empty()
    assert app.stats() == {"half": {"succeeded": 1}}
    assert "a hook failed; the job goes on without it" in caplog.text
