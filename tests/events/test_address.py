"""Where a callback may not lead: every hostile URL of the table is refused, by what it resolves to and not by how it looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import ip_address

import pytest

from holdfast import SettingError
from holdfast.domain.callback import CallbackRefused, place_of
from holdfast.events.webhook.address import allowed_of, judge, why_refused
from holdfast.events.webhook.resolve import Unresolved

PUBLIC = "93.184.215.14"
PUBLIC_6 = "2606:2800:21f:cb07:6820:80da:af6b:8b2c"

HOSTILE = [
    # schemes
    "http://example.com/hook",
    "ftp://example.com/hook",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "javascript:alert(1)",
    "data:text/plain,hello",
    "dict://127.0.0.1:11211/stats",
    "//example.com/hook",
    "example.com/hook",
    "https:/example.com/hook",
    "https:example.com",
    "https:\\\\example.com\\hook",
    # userinfo, and other ways to hide the host
    "https://user@example.com/",
    "https://user:password@example.com/",
    "https://example.com@127.0.0.1/",
    "https://example.com:443@127.0.0.1/",
    "https://127.0.0.1#@example.com/",
    "https://example.com#/hook",
    "https://example.com\\@127.0.0.1/",
    "https://127.0.0.1%2f@example.com/",
    "https://127.0.0.1%00.example.com/",
    "https://%31%32%37.0.0.1/",
    "https://exam ple.com/",
    "https://example.com/a b",
    "https://example.com/\r\nX-Injected: 1",
    "https://example.com/\n",
    "https://example.com\t/",
    "https://example.com/a\\b",
    "https://example.com/<b>",
    "https://example.com/{id}",
    'https://example.com/"',
    " https://example.com/",
    "https://",
    "https:///hook",
    "https://?hook",
    "https://.example.com/",
    "https://example..com/",
    "https://-example.com/",
    # addresses of our own, in every notation that some resolver understands
    "https://127.0.0.1/",
    "https://127.1/",
    "https://127.0.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.1/",
    "https://0x7f.0x0.0x0.0x1/",
    "https://0177.0.0.1/",
    "https://017700000001/",
    "https://127.0.0.01/",
    "https://0/",
    "https://0.0.0.0/",
    "https://127.0.0.1./",
    "https://①②⑦.0.0.1/",
    "https://１２７.0.0.1/",
    "https://127。0。0。1/",
    "https://٠.0.0.0/",
    "https://localhost/",
    "https://localhost./",
    "https://LOCALHOST/",
    "https://a.localhost/",
    "https://localhost:8443/",
    "https://metadata.google.internal/computeMetadata/v1/",
    "https://printer.local/",
    # other addresses that are nobody's business
    "https://169.254.169.254/latest/meta-data/",
    "https://2852039166/latest/meta-data/",
    "https://0xa9fea9fe/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.0.1/",
    "https://100.64.0.1/",
    "https://100.100.100.200/latest/meta-data/",
    "https://168.63.129.16/",
    "https://192.0.0.192/",
    "https://192.0.2.1/",
    "https://192.88.99.1/",
    "https://198.18.0.1/",
    "https://198.51.100.1/",
    "https://203.0.113.1/",
    "https://224.0.0.1/",
    "https://239.255.255.250/",
    "https://240.0.0.1/",
    "https://255.255.255.255/",
    # IPv6, plain and with IPv4 inside
    "https://[::1]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::]/",
    "https://[::127.0.0.1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::ffff:169.254.169.254]/",
    "https://[::ffff:0:127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[64:ff9b:1::a9fe:a9fe]/",
    "https://[64:ff9b:1:a9fe:a9:fe00::]/",
    "https://[2002:7f00:1::]/",
    "https://[2002:5db8:d70e::1]/",
    "https://[3ffe::1]/",
    "https://[2002:a9fe:a9fe::1]/",
    "https://[2001:0:a9fe:a9fe::1]/",
    "https://[2001:0:5db8:d70e:0:ffff:80ff:fffe]/",
    "https://[2606:2800::5efe:7f00:1]/",
    "https://[2606:2800::200:5efe:a9fe:a9fe]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://[fc00::1]/",
    "https://[fd00:ec2::254]/",
    "https://[fec0::1]/",
    "https://[ff02::1]/",
    "https://[2001:db8::1]/",
    "https://[2001:2::1]/",
    "https://[2001:10::1]/",
    "https://[3fff::1]/",
    "https://[100::1]/",
    "https://[::1/",
    "https://[127.0.0.1]/",
    "https://[v1.fe80::1]/",
    # ports
    "https://example.com:80/",
    "https://example.com:22/",
    "https://example.com:6379/",
    "https://example.com:0/",
    "https://example.com:65536/",
    "https://example.com:99999999999/",
    "https://example.com:-1/",
    "https://example.com:443:443/",
    "https://example.com:4x3/",
    # and what is no URL at all
    "",
    "x" * 3_000,
    "https://" + "a" * 64 + ".com/",
    "https://" + "a." * 200 + "com/",
]

HOSTILE_NAMES: list[tuple[str, list[str]]] = [
    ("a public name with a private address", ["10.0.0.1"]),
    ("a name for the metadata of a cloud", ["169.254.169.254"]),
    ("a public address and then a private one", [PUBLIC, "127.0.0.1"]),
    ("a private address and then a public one", ["192.168.1.1", PUBLIC]),
    ("AAAA private and A public", [PUBLIC, "fd12::1"]),
    ("AAAA public and A private", [PUBLIC_6, "172.16.3.4"]),
    ("AAAA that is the mapped form of loopback", ["::ffff:127.0.0.1"]),
    ("AAAA through NAT64", ["64:ff9b::a9fe:a9fe"]),
    ("AAAA through 6to4", ["2002:c0a8:101::1"]),
    ("AAAA through Teredo", ["2001:0:4136:e378:8000:63bf:3fff:fdd2"]),
    ("AAAA with a zone", ["fe80::1%lo"]),
    ("unspecified", ["0.0.0.0"]),
    ("no address but some other text", ["metadata"]),
]


def on_the_internet(host: str, port: int) -> Sequence[str]:
    """A resolver for which every name is a fine one, and numbers are what the C library says they are."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        return [PUBLIC, PUBLIC_6]


