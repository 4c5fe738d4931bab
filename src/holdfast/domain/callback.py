"""Where a callback goes: what its URL must look like, before anybody asks which address that is.

Strict on purpose: what two parsers could read in two ways is refused, so that the one who judges and the one who calls agree.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple

from holdfast.domain.bounds import CALLBACK_CHARS_MAX
from holdfast.domain.retry import seconds_of
from holdfast.domain.text import show
from holdfast.errors import SettingError

CALLBACK_QUEUE: Final = "holdfast.callbacks"
CALLBACK_TASK: Final = "holdfast.deliver"
CALLBACK_PRIORITY: Final = 100
CALLBACK_DELAYS: Final = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 50_400.0, 72_000.0, 86_400.0)
"""Seconds between tries: ten of them in about three days."""
DELAYS_VARIABLE: Final = "HOLDFAST_WEBHOOK_DELAYS"
_DELAYS_MAX: Final = 99

PORTS: Final = {"https": 443, "http": 80}
_URL: Final = re.compile(
    r"(?P<scheme>(?i:https?))://"
    r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<target>[/?][!-~]*)?"
)
_UNSAFE: Final = re.compile(r'["#<>\\^`{|}]')
_NUMERIC_END: Final = re.compile(r"(?:^|\.)(?:0[xX][0-9A-Fa-f]*|[0-9]+)$")
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


class CallbackRefused(SettingError):
    """This URL may not be called."""


class Place(NamedTuple):
    """A URL in parts. `host` is a name in small letters or the plain text of an address; `target` goes into the request."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """As the `Host` header says it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"


def place_of(url: str) -> Place:
    """The parts of a callback's URL, or `CallbackRefused` with what is wrong about it."""
    if not isinstance(url, str) or not 1 <= len(url) <= CALLBACK_CHARS_MAX:
        raise refused(url, f"is no URL of at most {CALLBACK_CHARS_MAX:,} characters")
    if not url.isascii():
        raise refused(url, "has letters outside ASCII; write its host as xn--… and the rest as %XX")
    if "@" in url.partition("://")[2].partition("/")[0].partition("?")[0]:
        raise refused(url, "has a user or a password in it; callbacks are signed instead")
    if "#" in url:
        raise refused(url, "has a fragment, which is never sent; leave it out")
    parts = _URL.fullmatch(url)
    if parts is None or _UNSAFE.search(url):
        raise refused(url, "is not of the form https://host/path, all of it escaped")
    scheme = parts["scheme"].lower()
    port = int(parts["port"] or PORTS[scheme])
    if not 1 <= port <= 65_535:
        raise refused(url, f"has port {port}")
    target = parts["target"] or "/"
    return Place(scheme, _host(url, parts["host"]), port, target if target.startswith("/") else f"/{target}")


def check_callback(url: str) -> str:
    """For `using(callback=...)`: looks right. Where it leads is judged when the job is enqueued, and at every delivery."""
    place_of(url)
    return url


def delays_of(text: str) -> tuple[float, ...]:
    """What $HOLDFAST_WEBHOOK_DELAYS says: seconds with commas between; nothing is the usual."""
    if not text.strip():
        return CALLBACK_DELAYS
    try:
        delays = tuple(seconds_of("delay", float(each)) for each in text.split(","))
    except ValueError:
        raise _no_delays(text) from None
    if len(delays) > _DELAYS_MAX:
        raise _no_delays(text)
    return delays


def _no_delays(text: str) -> SettingError:
    what = f"${DELAYS_VARIABLE}={show(text)} is no list of at most {_DELAYS_MAX} numbers of seconds"
    return SettingError(f"{what}; use for example {DELAYS_VARIABLE}=5,300,1800")


def refused(url: object, why: str) -> CallbackRefused:
    return CallbackRefused(f"callback {show(url)} {why}")


def _host(url: str, host: str) -> str:
    if host.startswith("[") or _NUMERIC_END.search(host):
        return _literal(url, host)
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in host.split(".")):
        raise refused(url, f"has no proper host name: {host[:80]!r}")
    return host.lower()


def _literal(url: str, host: str) -> str:
    """An address, written in full: what ends in a number is one, and resolvers read 127.1 and 0x7f.1 as addresses too."""
    try:
        return str(ipaddress.IPv6Address(host[1:-1]) if host.startswith("[") else ipaddress.IPv4Address(host))
    except ValueError:
        raise refused(url, f"has an address that is not written in full: {host[:80]!r}") from None
