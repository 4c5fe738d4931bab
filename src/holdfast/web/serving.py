"""A server for one app: bound, told to stop by a signal, and gone soon after, whatever streams are open."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import FrameType
from typing import Any, Final

import uvicorn

from holdfast.errors import SettingError
from holdfast.web.app import Web
from holdfast.web.heads import HeadLimit
from holdfast.web.lifespan import Lifespan
from holdfast.web.shutdown import Closing

log = logging.getLogger("holdfast.web")

BACKLOG: Final = 2_048
CLOSING_SECONDS: Final = 5
"""How long clients may take to read the rest of an answer when the server stops."""
FILES_MAX: Final = 65_536
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        raise SettingError(f"cannot serve on host {host!r}, port {port}: {why}; choose another --host or --port") from None


def address_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def config_of(web: Web, **options: Any) -> uvicorn.Config:
    """How uvicorn is to behave: it logs as the program does, and takes nobody's word for where a request comes from."""
    chosen: dict[str, Any] = {
        "log_config": None,
        "http": HeadLimit,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "lifespan": "off",
        "timeout_graceful_shutdown": CLOSING_SECONDS,
    }
    return uvicorn.Config(web, **{**chosen, **options})


class Server(uvicorn.Server):
    """Tells open streams of the end when it hears of it itself."""

    def __init__(self, config: uvicorn.Config, closing: Closing) -> None:
        super().__init__(config)
        self._closing = closing

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._closing.begin()
        super().handle_exit(sig, frame)


def serve(web: Web, bound: socket.socket, worker: Lifespan | None = None, **options: Any) -> None:
    """Until SIGTERM or SIGINT. With a worker, what runs is finished then; a second signal hands it back at once."""
    take_all_files()
    config = config_of(web, **options)
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(_serve(Server(config, web.state.closing), bound, worker))


def take_all_files() -> None:
    """Every stream is an open file, and what a shell allows at first is often 1,024: as many as we may have without asking."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft != resource.RLIM_INFINITY and soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError) as error:
            log.warning("no more than %d files can be open, and so many streams: %s", soft, error)


async def _serve(server: Server, bound: socket.socket, worker: Lifespan | None) -> None:
    async with AsyncExitStack() as stack:
        stack.callback(_handle_signals(worker))
        if worker is not None:
            await stack.enter_async_context(worker)
        log.info("serving on %s", address_of(bound))
        await server.serve([bound])
        if worker is not None:
            log.info("serving no more; jobs that run are finished first, another signal hands them back")


def _handle_signals(worker: Lifespan | None) -> Callable[[], None]:
    """The server passes on what it heard once it is down: that was the first signal, and its work is done."""
    loop, heard = asyncio.get_running_loop(), 0

    def handle(*_: object) -> None:
        nonlocal heard
        heard += 1
        if heard > 1 and worker is not None:
            loop.call_soon_threadsafe(worker.hurry)

    before = {number: signal.signal(number, handle) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return restore