def always(addresses: list[str]) -> Callable[[str, int], Sequence[str]]:
    return lambda _host, _port: addresses


def test_the_table_is_long_enough() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE)
    assert len(HOSTILE) + len(HOSTILE_NAMES) >= 120


@pytest.mark.parametrize("url", HOSTILE)
def test_a_hostile_url_is_refused(url: str) -> None:
    with pytest.raises(CallbackRefused, match="callback") as caught:
        judge(url, resolve=on_the_internet)
    assert isinstance(caught.value, SettingError)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("url", [url for url in HOSTILE if "example.com" not in url])
def test_a_hostile_url_is_refused_with_the_machines_own_resolver_too(url: str) -> None:
    with pytest.raises(CallbackRefused):
        judge(url)


@pytest.mark.parametrize(("addresses", "what"), [(addresses, what) for what, addresses in HOSTILE_NAMES])
def test_every_address_of_a_name_is_judged(addresses: list[str], what: str) -> None:
    with pytest.raises(CallbackRefused, match="leads to") as caught:
        judge("https://hooks.example.com/", resolve=always(addresses))
    assert not any(address in str(caught.value) for address in addresses if address != "metadata"), what


def test_a_name_that_changes_its_mind_is_judged_each_time() -> None:
    """Public when it is registered, private when it is called."""
    answers = iter([[PUBLIC], ["169.254.169.254"]])
    assert judge("https://rebind.example.com/", resolve=lambda *_: next(answers)).addresses == (PUBLIC,)
    with pytest.raises(CallbackRefused, match="link-local"):
        judge("https://rebind.example.com/", resolve=lambda *_: next(answers))


def test_a_name_is_resolved_once() -> None:
    asked: list[tuple[str, int]] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append((host, port))
        return [PUBLIC, PUBLIC, PUBLIC_6]

    target = judge("https://Hooks.Example.com:8443/a?b=c", resolve=resolve)
    assert asked == [("hooks.example.com", 8443)]
    assert target.addresses == (PUBLIC, PUBLIC_6)
    assert target.place.authority == "hooks.example.com:8443"
    assert target.place.target == "/a?b=c"


GOOD = [
    "https://example.com",
    "https://example.com/",
    "HTTPS://EXAMPLE.COM/Hook",
    "https://example.com:443/hook",
    "https://example.com:8443/hook?a=b&c=%20",
    "https://example.com?a=b",
    "https://xn--bcher-kva.example/",
    "https://a-b.c_d.example.com/@me",
    f"https://{PUBLIC}/",
    f"https://[{PUBLIC_6}]/",
    f"https://[::ffff:{PUBLIC}]/",
    f"https://[64:ff9b::{PUBLIC}]/",
]


@pytest.mark.parametrize("url", GOOD)
def test_an_ordinary_url_is_called(url: str) -> None:
    assert judge(url, resolve=on_the_internet).addresses


