"""Every test runs on every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.world import STORES, World
from tests.simulation.invariants import check


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """After every test, whatever it did, the invariants must hold."""
    world = STORES[request.param](tmp_path)
    try:
        yield world
        world.app.migrate()
        check(world.rows)
    finally:
        world.close()
