"""The clients of a live stream: server-sent events by the standard, over plain sockets, with random cuts.

`python -m chaos.stream_clients '{"port": …, "job": …, "clients": 50, …}'`. Most clients follow one job, some all jobs.
Each writes the events that it receives to a file, in the order of arrival; `stream_checks` evaluates the files.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

END: Final = "end"
FINAL: Final = ("succeeded", "failed", "cancelled", "skipped")
FEED: Final = "feed"
RETRY_SECONDS: Final = 1.0
"""Until the server has sent `retry:`."""
PIECE_BYTES: Final = 16 * 1024
HEAD_BYTES_MAX: Final = 64 * 1024
SILENCE_SECONDS: Final = 20.0
"""A stream without any byte for so long, heartbeats included, is dead."""
CUTS: Final = ("abort", "close", "stall", "half")
BUFFERS_BYTES: Final = (4 * 1024, 64 * 1024)
"""Receive buffers of the sockets: a cut loses about so many bytes that were under way."""


class ClientPlan(msgspec.Struct, frozen=True):
    port: int
    job: str
    clients: int
    seed: int
    directory: str
    bytes_mean: float
    """The mean number of bytes that a client reads between two cuts."""
    feeds: int = 0
    """So many more clients follow all jobs, until this job has ended."""


class Frame(NamedTuple):
    id: str
    event: str
    data: str


class Malformed(Exception):
    """The bytes received are not a valid stream."""


class Chunks:
    """The body of a chunked response, from pieces that are cut anywhere."""

    def __init__(self) -> None:
        self.over = False
        self._buffer = b""
        self._left = 0  # of a chunk, with the line end after it

    def feed(self, piece: bytes) -> bytes:
        self._buffer += piece
        body = b""
        while self._buffer and not self.over:
            if self._left > 2:
                part = self._buffer[: self._left - 2]
                self._buffer, self._left = self._buffer[len(part) :], self._left - len(part)
                body += part
            elif self._left:
                if len(self._buffer) < 2:
                    break
                if not self._buffer.startswith(b"\r\n"):
                    raise Malformed(f"a chunk ends with {self._buffer[:2]!r}")
                self._buffer, self._left = self._buffer[2:], 0
            else:
                line, found, rest = self._buffer.partition(b"\r\n")
                if not found:
                    break
                size = int(line, 16)
                self.over, self._buffer, self._left = size == 0, rest, size + 2
        return body


class Frames:
    """Server-sent events. `last_id` is that of the last complete frame: the place to continue from."""

    def __init__(self, last_id: str) -> None:
        self.last_id = last_id
        self.retry_seconds: float | None = None
        self.comments = 0
        self._buffer = b""
        self._clear()

    def _clear(self) -> None:
        self._id: str | None = None
        self._event, self._data = "message", list[str]()

    @property
    def is_torn(self) -> bool:
        """Whether the buffer has a part of a frame."""
        return bool(self._buffer or self._data or self._id)

    def feed(self, body: bytes) -> Iterator[Frame]:
        *lines, self._buffer = (self._buffer + body).split(b"\n")
        for line in lines:
            if line:
                self._line(line.decode())
                continue
            if self._id is not None:
                self.last_id = self._id
            if self._data:
                yield Frame(self._id or "", self._event, "\n".join(self._data))
            self._clear()

    def _line(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if not field:
            self.comments += 1
        elif field == "id":
            self._id = value
        elif field == "event":
            self._event = value
        elif field == "data":
            self._data.append(value)
        elif field == "retry":
            self.retry_seconds = int(value) / 1000
        else:
            raise Malformed(f"a line of no known kind: {line[:100]!r}")


class StreamClient:
    """A client that follows one job, and connects again until it has received the end."""

    kind = "client"

    def __init__(self, plan: ClientPlan, number: int) -> None:
        self.plan, self.name = plan, f"{self.kind}-{number:04}"
        self.counts: Counter[str] = Counter()
        self.surprises: list[str] = []
        self._chance = random.Random(f"{plan.seed}/{self.name}")
        self._last_id, self._retry_seconds = "", RETRY_SECONDS
        self._ended = False
        self._record = (Path(plan.directory) / f"{self.name}.tsv").open("wb")
        self._path, self._first = f"/api/jobs/{quote(plan.job, safe='')}/events", "0"

    def _is_end(self, frame: Frame) -> bool:
        return frame.event == END

    async def run(self) -> None:
        try:
            while not self._ended:
                await self._attempt()
        finally:
            self._record.close()

    async def _attempt(self) -> None:
        try:
            await self._connect()
        except (ConnectionError, asyncio.IncompleteReadError):
            self.counts["lost"] += 1
        except (Malformed, TimeoutError, ValueError) as error:
            self.counts["odd"] += 1
            self.surprises.append(f"{self.name}: {type(error).__name__}: {error}")
        if not self._ended:
            await asyncio.sleep(self._retry_seconds)

    async def _connect(self) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=await self._socket(), limit=PIECE_BYTES)
        except ConnectionError:
            self.counts["refused"] += 1
            return
        self.counts["connects"] += 1
        try:
            writer.write(self._request())
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SILENCE_SECONDS)
            _check_head(head.decode("latin-1"))
            await self._read(reader, writer)
        finally:
            self._record.flush()
            writer.transport.abort()

    async def _socket(self) -> socket.socket:
        raw = socket.socket()
        raw.setblocking(False)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._chance.choice(BUFFERS_BYTES))
        try:
            await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", self.plan.port))
        except BaseException:
            raw.close()
            raise
        return raw

    def _request(self) -> bytes:
        """With the last id in the header, as browsers send it, in the query, or in both."""
        ways = {"header": "", "query": f"?after={self._last_id}", "both": f"?after={self._first}"}
        way = self._chance.choice(list(ways)) if self._last_id else "both"
        last = f"Last-Event-ID: {self._last_id}\r\n" if self._last_id and way != "query" else ""
        accept = f"Host: 127.0.0.1:{self.plan.port}\r\nAccept: text/event-stream\r\n"
        return f"GET {self._path}{ways[way]} HTTP/1.1\r\n{accept}{last}\r\n".encode()

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chunks, frames = Chunks(), Frames(self._last_id)
        left = int(self._chance.expovariate(1 / self.plan.bytes_mean)) + 1
        while not chunks.over:
            piece = await asyncio.wait_for(reader.read(PIECE_BYTES), SILENCE_SECONDS)
            if not piece:
                raise ConnectionResetError("the stream ended without a last chunk")
            self._take(frames, chunks.feed(piece[:left]))
            left -= len(piece)
            if left <= 0 and not self._ended:
                self.counts["inside a frame" if frames.is_torn else "between frames"] += 1
                await self._cut(writer)
                return
            if self._ended and self.kind == FEED:
                return
        if not self._ended:
            raise Malformed("the stream has ended before the job")

    def _take(self, frames: Frames, body: bytes) -> None:
        for frame in frames.feed(body):
            if frames.retry_seconds is None or (self._ended and self.kind != FEED):
                raise Malformed(f"{frame} {'after the end' if self._ended else 'before retry:'}")
            self._record.write(f"{frame.id}\t{frame.event}\t{frame.data}\n".encode())
            self._ended = self._ended or self._is_end(frame)
        self._last_id = frames.last_id
        self._retry_seconds = self._retry_seconds if frames.retry_seconds is None else frames.retry_seconds

    async def _cut(self, writer: asyncio.StreamWriter) -> None:
        """Whatever arrives later is not read."""
        way = self._chance.choice(CUTS)
        self.counts[way] += 1
        if way == "abort":  # closed with a reset
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif way == "stall":  # nothing is read, so the server cannot write
            await asyncio.sleep(self._chance.uniform(0.0, 1.0))
        elif way == "half":
            writer.write_eof()
            await asyncio.sleep(self._chance.uniform(0.0, 0.2))


class FeedClient(StreamClient):
    """A client that follows all jobs. Their feed has no end: the client stops when the job has ended."""

    kind = FEED

    def __init__(self, plan: ClientPlan, number: int) -> None:
        super().__init__(plan, number)
        self._path, self._first = "/api/events", ""

    def _is_end(self, frame: Frame) -> bool:
        return frame.event in FINAL and msgspec.json.decode(frame.data)["job"] == self.plan.job


def _check_head(head: str) -> None:
    status, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    if status.split(" ")[1] != "200":
        raise Malformed(f"the response is {status!r}")
    if not headers.get("content-type", "").startswith("text/event-stream") or headers.get("transfer-encoding") != "chunked":
        raise Malformed(f"the response has the headers {headers}")


class ClientCounts(msgspec.Struct):
    """What all clients together have counted."""

    counts: dict[str, int]
    surprises: list[str]


async def run_clients(plan: ClientPlan) -> ClientCounts:
    """Until all of them have received the end."""
    clients = [StreamClient(plan, number) for number in range(plan.clients)]
    clients += [FeedClient(plan, number) for number in range(plan.feeds)]
    await asyncio.gather(*(client.run() for client in clients))
    counts: Counter[str] = Counter()
    for client in clients:
        counts += client.counts
    return ClientCounts(dict(counts), [surprise for client in clients for surprise in client.surprises])


if __name__ == "__main__":
    counted = asyncio.run(run_clients(msgspec.json.decode(sys.argv[1], type=ClientPlan)))
    sys.stdout.buffer.write(msgspec.json.encode(counted))
