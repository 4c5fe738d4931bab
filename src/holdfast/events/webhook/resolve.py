"""Which addresses a host has, asked with an end: the C library may wait for its name servers as long as it likes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Final

Resolver = Callable[[str, int], Sequence[str]]
"""All addresses of a host, as text; `Unresolved` if it has none now."""
RESOLVE_SECONDS: Final = 5.0


class Unresolved(Exception):
    """The host has no address now. That may change."""


def system_resolver(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unresolved(f"host {host} has no address: {error}") from None
    return [str(address[0]) for _, _, _, _, address in found]


def within(seconds: float, resolve: Resolver) -> Resolver:
    """The same, but `Unresolved` if it takes longer. The thread that asks is left behind: nothing can stop it."""

    def resolve_in_time(host: str, port: int) -> Sequence[str]:
        answers: SimpleQueue[Sequence[str] | BaseException] = SimpleQueue()
        threading.Thread(target=_ask, args=(resolve, host, port, answers), name="holdfast-resolve", daemon=True).start()
        try:
            answer = answers.get(timeout=seconds)
        except Empty:
            raise Unresolved(f"nobody said within {seconds:g} s which address {host} has") from None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return resolve_in_time


def _ask(resolve: Resolver, host: str, port: int, answers: SimpleQueue[Sequence[str] | BaseException]) -> None:
    try:
        answers.put(resolve(host, port))
    except BaseException as error:
        answers.put(error)
