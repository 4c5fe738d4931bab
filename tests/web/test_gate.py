"""The gate around everything: names, sizes, rates, pages from elsewhere, and what every answer carries."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount

from holdfast import Holdfast, SettingError
from holdfast.testing import ManualClock
from holdfast.web import WebSettings, create_app
from holdfast.web.access import LOCAL
from holdfast.web.gate import HEADERS, OPEN, Gate
from holdfast.web.heads import HeadLimit
from holdfast.web.hosts import Hosts, is_loopback, name_in
from holdfast.web.limits import BUCKETS_MAX, Buckets, Streams, neighbourhood
from holdfast.web.problem import Problem
from holdfast.web.session import COOKIE, CSRF_HEADER
from tests.web.asking import Asker, walk
from tests.web.ground import STREAM, ThreadServer, served
from tests.web.tasks import register

WANTED = {"task": "add", "args": [1]}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(tmp_path: Path, clock: ManualClock) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock) as made:
        yield register(made)


@pytest.fixture
def web(app: Holdfast) -> Any:
    return create_app(app, settings=WebSettings(insecure=True))


def asker(app: Holdfast, **settings: Any) -> Asker:
    return Asker(create_app(app, settings=WebSettings(insecure=True, **settings)))


def connected(server: ThreadServer) -> socket.socket:
    """For what no client would send."""
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 10)


# The name it is called by


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "LOCALHOST", "localhost.", "127.0.0.1:1", "[::1]:80", "[::1]"])
def test_it_answers_to_the_names_of_this_machine(web: Any, host: str) -> None:
    assert Asker(web, host=host).get("/api/jobs").status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.test", "localhost.evil.test", "127.0.0.1.evil.test", "evil.test:localhost", "localhost@evil.test", "", "192.0.2.1",
     "localhost:80:90", "[::1", "[::1]evil", "localhost:", " localhost evil", "2130706433", "127.1"],
)  # fmt: skip
def test_any_other_name_is_misdirected(web: Any, host: str) -> None:
    for path in ("/api/jobs", "/login", "/"):
        answer = Asker(web, host=host).get(path)
        assert answer.status_code == 421, host
        assert "HOLDFAST_WEB_HOSTS" in answer.json()["detail"]


def test_other_names_are_configured(app: Holdfast) -> None:
    named = asker(app, hosts=("Jobs.Example.com", "192.0.2.1"))
    assert named.get("/api/jobs", headers={"host": "jobs.example.com:443"}).status_code == 200
    assert named.get("/api/jobs", headers={"host": "192.0.2.1"}).status_code == 200
    assert named.get("/api/jobs", headers={"host": "www.jobs.example.com"}).status_code == 421
    assert asker(app, hosts=("*",)).get("/api/jobs", headers={"host": "any.test"}).status_code == 200


def test_bound_to_every_address_it_answers_to_addresses_which_cannot_be_rebound() -> None:
    hosts = Hosts(("0.0.0.0",))
    assert hosts.know("192.0.2.1:8080")
    assert hosts.know("[2001:db8::1]:80")
    assert not hosts.know("evil.test")
    assert not Hosts(("192.0.2.1",)).know("192.0.2.2")


def test_two_names_are_one_too_many(app: Holdfast) -> None:
    with served(app) as server, connected(server) as raw:
        raw.sendall(b"GET /api/jobs HTTP/1.1\r\nHost: localhost\r\nHost: evil.test\r\nConnection: close\r\n\r\n")
        assert raw.recv(100).split()[1] in (b"400", b"421")


def test_what_is_loopback() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.255.0.1", "::1", "[::1]", "::ffff:127.0.0.1")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "::", "10.0.0.1", "localhost.evil.test", "::ffff:10.0.0.1", "2130706433")))
    assert name_in("[::1]:8080") == "::1"


# What every answer carries


def test_every_answer_has_the_headers_whatever_it_is(app: Holdfast, web: Any) -> None:
    answers = [
        Asker(web).get(path)
        for path in ("/", "/login", "/static/style.css", "/api/jobs", "/api/jobs/no", "/nothing", "/openapi.json")
    ]
    answers += [Asker(web, host="evil.test").get("/"), Asker(web).post("/api/jobs", content=b"[")]
    app.add_key("first")
    answers.append(Asker(web, key="hf_").get("/api/jobs"))
    assert {answer.status_code for answer in answers} >= {200, 401, 404, 415, 421}
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value, answer
        assert answer.headers["cache-control"]
        if answer.url.path.startswith("/api/"):
            assert "no-store" in answer.headers["cache-control"]
        assert "access-control-allow-origin" not in answer.headers
    policy = HEADERS["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';")
    assert "unsafe" not in policy


def test_a_bug_of_ours_has_them_too(app: Holdfast, web: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def bug(*_: Any, **__: Any) -> None:
        raise KeyError("CANARY")

    monkeypatch.setattr(app, "aget", bug)
    answer = Asker(web).get("/api/jobs/x")
    assert answer.status_code == 500
    assert "CANARY" not in answer.text
    assert answer.headers["content-security-policy"] == HEADERS["content-security-policy"]


def test_the_documentation_asks_no_other_server(web: Any) -> None:
    for path in ("/docs", "/redoc", "/docs/oauth2-redirect"):
        assert Asker(web).get(path).status_code == 404
    assert Asker(web).get("/openapi.json").json()["openapi"].startswith("3.")


# Sizes


def test_a_body_that_is_too_large_is_refused_before_it_is_read(app: Holdfast) -> None:
    small = asker(app, body_bytes_max=1_000)
    assert small.post("/api/jobs", json={**WANTED, "meta": {"x": "y" * 500}}).status_code == 201
    assert small.post("/api/jobs", json={**WANTED, "meta": {"x": "y" * 1_000}}).status_code == 413
    assert small.post("/login", data={"key": "y" * 1_000}).status_code == 413
    for length in ("1001", "9" * 30, "-1", "1e3", "x"):
        assert small.post("/api/jobs", content=b"{}", headers={"content-length": length}).status_code == 413, length


def test_a_body_without_a_length_is_cut_off_as_well(app: Holdfast) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 50_000_000:
            sent += 10_000
            yield b"[" * 10_000

    with served(app, WebSettings(insecure=True, body_bytes_max=100_000)) as server:
        try:
            answer = server.client.post("/api/jobs", content=endless(), headers={"content-type": "application/json"})
        except httpx.WriteError:
            pass  # it closed while we were still sending
        else:
            assert answer.status_code == 413
            assert answer.headers["content-type"] == "application/problem+json"
        assert sent < 50_000_000
        assert server.client.get("/api/jobs").status_code == 200


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 2_000_000,
        b"[" * 1_000_000,
        b'{"a":' * 200_000,
        b'{"task":"anything","args":' + b"[" * 500_000 + b"]" * 500_000 + b"}",
        b'{"task":"anything","kwargs":{' + b",".join(b'"%d":1' % n for n in range(1_000_000)) + b"}}",
        b'{"task":"anything","kwargs":{' + b",".join(b'"%d":1' % n for n in range(90_000)) + b"}}",
        b'{"task":"anything","args":[' + b"9" * 900_000 + b"]}",
    ],
    ids=["2 MB of [", "1 MB of [", "deep objects", "deep argument", "a million keys", "90,000 keys", "a long number"],
)
def test_json_that_is_meant_to_hurt_is_an_ordinary_error(web: Any, content: bytes) -> None:
    answer = Asker(web).post("/api/jobs", content=content, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 413, 422) or (answer.status_code, len(content) < 1_048_576) == (201, True)


@pytest.mark.parametrize("path", ["/api/jobs?limit=1000000000", "/api/jobs?limit=0", "/api/jobs?limit=-1", "/api/jobs?limit=x"])
def test_a_page_has_a_bound(web: Any, path: str) -> None:
    assert Asker(web).get(path).status_code == 422


def test_an_address_that_is_too_long_is_refused(web: Any) -> None:
    for path in ("/api/jobs?tag=" + "x" * 9_000, "/api/jobs/" + "x" * 9_000, "/" + "x" * 9_000):
        assert Asker(web).get(path).status_code == 414


def test_a_body_that_does_not_come_is_not_waited_for_for_ever(app: Holdfast) -> None:
    with served(app, WebSettings(insecure=True, body_seconds=0.05)) as server, connected(server) as raw:
        raw.sendall(b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        assert raw.recv(1_000).startswith(b"HTTP/1.1 408")


# Pages from elsewhere


CROSS = [
    {"origin": "http://evil.test"},
    {"origin": "null"},
    {"origin": "http://localhost.evil.test"},
    {"origin": "http://localhost:9999"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "origin": "http://localhost"},
    {"origin": "http://[evil"},
]
"""Of the last but one the origin says that all is well: who can forge that cannot forge the other."""


@pytest.mark.parametrize("headers", CROSS)
def test_a_page_from_elsewhere_changes_nothing_where_no_key_is_needed(app: Holdfast, web: Any, headers: dict[str, str]) -> None:
    job = app.tasks["add"].enqueue(1)
    form = {"content-type": "text/plain"}
    browser = Asker(web)
    for route in walk(web):
        if route.method not in ("GET", "HEAD"):
            answer = browser(route.method, route.at(job.id), json={"reason": "x"}, headers=headers)
            assert answer.status_code == 403, route
    assert browser.post("/api/jobs", content=b'{"task":"add","args":[1]}', headers={**headers, **form}).status_code == 403
    assert app.stats() == {"add": {"ready": 1}}


@pytest.mark.parametrize("headers", CROSS)
def test_a_page_from_elsewhere_changes_nothing_by_cookie(app: Holdfast, web: Any, headers: dict[str, str]) -> None:
    browser = Asker(web)
    assert browser.post("/login", data={"key": app.add_key("bob", "admin").text}).status_code == 204
    token = browser.get("/api/session").json()["csrf"]
    for said in ({}, {CSRF_HEADER: token}):
        assert browser.post("/api/jobs", json=WANTED, headers={**headers, **said}).status_code == 403
    assert app.stats() == {}


def test_nobody_can_be_logged_in_by_a_page_from_elsewhere(app: Holdfast, web: Any) -> None:
    key = app.add_key("evil").text
    answer = Asker(web, origin="http://evil.test").post("/login", data={"key": key})
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


def test_a_change_by_cookie_needs_the_token_and_reading_does_not(app: Holdfast, web: Any) -> None:
    made = app.add_key("bob", "operate")
    browser, other = Asker(web, origin="http://localhost"), Asker(web)
    for each in (browser, other):
        each.post("/login", data={"key": made.text})
    token = browser.get("/api/session").json()["csrf"]
    theirs = other.get("/api/session").json()["csrf"]
    assert token != theirs
    for wrong in (None, "", "1", theirs, token[:-1], token.upper(), "é".encode()):
        headers: Any = {} if wrong is None else {CSRF_HEADER: wrong}
        assert browser.post("/api/jobs", json=WANTED, headers=headers).status_code == 403, wrong
    assert browser.post("/api/jobs", json=WANTED, headers={CSRF_HEADER: token}).status_code == 201
    same = {CSRF_HEADER: token, "sec-fetch-site": "same-origin", "origin": "https://public.example"}
    assert browser.post("/api/jobs", json=WANTED, headers=same).status_code == 201, "behind a proxy that changes Host"
    with_key = {"authorization": f"Bearer {made.text}"}
    assert Asker(web, origin="http://app.example").post("/api/jobs", json=WANTED, headers=with_key).status_code == 201


def test_a_preflight_is_granted_to_nobody(app: Holdfast, web: Any) -> None:
    asks = {"origin": "http://evil.test", "access-control-request-method": "POST", "access-control-request-headers": CSRF_HEADER}
    answer = Asker(web, key=app.add_key("x").text)("OPTIONS", "/api/jobs", headers=asks)
    assert answer.status_code == 405
    assert not [name for name in answer.headers if name.startswith("access-control-")]


# Paths that look like others


LOOKALIKES = [
    "/api/jobs/login", "/api/jobs/healthz", "/api/queues/health", "/api/queues/x%2Fready", "/api/jobs/x/ready", "/x/login",
    "/login/", "//login", "/login%2F", "/login/../api/jobs", "/static/..%2f..%2fapi%2fjobs", "/static/%2e%2e/api/jobs",
    "/static/style.css/../../api/jobs", "/static/style.css%00", "/LOGIN", "/login;x", "/api/jobs;/login", "/healthz", "/metrics",
    "/api/jobs%3F/login", "/api/jobs/..%2F..%2Flogin", "/%6cogin/x", "/api/jobs/%2e%2e/%2e%2e/login", "/readyz",
]  # fmt: skip


def test_nothing_is_open_because_of_how_it_looks(app: Holdfast) -> None:
    app.tasks["add"].using(queue="health").enqueue(1)
    app.add_key("somebody")
    with served(app) as server:
        for path in LOOKALIKES:
            with connected(server) as raw:
                raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                assert raw.recv(1_000).split()[1] == b"401", path


def test_what_is_open_is_a_set_of_whole_paths() -> None:
    assert all(path.startswith(("/static/", "/login")) and "{" not in path for _, path in OPEN)


def test_health_is_open_where_that_was_asked_for_and_says_more_to_who_is_known(app: Holdfast) -> None:
    key = {"x-api-key": app.add_key("somebody").text}
    assert asker(app).get("/healthz").status_code == 401
    opened = asker(app, health_open=True)
    assert opened.get("/healthz").json() == {"status": "ok"}
    assert "workers" in opened.get("/healthz", headers=key).json()
    assert opened.get("/healthz", headers={"x-api-key": "wrong"}).status_code == 401
    for path in ("/api/jobs", "/healthz/", "/api/healthz", "/jobs/healthz"):
        assert opened.get(path).status_code == 401


def test_there_are_no_websockets(web: Any) -> None:
    sent: list[Any] = []

    async def connect() -> None:
        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "websocket",
            "path": "/api/jobs",
            "headers": [(b"host", b"localhost")],
            "query_string": b"",
            "root_path": "",
        }
        await web.middleware_stack(scope, receive, send) if web.middleware_stack else await web(scope, receive, send)

    asyncio.run(connect())
    assert [message["type"] for message in sent] == ["websocket.close"]


@pytest.mark.parametrize("outer", ["starlette", "fastapi"])
def test_mounted_under_a_prefix_it_is_the_same(app: Holdfast, web: Any, outer: str) -> None:
    key = app.add_key("bob", "operate").text
    if outer == "starlette":
        host: Any = Starlette(routes=[Mount("/ops/holdfast", web)])
    else:
        host = FastAPI()
        host.mount("/ops/holdfast", web)
    stranger = Asker(host)
    for route in walk(web):
        answer = stranger(route.method, f"/ops/holdfast{route.at()}")
        assert (answer.status_code == 401) is not (route.is_open and route.method == "GET"), route
    assert stranger.get("/login").status_code == 404
    assert Asker(host, key=key).get("/ops/holdfast/api/jobs").status_code == 200
    answer = stranger.post("/ops/holdfast/login", data={"key": key})
    assert "Path=/ops/holdfast;" in answer.headers["set-cookie"]
    token = stranger.get("/ops/holdfast/api/session").json()["csrf"]
    made = stranger.post("/ops/holdfast/api/jobs", json=WANTED, headers={CSRF_HEADER: token})
    assert made.status_code == 201
    ticket = stranger.post("/ops/holdfast/api/tickets", json={"job": made.json()["id"]}, headers={CSRF_HEADER: token}).json()[
        "ticket"
    ]
    assert Asker(host).get(f"/ops/holdfast/api/jobs/{made.json()['id']}/events?ticket={ticket}").status_code == 200


@pytest.mark.parametrize("path", ["/login", "/api/jobs"])
def test_the_caller_is_what_the_gate_says_whatever_was_said_before(app: Holdfast, web: Any, path: str) -> None:
    seen: list[Any] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["state"].get("caller"))
        await Response()(scope, receive, send)

    gate = Gate(inner, WebSettings(), api=web)
    made = app.add_key("bob")

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        await gate({**scope, "state": {"caller": LOCAL}}, receive, send)

    assert Asker(outer, key=made.text).get(path).status_code == 200
    assert [caller and caller.name for caller in seen] == [None if path == "/login" else "bob"]


# Rates


def test_a_caller_has_a_rate(app: Holdfast, clock: ManualClock) -> None:
    web = create_app(app, settings=WebSettings(requests_per_second=2))
    one, other = (Asker(web, key=app.add_key(name).text) for name in ("one", "other"))
    assert [one.get("/api/jobs").status_code for _ in range(5)] == [200, 200, 200, 200, 429]
    refused = one.get("/api/jobs")
    assert (refused.headers["retry-after"], refused.headers["content-type"]) == ("1", "application/problem+json")
    assert other.get("/api/jobs").status_code == 200
    clock.advance(0.5)
    assert [one.get("/api/jobs").status_code for _ in range(2)] == [200, 429]


def test_l11_wrong_keys_lock_nobody_out(app: Holdfast) -> None:
    web = create_app(app, settings=WebSettings(requests_per_second=1))
    good = app.add_key("good")
    guesser = Asker(web, address="192.0.2.1")
    guess = {"authorization": "Bearer hf_000000000000_" + "a" * 43}
    assert [guesser.get("/api/jobs", headers=guess).status_code for _ in range(4)] == [401, 401, 429, 429]
    assert guesser.get("/api/jobs/x/events?ticket=x").status_code == 429
    assert guesser.get("/api/jobs", headers={"cookie": f"{COOKIE}={'x' * 43}"}).status_code == 429
    assert Asker(web, key=good.text, address="192.0.2.1").get("/api/jobs").status_code == 200, "a key that was not used yet"
    assert Asker(web, address="192.0.2.2").get("/api/jobs", headers=guess).status_code == 401


def test_who_is_not_known_has_a_rate_too(app: Holdfast) -> None:
    web = create_app(app, settings=WebSettings(requests_per_second=1))
    app.add_key("somebody")
    guesser = Asker(web, address="192.0.2.1", cookie=f"{COOKIE}={'x' * 43}")
    assert [guesser.get("/api/jobs").status_code for _ in range(3)] == [401, 401, 429]
    assert [Asker(web, address="192.0.2.2").get("/login").status_code for _ in range(3)] == [200, 200, 429]


def test_a_caller_has_so_many_streams_at_a_time(app: Holdfast) -> None:
    job = app.tasks["add"].enqueue(1)
    with served(app, WebSettings(insecure=True, streams_per_caller_max=2)) as server:
        place, gate = f"/api/jobs/{job.id}/events", server.web.state
        with server.client.stream("GET", place, headers=STREAM) as first, server.client.stream("GET", place, headers=STREAM):
            assert first.status_code == 200
            assert server.client.get(place, headers=STREAM).status_code == 429
            assert server.client.get(place).status_code == 200, "to read is no stream"
        while len(gate.gate._streams):  # the server has yet to notice
            server.client.get("/api/session")
        with server.client.stream("GET", place, headers=STREAM) as again:
            assert again.status_code == 200


def test_what_is_counted_is_bounded_itself(clock: ManualClock) -> None:
    buckets = Buckets(1, 2, clock)
    for number in range(BUCKETS_MAX + 100):
        buckets.take(f"caller {number}")
    assert len(buckets) == BUCKETS_MAX
    streams = Streams(1)
    streams.enter("a")
    with pytest.raises(Problem):
        streams.enter("a")
    streams.leave("a")
    assert len(streams) == 0
    streams.enter("a")
    assert len(streams) == 1


def test_one_customer_is_one_address() -> None:
    assert neighbourhood("2001:db8:1:2:3::4") == neighbourhood("2001:db8:1:2:ffff::1") != neighbourhood("2001:db8:1:3::1")
    assert (neighbourhood("192.0.2.1"), neighbourhood("::ffff:192.0.2.1"), neighbourhood("unix")) == (
        "192.0.2.1",
        "192.0.2.1",
        "unix",
    )


# Logs and settings


def test_no_log_of_the_server_has_a_ticket(
    app: Holdfast, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the access log of uvicorn, which we leave off and an operator may turn on."""
    job = app.tasks["add"].enqueue(1)
    key = app.add_key("bob").text
    caplog.set_level(logging.DEBUG)
    with served(app) as server:
        monkeypatch.setattr(logging.getLogger("uvicorn.access"), "propagate", True)
        ticket = server.client.post("/api/tickets", json={"job": job.id}, headers={"x-api-key": key}).json()["ticket"]
        place = f"/api/jobs/{job.id}/events"
        assert server.client.get(f"{place}?after=0&ticket={ticket}&limit=1").status_code == 200
        assert server.client.get(f"{place}?ticket={ticket}").status_code == 401
    said = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith(("httpx", "httpcore")))
    assert f'"GET {place}?after=0&limit=1 HTTP/1.1" 200' in said
    assert ticket not in said
    assert key not in said


