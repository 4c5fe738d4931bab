"""The stores that have to pass: a new one is one more entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.world import World, sqlite_world
from tests.simulation.invariants import check

STORES: dict[str, Callable[[Path], World]] = {"sqlite": sqlite_world}


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """After every test, whatever it did, the invariants must hold."""
    world = STORES[request.param](tmp_path)
    yield world
    world.app.migrate()
    check(world.rows)
    world.close()
