"""Servers for the tests: uvicorn in a thread of this process, and `holdfast serve` as a process; and a reader of streams."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec

from holdfast import Holdfast
from holdfast.web import WebSettings, create_app
from holdfast.web.serving import Server, address_of, bind, config_of
from tests.until import PATIENCE, until

# Clients are made with `verify=False`: there is no TLS here, and to load the certificates takes longer than most tests.
STREAM = {"accept": "text/event-stream"}
ROOT = Path(__file__).parents[2]
OPEN = WebSettings(insecure=True)
"""Nobody needs a key, nor the token, as long as there is no key."""


class Frame(NamedTuple):
    id: str | None
    event: str
    data: Any


class Frames:
    """Server-sent events by the letter of the standard, from pieces cut anywhere."""

    def __init__(self) -> None:
        self.comments = 0
        self.retry: int | None = None
        self._buffer = b""
        self._clear()

    def _clear(self) -> None:
        self._id: str | None = None
        self._event, self._data = "message", list[str]()

    def feed(self, piece: bytes) -> Iterator[Frame]:
        self._buffer += piece
        while (end := self._buffer.find(b"\n")) >= 0:
            line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
            assert b"\r" not in line
            yield from self._line(line.decode())

    def _line(self, line: str) -> Iterator[Frame]:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not line and self._data:
            yield Frame(self._id, self._event, msgspec.json.decode("\n".join(self._data)))
        if not line:
            self._clear()
        elif not field:
            self.comments += 1
        elif field == "id":
            self._id = value
        elif field == "event":
            self._event = value
        elif field == "data":
            self._data.append(value)
        elif field == "retry":
            self.retry = int(value)


def frames_of(response: httpx.Response) -> Iterator[Frame]:
    """The frames of a stream as they come, until it ends."""
    frames = Frames()
    for piece in response.iter_raw():
        yield from frames.feed(piece)


def numbers(frames: list[Frame]) -> list[int]:
    return [int(frame.id) for frame in frames if frame.id is not None]


class ThreadServer:
    """A real server, in this process: `client` asks it over the network."""

    def __init__(self, app: Holdfast, settings: WebSettings | None = None) -> None:
        self.web = create_app(app, settings=settings or OPEN)
        self._bound = bind("127.0.0.1", 0)
        self.server = Server(config_of(self.web, timeout_graceful_shutdown=PATIENCE), self.web.state.closing)
        self.url = address_of(self._bound)
        self.thread = threading.Thread(target=self.server.run, args=([self._bound],), daemon=True)
        self.thread.start()
        self.client = httpx.Client(base_url=self.url, timeout=PATIENCE, verify=False)

    def leave(self) -> None:
        """It ends by itself, as after a signal; nobody waits for that."""
        self.server.handle_exit(signal.SIGTERM, None)
        self.client.close()

    def stop(self) -> None:
        self.leave()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "the server hangs"


@contextmanager
def served(app: Holdfast, settings: WebSettings | None = None) -> Iterator[ThreadServer]:
    server = ThreadServer(app, settings)
    try:
        yield server
    finally:
        server.leave()


class Program:
    """`holdfast …` as a process, on a database. Nobody needs a key as long as there is none."""

    def __init__(self, url: str, log: Path, *words: str) -> None:
        self._log = log
        environment = {
            "HOLDFAST_WEB_INSECURE": "true",
            **os.environ,
            "HOLDFAST_URL": url,
            "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        }
        with log.open("ab") as file:
            self._mark = file.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", *words], env=environment, stdout=file, stderr=file, cwd=ROOT
            )

    @property
    def log(self) -> str:
        return self._log.read_bytes()[self._mark :].decode()

    def wait_for(self, word: str) -> str:
        """What it says behind that word."""
        until(lambda: word in self.log or self.process.poll() is not None, f"it does not say {word!r}:\n{self.log}")
        assert word in self.log, self.log
        return self.log.partition(word)[2].split()[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()


class ProcessServer(Program):
    """`holdfast serve MODULE:app`, and somebody to ask it."""

    def __init__(self, url: str, log: Path, *flags: str, port: int = 0, target: str = "tests.web.tasks:app") -> None:
        super().__init__(url, log, "serve", target, "--port", str(port), *flags)
        self.port = int(self.wait_for("serving on ").rpartition(":")[2])
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE, verify=False)

    def close(self) -> None:
        self.client.close()
        super().close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
