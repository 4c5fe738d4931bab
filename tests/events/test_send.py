"""One POST: what is sent, what counts as an answer, and that whoever answers badly is left in time."""

from __future__ import annotations

import gzip
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from holdfast.domain.callback import Place
from holdfast.events.webhook import send
from holdfast.events.webhook.address import Target, allowed_of, judge
from holdfast.events.webhook.send import Limits, NotSent, post
from tests.events.receiver import Receiver, certificate, raw_server

QUICK = Limits(connect_seconds=0.5, total_seconds=0.7)
LOCAL = allowed_of("127.0.0.0/8")


def at(port: int, scheme: str = "http", host: str = "127.0.0.1") -> Target:
    return Target(Place(scheme, host, port, "/hook?a=b"), ("127.0.0.1",))


def test_a_request_has_what_it_needs_and_nothing_of_ours() -> None:
    with Receiver((200, {}, b"thank you")) as receiver:
        target = judge(f"{receiver.url}?a=%20b", LOCAL)
        answer = post(target, {"content-type": "application/json", "webhook-id": "msg_1"}, b'{"a":1}')
        assert answer == (200, None, "thank you")
        (received,) = receiver.wait()
    assert (received.path, received.body) == ("/hook?a=%20b", b'{"a":1}')
    assert received.headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "content-type": "application/json",
        "content-length": "7",
        "accept-encoding": "identity",
        "connection": "close",
        "webhook-id": "msg_1",
    }


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_an_answer_and_is_not_followed(status: int) -> None:
    with Receiver() as secret, Receiver((status, {"location": secret.url})) as receiver:
        assert post(judge(receiver.url, LOCAL), {}, b"{}").status == status
        assert len(receiver.wait()) == 1
        assert secret.received == []


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        assert post(judge(receiver.url, LOCAL), {}, b"{}").status == 204
        assert proxy.received == []


def test_the_address_that_was_judged_is_called_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a second lookup")

    with Receiver() as receiver:
        target = judge(f"http://hooks.example.com:{receiver.port}/", allowed_of("127.0.0.1"), lambda *_: ["127.0.0.1"])
        for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "create_connection"):
            monkeypatch.setattr(socket, name, never)
        assert post(target, {}, b"{}").status == 204
        assert receiver.wait()[0].headers["host"] == f"hooks.example.com:{receiver.port}"


def test_the_next_address_is_tried_where_nobody_is_at_home() -> None:
    with Receiver() as receiver:
        target = Target(Place("http", "hooks.example.com", receiver.port, "/"), ("::1", "127.0.0.2", "127.0.0.1"))
        assert post(target, {}, b"{}").status == 204


def test_nobody_at_home() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NotSent, match=f"could not connect to 127.0.0.1:{port}: Connection refused"):
        post(at(port), {}, b"{}")


