"""Fixtures for pytest: a fresh database file per test, a clock that the test moves, an app on both.

Loaded by pytest in every project that has Holdfast installed, so it imports nothing until a fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.app import Holdfast
    from holdfast.store.store import Store
    from holdfast.testing.clock import ManualClock


@pytest.fixture
def holdfast_url(tmp_path: Path) -> str:
    """The URL of a database that nobody has used; override it to run on another kind."""
    return f"sqlite:///{tmp_path / 'holdfast.db'}"


@pytest.fixture
def holdfast_clock() -> ManualClock:
    """Stands still until the test moves it."""
    from holdfast.testing.clock import ManualClock

    return ManualClock()


@pytest.fixture
def holdfast_app(holdfast_url: str, holdfast_clock: ManualClock) -> Iterator[Holdfast]:
    """An app without tasks on that database and that clock."""
    from holdfast.app import Holdfast

    with Holdfast(holdfast_url, clock=holdfast_clock) as app:
        yield app


@pytest.fixture
def holdfast_store(holdfast_app: Holdfast) -> Store:
    """The store of `holdfast_app`."""
    return holdfast_app.store
