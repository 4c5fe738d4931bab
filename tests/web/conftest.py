"""Every test of the web application has a real store, and where the network matters a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from holdfast import Holdfast
from tests.servers import migrated_database
from tests.web.ground import ProcessServer, ThreadServer, served
from tests.web.tasks import register

Serve = Callable[..., ProcessServer]


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.db'}"
        return
    with migrated_database() as made:
        yield made


@pytest.fixture
def app(url: str) -> Iterator[Holdfast]:
    with Holdfast(url) as made:
        yield register(made)


@pytest.fixture
def server(app: Holdfast) -> Iterator[ThreadServer]:
    """Over the network, in a thread of this process."""
    with served(app) as running:
        yield running


@pytest.fixture
def client(server: ThreadServer) -> httpx.Client:
    return server.client


@pytest.fixture
def serve(url: str, tmp_path: Path) -> Iterator[Serve]:
    """Starts `holdfast serve` as a process, on the same database."""
    started: list[ProcessServer] = []

    def start(*flags: str, port: int = 0) -> ProcessServer:
        started.append(ProcessServer(url, tmp_path / f"server-{len(started)}.log", *flags, port=port))
        return started[-1]

    yield start
    for each in started:
        each.close()