def test_nobody_opens() -> None:
    """A port whose queue is full: the call is neither taken nor refused."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        callers = [socket.socket() for _ in range(4)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(("127.0.0.1", port))
        began = time.monotonic()
        with pytest.raises(NotSent, match=r"no answer within 0.3 s"):
            post(at(port), {}, b"{}", Limits(connect_seconds=0.3, total_seconds=5))
        assert time.monotonic() - began < 2
        for caller in callers:
            caller.close()


# Those who answer badly

DRIP = 0.05


def drip(connection: socket.socket, start: bytes) -> None:
    connection.sendall(start)
    while True:
        connection.sendall(b"x")
        time.sleep(DRIP)  # blocks on purpose


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nA: "])
def test_a_head_that_comes_letter_by_letter(start: bytes) -> None:
    with raw_server(lambda connection: drip(connection, start)) as port:
        began = time.monotonic()
        with pytest.raises(NotSent, match=r"took longer than 0.7 s"):
            post(at(port), {}, b"{}", QUICK)
        assert time.monotonic() - began < 2


def test_a_body_that_comes_letter_by_letter_does_not_take_the_answer_back() -> None:
    with raw_server(lambda connection: drip(connection, b"HTTP/1.1 200 OK\r\n\r\n")) as port:
        began = time.monotonic()
        assert post(at(port), {}, b"{}", QUICK).status == 200
        assert time.monotonic() - began < 2


def test_silence() -> None:
    stop = threading.Event()

    def say_nothing(connection: socket.socket) -> None:
        stop.wait(5)

    with raw_server(say_nothing) as port, pytest.raises(NotSent, match="took longer"):
        post(at(port), {}, b"{}", QUICK)
    stop.set()


def flood(connection: socket.socket, start: bytes, line: bytes) -> None:
    connection.sendall(start)
    while True:
        connection.sendall(line)


@pytest.mark.parametrize(
    ("start", "line"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"a: " + b"x" * 1_000 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\na: ", b"x" * 1_000),
        (b"", b"x" * 1_000),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
)
def test_a_head_without_end(start: bytes, line: bytes) -> None:
    server = raw_server(lambda connection: flood(connection, start, line))
    with server as port, pytest.raises(NotSent, match="not HTTP"):
        post(at(port), {}, b"{}")


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFF\r\n"]
)
def test_a_body_without_end_is_read_to_its_bound(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def keep(answer: bytes) -> str:
        read.append(answer)
        return ""

    monkeypatch.setattr(send, "_prefix", keep)
    with raw_server(lambda connection: flood(connection, head, b"x" * 65_536)) as port:
        assert post(at(port), {}, b"{}").status in (200, 500)
    assert len(read[0]) == send.ANSWER_BYTES_MAX


def test_a_gzip_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    with Receiver((200, {"content-encoding": "gzip"}, bomb)) as receiver:
        answer = post(judge(receiver.url, LOCAL), {}, b"{}")
    assert answer.status == 200
    assert len(answer.prefix) <= send.PREFIX_CHARS_MAX


@pytest.mark.parametrize("answer", [b"", b"\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", b"-ERR unknown command\r\n", b"\x15\x03\x01"])
def test_who_does_not_speak_http(answer: bytes) -> None:
    def say(connection: socket.socket) -> None:
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)

    with raw_server(say) as port, pytest.raises(NotSent, match=r"not HTTP|broke"):
        post(at(port), {}, b"{}", QUICK)


def test_who_hangs_up() -> None:
    def hang_up(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with raw_server(hang_up) as port, pytest.raises(NotSent, match="broke: Connection reset"):
        post(at(port), {}, b"{}")


def test_what_is_kept_of_an_answer_can_be_shown() -> None:
    with Receiver((400, {}, b"\x1b[31mno\x00\r\n\xff \xe2\x80\xae" + b"x" * 500)) as receiver:
        prefix = post(judge(receiver.url, LOCAL), {}, b"{}").prefix
    assert prefix.startswith("[31mno � x")
    assert len(prefix) == send.PREFIX_CHARS_MAX
    assert prefix.isprintable()


def test_the_time_to_come_back_is_told() -> None:
    with Receiver((503, {"retry-after": "120"})) as receiver:
        assert post(judge(receiver.url, LOCAL), {}, b"{}") == (503, "120", "")


# TLS


def test_tls_with_a_certificate_for_that_name(tmp_path: Path) -> None:
    server, trusting = certificate(tmp_path, "DNS:hooks.example.com")
    with Receiver(tls=server) as receiver:
        assert post(at(receiver.port, "https", "hooks.example.com"), {}, b"{}", tls=trusting).status == 204
        assert receiver.wait()[0].headers["host"] == f"hooks.example.com:{receiver.port}"


def test_tls_with_a_certificate_for_an_address(tmp_path: Path) -> None:
    server, trusting = certificate(tmp_path, "IP:127.0.0.1")
    with Receiver(tls=server) as receiver:
        assert post(at(receiver.port, "https"), {}, b"{}", tls=trusting).status == 204


def test_tls_with_a_certificate_for_another_name(tmp_path: Path) -> None:
    server, trusting = certificate(tmp_path, "DNS:other.example.com")
    with Receiver(tls=server) as receiver:
        with pytest.raises(NotSent, match=r"certificate of hooks.example.com does not hold: Hostname mismatch"):
            post(at(receiver.port, "https", "hooks.example.com"), {}, b"{}", tls=trusting)
        assert receiver.received == []


def test_tls_with_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    server, _ = certificate(tmp_path, "DNS:hooks.example.com")
    with Receiver(tls=server) as receiver:
        with pytest.raises(NotSent, match=r"certificate of hooks.example.com does not hold: self-signed"):
            post(at(receiver.port, "https", "hooks.example.com"), {}, b"{}")
        assert receiver.received == []


def test_tls_with_who_does_not_speak_it() -> None:
    with Receiver() as receiver:
        with pytest.raises(NotSent, match="TLS with"):
            post(at(receiver.port, "https"), {}, b"{}", QUICK)
        assert receiver.received == []


def test_a_handshake_that_never_ends() -> None:
    with raw_server(lambda connection: drip(connection, b"\x16\x03\x03\x40\x00")) as port:
        began = time.monotonic()
        with pytest.raises(NotSent, match=r"took longer|TLS with"):
            post(at(port, "https"), {}, b"{}", QUICK)
        assert time.monotonic() - began < 2


def test_nothing_is_left_open() -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    with Receiver() as receiver, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        taken.close()
        post(judge(receiver.url, LOCAL), {}, b"{}")
        receiver.wait()
        before = descriptors()
        for _ in range(10):
            with pytest.raises(NotSent):
                post(at(port), {}, b"{}")
            with pytest.raises(NotSent):
                post(at(receiver.port, "https"), {}, b"{}", QUICK)
        assert descriptors() <= before + 2  # the receiver may be about to close its side
