"""Which addresses may be called: a name is resolved once, every address it has is judged, and only what was judged is called.

The list is our own. `ipaddress.is_global` calls NAT64 and 6to4 forms of 169.254.169.254 global, and multicast too.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, NamedTuple

from holdfast.domain.callback import CallbackRefused, Place, place_of, refused
from holdfast.domain.text import show
from holdfast.errors import SettingError
from holdfast.events.webhook.resolve import Resolver, Unresolved, system_resolver

ALLOW_VARIABLE: Final = "HOLDFAST_WEBHOOK_ALLOW"
PORTS: Final = frozenset({443, 8443})

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_REFUSED_4: Final = tuple(
    (IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a provider's customers"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "the platform of a cloud"),
        ("169.254.0.0/16", "link-local, where clouds keep their metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_GLOBAL_6: Final = IPv6Network("2000::/3")
_REFUSED_6: Final = tuple(
    (IPv6Network(network), why)
    for network, why in (
        ("2001::/23", "reserved, or a Teredo tunnel"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a 6to4 tunnel"),
        ("3ffe::/16", "reserved"),
        ("3fff::/20", "for documentation"),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)
_PRIVATE_NAMES: Final = ("localhost", "local", "internal", "home.arpa", "onion", "localdomain")
"""Names under these are never public: refused also where nobody resolves them."""
_ENTRY: Final = re.compile(
    r"(?P<six>[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:./]*)"
    r"|(?:\[(?P<inside>[0-9A-Fa-f:./]+)\]|(?P<plain>[A-Za-z0-9._/-]+))(?::(?P<port>[0-9]{1,5}))?"
)


class Target(NamedTuple):
    """A place that may be called, at these addresses and no others."""

    place: Place
    addresses: tuple[str, ...]


class Allowed(NamedTuple):
    """One entry of $HOLDFAST_WEBHOOK_ALLOW: a network or a host name, at one port or, if that is None, at all."""

    network: Network | None
    host: str
    port: int | None

    def may_cover(self, place: Place) -> bool:
        return self.port in (None, place.port) and (self.network is not None or self.host == place.host)

    def covers(self, place: Place, address: Address) -> bool:
        if self.network is None or not self.may_cover(place):
            return self.may_cover(place)
        return any(each.version == self.network.version and each in self.network for each in (address, *_unwrapped(address)))


def allowed_of(text: str) -> tuple[Allowed, ...]:
    """`10.0.0.0/8, 127.0.0.1:8080, hooks.internal, [fd00::/8]:8443`"""
    return tuple(_entry(each.strip()) for each in text.split(",") if each.strip())


def judge(url: str, allowed: Sequence[Allowed] = (), resolve: Resolver = system_resolver) -> Target:
    """The target of a URL that may be called. `CallbackRefused`: it may not; `Unresolved`: nobody knows now."""
    place = place_of(url)
    if not any(each.may_cover(place) for each in allowed):
        _check_common(url, place)
    found = list(dict.fromkeys(resolve(place.host, place.port)))
    if not found:
        raise Unresolved(f"host {place.host} has no address")
    addresses = [_address(url, text) for text in found]
    permitted = [any(each.covers(place, address) for each in allowed) for address in addresses]
    for address, known in zip(addresses, permitted, strict=True):
        why = None if known else why_refused(address)
        if why is not None:
            # Not which address: a stranger's callback must not be a way to ask our name servers.
            raise refused(url, f"leads to an address that is {why}; {_remedy(place.host)}")
    if not all(permitted):
        _check_common(url, place)
    return Target(place, tuple(map(str, addresses)))


def why_refused(address: Address) -> str | None:
    """What an address is that may not be called, or None: it is an ordinary one on the Internet."""
    for each in _unwrapped(address):
        why = why_refused(each)
        if why is not None:
            return f"an IPv4 address in another form, and that is {why}"
    if isinstance(address, IPv4Address):
        return next((why for network, why in _REFUSED_4 if address in network), None)
    if address.ipv4_mapped is not None or address in _NAT64:
        return None  # as its IPv4 address is
    if address not in _GLOBAL_6:
        return "not on the public Internet"
    return next((why for network, why in _REFUSED_6 if address in network), None)


def _unwrapped(address: Address) -> list[IPv4Address]:
    """The IPv4 addresses inside an IPv6 one: where a gateway or a tunnel would lead."""
    if isinstance(address, IPv4Address):
        return []
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    low = int(address) & (1 << 64) - 1
    if address in _NAT64 or low >> 32 in _ISATAP:
        return [IPv4Address(low & 0xFFFF_FFFF)]
    return []


def _check_common(url: str, place: Place) -> None:
    """For targets on the Internet: a public name, TLS, and the ports where web servers are."""
    if any(place.host == name or place.host.endswith(f".{name}") for name in _PRIVATE_NAMES):
        raise refused(url, f"has a host that is never public; {_remedy(place.host)}")
    if place.scheme != "https":
        raise refused(url, f"is not https; {_remedy(place.host)}")
    if place.port not in PORTS:
        raise refused(url, f"has port {place.port}, not 443 or 8443; {_remedy(place.authority)}")


def _address(url: str, text: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        raise refused(url, f"leads to {show(text)}, which is no address") from None


def _remedy(what: object) -> str:
    return f"if it may be called, its operator can add {what} to ${ALLOW_VARIABLE}"


def _entry(text: str) -> Allowed:
    parts = _ENTRY.fullmatch(text)
    port = int(parts["port"]) if parts and parts["port"] else None
    if parts is None or (port is not None and not 1 <= port <= 65_535):
        raise _no_entry(text)
    what = parts["six"] or parts["inside"] or parts["plain"]
    try:
        return Allowed(ipaddress.ip_network(what, strict=False), "", port)
    except ValueError:
        return Allowed(None, _named(text, what), port)


def _named(text: str, host: str) -> str:
    try:
        place = place_of(f"https://{host}")
    except CallbackRefused:
        raise _no_entry(text) from None
    if place.target != "/":
        raise _no_entry(text)
    return place.host


def _no_entry(text: str) -> SettingError:
    example = "10.0.0.0/8, 127.0.0.1:8080, hooks.example.com"
    return SettingError(f"${ALLOW_VARIABLE}: {show(text)} is no network, address or host name; use for example {example}")
