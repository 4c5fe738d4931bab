"""A TCP proxy that can stop forwarding: no byte passes and no connection is closed, as when a network cable is cut."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

CHUNK: Final = 65_536


class Proxy:
    """Runs in a thread of its own, from the constructor to `close`."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def silence(self) -> None:
        """Nothing is forwarded after this has returned."""
        self._do(self._silence())

    async def _silence(self) -> None:
        self._open.clear()

    def resume(self, forget: bool = False) -> None:
        """Forward again. With `forget`, the connections of before stay silent for ever, and only new ones are served."""
        self._do(self._resume(forget))

    async def _resume(self, forget: bool) -> None:
        if forget:
            self._open = asyncio.Event()
        self._open.set()

    def close(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _do(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        with suppress(asyncio.CancelledError):  # by `close`
            await self._connect(reader, writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gate = self._open
        await gate.wait()
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        try:
            await asyncio.gather(self._forward(gate, reader, to_server), self._forward(gate, from_server, writer))
        finally:
            for end in (writer, to_server):
                end.transport.abort()

    async def _forward(self, gate: asyncio.Event, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(CHUNK):
                await gate.wait()
                sink.write(chunk)
                await sink.drain()
        await gate.wait()  # the end of a connection is not forwarded either
        sink.transport.abort()
