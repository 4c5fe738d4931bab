"""One POST, to the very address that was judged: no second lookup, no redirect, no proxy, and an end to everything.

`http.client` speaks through a wire of ours, which knows when the time is up: a server that sends one byte a second would
otherwise never be late.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from collections.abc import Mapping
from functools import cache
from ipaddress import ip_address
from typing import Any, Final, NamedTuple

from holdfast.domain.callback import Place
from holdfast.domain.text import clip, show
from holdfast.events.webhook.address import Target

ANSWER_BYTES_MAX: Final = 64 * 1024
PREFIX_CHARS_MAX: Final = 200
_HEAD_BYTES_MAX: Final = 64 * 1024


class Limits(NamedTuple):
    connect_seconds: float = 5.0
    total_seconds: float = 15.0


LIMITS: Final = Limits()


class Answer(NamedTuple):
    status: int
    retry_after: str | None
    prefix: str
    """How the answer began, as text that can be shown; for those who may see it."""


class NotSent(Exception):
    """There was no answer that can be understood. Whether the message came through is not known."""


@cache
def default_tls() -> ssl.SSLContext:
    """The authorities that this machine trusts; $SSL_CERT_FILE names others."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def post(
    target: Target, headers: Mapping[str, str], body: bytes, limits: Limits = LIMITS, tls: ssl.SSLContext | None = None
) -> Answer:
    """What the receiver says, or `NotSent`."""
    deadline = Deadline(limits.total_seconds)
    place = target.place
    try:
        with _connected(target, deadline, limits) as plain, _secured(plain, place, deadline, tls) as connection:
            return _ask(_Wire(connection, deadline), place, headers, body)
    except ssl.SSLCertVerificationError as error:
        raise NotSent(f"TLS: the certificate of {place.host} does not hold: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise NotSent(f"TLS with {place.authority} failed: {error.reason or show(error)}") from None
    except TimeoutError:
        raise NotSent(f"{place.authority} took longer than {limits.total_seconds:g} s") from None
    except OSError as error:
        raise NotSent(f"the connection to {place.authority} broke: {error.strerror or show(error)}") from None
    except (http.client.HTTPException, ValueError) as error:
        raise NotSent(f"{place.authority} gave an answer that is not HTTP: {type(error).__name__}") from None


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _connected(target: Target, deadline: Deadline, limits: Limits) -> socket.socket:
    """To the first of the addresses that takes the call; all of them together have the time for one."""
    patience = Deadline(limits.connect_seconds)
    failure: Exception = TimeoutError()
    for address in target.addresses:
        family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(min(patience.left(), deadline.left()))
            connection.connect((address, target.place.port))
        except OSError as error:
            connection.close()
            failure = error
        else:
            return connection
    late = isinstance(failure, TimeoutError)
    why = f"no answer within {limits.connect_seconds:g} s" if late else getattr(failure, "strerror", None) or show(failure)
    raise NotSent(f"could not connect to {target.place.authority}: {why}")


def _secured(connection: socket.socket, place: Place, deadline: Deadline, tls: ssl.SSLContext | None) -> socket.socket:
    """With the name of the URL, whatever address it has: that is what the certificate is for."""
    if place.scheme != "https":
        return connection
    connection.settimeout(deadline.left())
    return (tls or default_tls()).wrap_socket(connection, server_hostname=place.host)


def _ask(wire: _Wire, place: Place, headers: Mapping[str, str], body: bytes) -> Answer:
    request = http.client.HTTPConnection(place.host, place.port)
    request.sock = wire
    request.putrequest("POST", place.target, skip_host=True)
    for name, value in {"host": place.authority, "connection": "close", **headers, "content-length": str(len(body))}.items():
        request.putheader(name, value)
    request.endheaders(body)
    response = request.getresponse()
    return Answer(response.status, response.getheader("retry-after"), _prefix(_read(response)))


def _read(response: http.client.HTTPResponse) -> bytes:
    """The status has decided already: an answer that never ends, or ends too early, changes nothing."""
    read = bytearray()
    try:
        while len(read) < ANSWER_BYTES_MAX and (more := response.read1(ANSWER_BYTES_MAX - len(read))):
            read += more
    except (OSError, http.client.HTTPException, ValueError):
        pass
    return bytes(read)


def _prefix(answer: bytes) -> str:
    text = answer[: PREFIX_CHARS_MAX * 4].decode(errors="replace")
    printable = "".join(letter if letter.isprintable() else " " for letter in text)
    return clip(" ".join(printable.split())[:PREFIX_CHARS_MAX], PREFIX_CHARS_MAX)


class _Wire:
    """As much of a socket as `http.client` needs, every call of it within the deadline."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection, self._deadline = connection, deadline

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._connection.settimeout(self._deadline.left())
            rest = rest[self._connection.send(rest) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Incoming(self._connection, self._deadline))

    def close(self) -> None:
        """The connection is its opener's to close: the answer is still to be read."""


class _Incoming(io.RawIOBase):
    """What is read is bounded in time and in length, head and all."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection, self._deadline = connection, deadline
        self._left = _HEAD_BYTES_MAX + ANSWER_BYTES_MAX

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left <= 0:
            raise http.client.HTTPException("it never ends")
        self._connection.settimeout(self._deadline.left())
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count
