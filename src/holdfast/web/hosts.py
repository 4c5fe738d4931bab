"""Where it may be reached: the address that it is bound to, and the names that a request may call it by.

A page of somebody else's can make its own name point to 127.0.0.1 and then read what is there, as if that were its own server
(DNS rebinding). Its requests say that name as `Host`: so only names that are known are answered.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

import msgspec

from holdfast.app import Holdfast
from holdfast.domain.job import moment_of
from holdfast.errors import SettingError
from holdfast.web.settings import WebSettings

LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 (to know it, not to bind to it)
ANY: Final = "*"


def is_loopback(host: str) -> bool:
    """Whether only this machine can come from, or to, that address."""
    if host == "localhost":
        return True
    try:
        address = ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def check_bind(host: str, settings: WebSettings, app: Holdfast) -> WebSettings:
    """The settings for a server at this address, or an error if nothing would keep strangers out there."""
    if not is_loopback(host) and not settings.insecure:
        if settings.auth == "off":
            raise SettingError(
                f"host {host!r} can be reached from other machines, and auth is off: anybody could run code on the workers; "
                "leave auth on, or say --insecure"
            )
        if not _has_usable_key(app):
            raise SettingError(
                f"host {host!r} can be reached from other machines, and there is no API key: make one with "
                "`holdfast keys add NAME --scope admin`, use --host 127.0.0.1, or say --insecure to let everybody in"
            )
    return msgspec.structs.replace(settings, hosts=(*settings.hosts, host))


def _has_usable_key(app: Holdfast) -> bool:
    """Not what was revoked, or has expired: with those nobody could come in, and a server that is of no use is a mistake too."""
    known, now = app.keys(), moment_of(app.store.clock.now())
    return any(key.usable(now) for key in known)


class Hosts:
    """The names that a request may call this server by."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._any = ANY in names
        self._any_address = bool(EVERY_ADDRESS & set(names))  # bound to all: it is called by whichever it was reached at
        self._names = LOOPBACK | {name.lower().strip("[]").rstrip(".") for name in names}

    def know(self, header: str) -> bool:
        name = name_in(header)
        return bool(name) and (self._any or name in self._names or (self._any_address and _is_address(name)))


def name_in(header: str) -> str:
    """`[::1]:8000` as `::1`, `Localhost:80` as `localhost`; nothing if it is no such thing."""
    host, bracket, rest = header.partition("]")
    if header.startswith("["):
        port = rest.removeprefix(":")
        return host[1:].lower() if bracket and (not rest or (rest[0] == ":" and port.isdigit())) else ""
    name, colon, port = header.partition(":")
    return "" if colon and not port.isdigit() else name.lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