def test_the_environment_sets_what_code_can_set() -> None:
    said = {"HOSTS": "a.example, b.example", "AUTH": "ON", "INSECURE": "true", "BODY_BYTES_MAX": "10", "HEARTBEAT_SECONDS": "2.5"}
    given = {f"HOLDFAST_WEB_{name}": value for name, value in said.items()}
    made = WebSettings.of_environment({**given, "PATH": "x", "HOLDFAST_WEBHOOK_SECRET": "x"})
    assert (made.hosts, made.auth, made.insecure) == (("a.example", "b.example"), "on", True)
    assert (made.body_bytes_max, made.heartbeat_seconds) == (10, 2.5)
    assert WebSettings.of_environment({}) == WebSettings()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("HOST", "a", "HOLDFAST_WEB_HOST is unknown; known: auth, "),
        ("AUTH", "maybe", "HOLDFAST_WEB_AUTH='maybe': use auto, on or off"),
        ("INSECURE", "perhaps", "HOLDFAST_WEB_INSECURE='perhaps'"),
        ("BODY_BYTES_MAX", "0", "HOLDFAST_WEB_BODY_BYTES_MAX='0': expected int >= 1"),
        ("RECHECK_SECONDS", "61", "expected float <= 30"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_by_name(name: str, value: str, words: str) -> None:
    with pytest.raises(SettingError) as caught:
        WebSettings.of_environment({f"HOLDFAST_WEB_{name}": value})
    assert words in str(caught.value)


def test_l3_a_connection_that_does_not_finish_a_head_is_closed(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadLimit, "head_seconds", 0.2)
    asked = b"GET /login HTTP/1.1\r\nHost: localhost\r\n"
    with served(app) as server:
        for begun in (b"", b"GET", asked + b"X-A: "):
            with connected(server) as raw:
                raw.sendall(begun)
                assert raw.recv(1) == b"", "closed, without an answer"
        with connected(server) as raw:
            raw.sendall(asked + b"\r\n")
            head, _, body = raw.recv(100_000).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK")
            raw.sendall(asked)  # and no more
            while piece := raw.recv(100_000):
                body += piece
            assert body.count(b"<!doctype html>") == 1, "the second one as well"


def test_l3_a_stream_outlives_the_time_for_a_head(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeadLimit, "head_seconds", 0.05)
    job = app.tasks["add"].using(run_after=60).enqueue(1)
    settings = WebSettings(insecure=True, heartbeat_seconds=0.05)
    with served(app, settings) as server, server.client.stream("GET", f"/api/jobs/{job.id}/events", headers=STREAM) as answer:
        read = b""
        for piece in answer.iter_raw():
            read += piece
            if read.count(b":\n\n") >= 5:
                break
