from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    """A database that is whole when the test is over, whatever was done to those who used it."""
    scene = Scene(tmp_path)
    scene.app.migrate()
    try:
        yield scene
        scene.check_integrity()
    finally:
        scene.close()
