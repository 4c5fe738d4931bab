"""One database on PostgreSQL, for tests of what only that one does; what they leave behind is checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.world import World, postgres_world
from tests.simulation.invariants import check


@pytest.fixture
def store(tmp_path: Path) -> Iterator[World]:
    world = postgres_world(tmp_path)
    try:
        yield world
        check(world.rows)
    finally:
        world.close()