def test_a_name_without_an_address_is_no_verdict() -> None:
    with pytest.raises(Unresolved):
        judge("https://nobody.example.com/", resolve=always([]))
    with pytest.raises(Unresolved, match="nobody"):
        judge("https://nobody.invalid/")


@pytest.mark.parametrize("url", ["http://nobody.invalid/", "https://nobody.invalid:81/"])
def test_what_could_never_be_called_is_refused_though_its_name_has_no_address(url: str) -> None:
    with pytest.raises(CallbackRefused):
        judge(url)


# What the operator permits

ALLOWING = [
    ("127.0.0.0/8", "http://127.0.0.1:8080/", True),
    ("127.0.0.0/8", "https://127.9.9.9/", True),
    ("127.0.0.1", "http://127.0.0.1/", True),
    ("127.0.0.1", "http://127.0.0.2/", False),
    ("127.0.0.1:8080", "http://127.0.0.1:8080/", True),
    ("127.0.0.1:8080", "http://127.0.0.1:8081/", False),
    ("127.0.0.1:8080", "https://127.0.0.1/", False),
    ("10.0.0.0/8, 127.0.0.0/8", "http://127.0.0.1:9/", True),
    ("10.0.0.0/8:8080", "http://10.1.2.3:8080/", True),
    ("10.0.0.0/8:8080", "http://10.1.2.3:22/", False),
    ("10.0.0.0/8", "http://[::ffff:10.0.0.1]/", True),
    ("10.0.0.0/8", "http://example.com/", False),
    ("::1", "http://[::1]:8080/", True),
    ("[::1]:8080", "http://[::1]:8080/", True),
    ("[::1]:8080", "http://[::1]:8081/", False),
    ("[fd00::/8]:8443", "https://[fd00::1]:8443/", True),
    ("fd00::/8", "http://[fe80::1]/", False),
    ("hooks.internal", "http://hooks.internal:8080/", True),
    ("Hooks.Internal:8080", "http://hooks.internal:8080/", True),
    ("hooks.internal:8080", "http://hooks.internal/", False),
    ("hooks.internal", "http://other.internal/", False),
    ("hooks.internal", "http://x.hooks.internal/", False),
    ("example.com:80", "http://example.com/", True),
    ("hook7.internal", "http://hook7.internal/", True),
    ("hook7", "http://hook7/", True),
    ("example.com", "https://user@example.com/", False),
    ("0.0.0.0/0, ::/0", "ftp://127.0.0.1/", False),
]


@pytest.mark.parametrize(("allow", "url", "permitted"), ALLOWING)
def test_an_operator_permits_what_is_named_and_nothing_else(allow: str, url: str, permitted: bool) -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        return ["10.20.30.40"] if host.endswith("internal") else on_the_internet(host, port)

    if permitted:
        assert judge(url, allowed_of(allow), resolve).addresses
    else:
        with pytest.raises(CallbackRefused):
            judge(url, allowed_of(allow), resolve)


def test_an_allowed_network_does_not_excuse_the_other_addresses_of_a_name() -> None:
    allowed = allowed_of("10.0.0.0/8")
    with pytest.raises(CallbackRefused, match="loopback"):
        judge("https://example.com/", allowed, always(["10.0.0.1", "127.0.0.1"]))
    with pytest.raises(CallbackRefused, match="not https"):
        judge("http://example.com/", allowed, always(["10.0.0.1", PUBLIC]))


@pytest.mark.parametrize("text", ["10.0.0.0/99", "http://example.com", "a b", "example.com:http", "example.com:0", "[::1", "1.2"])
def test_a_mistake_in_the_list_is_told(text: str) -> None:
    with pytest.raises(SettingError, match="HOLDFAST_WEBHOOK_ALLOW"):
        allowed_of(text)


def test_an_empty_list_allows_nothing() -> None:
    assert allowed_of(" , ,") == ()


def test_addresses_that_python_calls_global_are_refused() -> None:
    """Why the list is our own."""
    for text in ("64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "100.64.0.1", "224.0.0.1", "192.0.0.8", "192.88.99.1"):
        assert why_refused(ip_address(text)) is not None, text
    for text in (PUBLIC, PUBLIC_6, "8.8.8.8", "1.1.1.1", "2a00:1450:4001::1"):
        assert why_refused(ip_address(text)) is None, text


def test_a_place_is_taken_apart() -> None:
    assert place_of("https://example.com") == ("https", "example.com", 443, "/")
    assert place_of("http://[::1]:80?x") == ("http", "::1", 80, "/?x")
    assert place_of("http://[::1]:80?x").authority == "[::1]"
