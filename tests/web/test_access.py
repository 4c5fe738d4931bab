"""Who is let in, and to what: every route, every scope, every way to show who one is."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast import Holdfast, Scope, SettingError
from holdfast.testing import ManualClock
from holdfast.web import WebSettings, create_app
from holdfast.web.access import LOCAL, Caller
from holdfast.web.hosts import check_bind
from holdfast.web.session import COOKIE, CSRF_HEADER
from holdfast.web.token import token_of
from tests.web.asking import Asker, walk
from tests.web.ground import STREAM, frames_of, served
from tests.web.tasks import register

SETTINGS = WebSettings()
REMOTE = "192.0.2.7"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(tmp_path: Path, clock: ManualClock) -> Iterator[Holdfast]:
    """Time is the test's. What the store does itself is tested on every store, in the conformance suite."""
    with Holdfast(f"sqlite:///{tmp_path / 'jobs.db'}", clock=clock) as made:
        yield register(made)


@pytest.fixture
def web(app: Holdfast) -> Any:
    return create_app(app, settings=SETTINGS)


def keys(app: Holdfast) -> dict[Scope, str]:
    return {scope: app.add_key(str(scope), scope).text for scope in Scope}


# Every route


def test_every_route_without_a_key_is_401_but_what_is_open_by_name(app: Holdfast, web: Any) -> None:
    app.add_key("somebody")
    stranger, routes = Asker(web), walk(web)
    assert len(routes) > 15
    for route in routes:
        answer = stranger(route.method, route.at())
        if route.is_open and route.method == "GET":
            assert answer.status_code == 200, route
            continue
        assert answer.status_code == 401, route
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.headers["content-type"] == "application/problem+json"
    assert {(route.method, route.path) for route in routes if route.is_open} == {("GET", "/login"), ("POST", "/login")}
    for path in ("/nothing", "/api", "/API/JOBS", "/api/jobs/", "/docs", "/redoc", "/static/../api/jobs", "/static/nothing.js"):
        assert stranger.get(path).status_code == 401, path
    for method in ("PUT", "TRACE", "OPTIONS", "HEAD", "PATCH", "MADE-UP"):
        assert stranger(method, "/api/jobs").status_code == 401, method


def test_what_is_open_needs_no_key_and_the_rest_needs_a_scope(web: Any) -> None:
    """A route that forgot to say what it needs is found here."""
    routes = walk(web)
    forgotten = [route for route in routes if route.scope is None and not route.is_open and route.path != "/openapi.json"]
    assert [route for route in forgotten if not route.path.startswith(("/static/", "/healthz"))] == []
    assert not any(route.is_open for route in routes if route.scope is not None and not route.path.startswith("/healthz"))


def test_each_scope_may_do_what_the_routes_say_and_no_more(app: Holdfast, web: Any) -> None:
    made = keys(app)
    for route in walk(web):
        if route.scope is None or route.path == "/logout":
            continue
        for scope, key in made.items():
            status = Asker(web, key=key)(route.method, route.at(), json={}).status_code
            assert status != 401, (scope, route)
            assert (status == 403) is not scope.includes(route.scope), (scope, route, status)


def test_reading_needs_read_writing_needs_more(web: Any) -> None:
    for route in walk(web):
        if route.scope is not None and route.path not in ("/logout", "/api/tickets"):
            assert (route.scope is Scope.READ) is (route.method == "GET"), route


def test_to_read_never_writes(app: Holdfast, web: Any, tmp_path: Path) -> None:
    job = app.tasks["add"].enqueue(1)
    asker = Asker(web, key=app.add_key("reader", "admin").text)

    def dump() -> list[str]:
        with sqlite3.connect(tmp_path / "jobs.db") as onlooker:
            return list(onlooker.iterdump())

    before = dump()
    for route in walk(web):
        if route.method == "GET":
            assert asker.get(route.at(job.id)).status_code < 500, route
    assert dump() == before


# Keys


def test_a_key_is_sent_in_either_header_and_nowhere_else(app: Holdfast, web: Any) -> None:
    key = app.add_key("ci").text
    assert Asker(web, key=key).get("/api/session").json() == {"name": "ci", "scope": "read", "queues": None, "csrf": None}
    assert Asker(web, authorization=f"bearer {key}").get("/api/jobs").status_code == 200
    assert Asker(web, x_api_key=key).get("/api/jobs").status_code == 200
    for path in (f"/api/jobs?key={key}", f"/api/jobs?api_key={key}", f"/api/jobs?token={key}"):
        assert Asker(web).get(path).status_code == 401
    assert Asker(web, cookie=f"{COOKIE}={key}").get("/api/jobs").status_code == 401
    assert Asker(web, authorization=f"Basic {key}").get("/api/jobs").status_code == 401


def test_what_is_no_key_is_401(app: Holdfast, web: Any) -> None:
    made = app.add_key("ci")
    other = app.add_key("other")
    mixed = other.text.replace(other.prefix, made.prefix)
    wrong = (
        "",
        "hf",
        made.prefix,
        made.text[:-1],
        made.text + "a",
        made.text.upper(),
        mixed,
        f"{made.text} {other.text}",
    )
    for key in wrong:
        answer = Asker(web, x_api_key=key).get("/api/jobs")
        assert answer.status_code == 401, key
        assert made.text[:30] not in answer.text


def test_a_key_that_is_revoked_or_expired_is_refused_soon(app: Holdfast, web: Any, clock: ManualClock) -> None:
    revoked, expiring = app.add_key("revoked"), app.add_key("expiring", expires=100)
    one, other = Asker(web, key=revoked.text), Asker(web, key=expiring.text)
    assert [asker.get("/api/jobs").status_code for asker in (one, other)] == [200, 200]
    app.revoke_key(revoked.prefix)
    clock.advance(SETTINGS.recheck_seconds)
    assert one.get("/api/jobs").status_code == 401
    clock.advance(100 - SETTINGS.recheck_seconds - 0.001)
    assert other.get("/api/jobs").status_code == 200
    clock.advance(0.001)
    assert other.get("/api/jobs").status_code == 401, "at the very moment: nothing that is remembered outlives the key"


def test_a_stream_asks_again_whether_its_caller_is_still_known(app: Holdfast, web: Any, clock: ManualClock) -> None:
    async def ask() -> None:
        made = app.add_key("watcher")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://localhost") as client:
            await client.get("/api/jobs")  # the gate is made with the first request
        caller = await web.state.gate.keyring.holder(made.text)
        assert isinstance(caller, Caller)
        assert await caller.is_current()
        await app.arevoke_key(made.prefix)
        clock.advance(SETTINGS.recheck_seconds)
        assert not await caller.is_current()

    asyncio.run(ask())
    assert SETTINGS.recheck_seconds + SETTINGS.heartbeat_seconds <= 60
    with pytest.raises(SettingError, match="recheck_seconds"):
        WebSettings(recheck_seconds=30.1)
    with pytest.raises(SettingError, match="heartbeat_seconds"):
        WebSettings(heartbeat_seconds=30.1)


def test_an_open_stream_is_closed_when_its_key_is_revoked(tmp_path: Path) -> None:
    with Holdfast(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
        job = register(app).tasks["add"].enqueue(1)
        made = app.add_key("watcher")
        with served(app, WebSettings(heartbeat_seconds=0.02, recheck_seconds=0)) as server:
            headers = {**STREAM, "authorization": f"Bearer {made.text}"}
            with server.client.stream("GET", f"/api/jobs/{job.id}/events", headers=headers) as stream:
                frames = frames_of(stream)
                assert next(frames).event == "enqueued"
                threading.Thread(target=app.revoke_key, args=(made.prefix,)).start()
                assert list(frames) == [], "it ends, and not because the job did"
            assert server.client.get("/api/jobs", headers=headers).status_code == 401


def test_when_a_key_was_used_is_written_once_a_minute_and_by_no_request(app: Holdfast, web: Any, clock: ManualClock) -> None:
    made = app.add_key("ci")
    asker = Asker(web, key=made.text)
    for _ in range(3):
        clock.advance(1)
        asker.get("/api/jobs")
    assert app.keys()[0].last_used_at is None
    asyncio.run(web.state.gate.keyring.write_uses())
    assert app.keys()[0].last_used_at == clock.moment


# Nobody needs a key on this machine until there is one


# The token, while there is no key


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "holdfast"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", REMOTE, "testclient"])
def test_h3_where_a_request_comes_from_lets_nobody_in(web: Any, address: str) -> None:
    """A proxy with its defaults adds no header and asks from this machine."""
    for headers in ({}, {"via": "127.0.0.1"}, {"x_forwarded_for": "127.0.0.1"}, {"authorization": "Bearer x"}):
        asker = Asker(web, address=address, **headers)
        assert asker.get("/api/session").status_code == 401
        assert asker.post("/api/jobs", json={"task": "add", "args": [1]}).status_code == 401
        assert asker.post("/api/tickets", json={"job": "x"}).status_code == 401


def test_h3_the_token_lets_in_until_the_first_key_is_made(app: Holdfast, web: Any, clock: ManualClock) -> None:
    holder = Asker(web, key=token_of(app), address=REMOTE)
    assert holder.get("/api/session").json() == {"name": "local", "scope": "admin", "queues": None, "csrf": None}
    browser = Asker(web)
    assert browser.post("/login", json={"key": token_of(app)}).status_code == 204
    assert browser.get("/api/session").json()["scope"] == "admin"
    write = {"json": {"task": "add", "args": [1]}}
    assert browser.post("/api/jobs", **write).status_code == 403, "a cookie alone changes nothing"
    csrf = browser.get("/api/session").json()["csrf"]
    assert browser.post("/api/jobs", **write, headers={CSRF_HEADER: csrf}).status_code == 201
    made = app.add_key("first")
    clock.advance(SETTINGS.recheck_seconds)
    assert (holder.get("/api/jobs").status_code, browser.get("/api/jobs").status_code) == (401, 401)
    assert Asker(web).post("/login", json={"key": token_of(app)}).status_code == 401
    app.revoke_key(made.prefix)
    clock.advance(3600)
    assert holder.get("/api/jobs").status_code == 401, "to revoke the last key opens nothing"


def test_h3_a_page_with_the_token_in_its_address_leads_to_the_form_that_sends_it(app: Holdfast, web: Any) -> None:
    """Behind the #, which no server and no proxy gets to see; who is logged in already loses it from the address bar."""
    browser = Asker(web, sec_fetch_mode="navigate")
    asked = browser.get("/?token=hft_a%20b")
    assert (asked.status_code, asked.headers["location"]) == (303, "login#&token=hft_a%20b")
    assert browser.get("/jobs/a%2Fb?token=x").headers["location"] == "../login#jobs%2Fa%252Fb&token=x"
    browser.post("/login", json={"key": token_of(app)})
    assert browser.get("/?token=x").headers["location"] == "./"
    assert browser.get("/jobs/a%2Fb?token=x").headers["location"] == "./a%2Fb"
    assert Asker(web).get(f"/api/jobs?token={token_of(app)}").status_code == 401


def test_h3_the_token_is_one_for_all_processes_and_its_users_alone(app: Holdfast, state: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: token_of(app), range(16)))
    assert len(found) == 1
    (file,) = state.iterdir()
    assert (file.stat().st_mode & 0o777, state.stat().st_mode & 0o777) == (0o600, 0o700)
    assert found == {file.read_text()}


@pytest.mark.parametrize("harm", ["file is open", "file is a link", "folder is open"])
def test_h3_a_token_that_others_could_have_is_refused(app: Holdfast, web: Any, state: Path, harm: str) -> None:
    text = token_of(app)
    (file,) = state.iterdir()
    if harm == "file is a link":
        file.rename(state / "elsewhere")
        file.symlink_to(state / "elsewhere")
    else:
        (file if harm == "file is open" else state).chmod(0o777)
    with pytest.raises(SettingError, match=r"remove it, then try again|cannot be kept"):
        token_of(app)
    assert Asker(web, key=text).get("/api/jobs").status_code == 401


def test_h3_the_token_may_be_a_setting_and_is_not_shown(app: Holdfast) -> None:
    chosen = WebSettings.of_environment({"HOLDFAST_WEB_TOKEN": "A-token-of-my-own-choice"})
    web = create_app(app, settings=chosen)
    assert Asker(web, key="A-token-of-my-own-choice").get("/api/jobs").status_code == 200
    assert Asker(web, key=token_of(app)).get("/api/jobs").status_code == 401
    assert Asker(create_app(app, settings=WebSettings(auth="on")), key=token_of(app)).get("/api/jobs").status_code == 401
    with pytest.raises(SettingError, match=r"^token=…: ") as caught:
        WebSettings(token="too short")
    assert "too short" not in str(caught.value)


def test_a_wrong_key_is_refused_where_none_is_needed(web: Any) -> None:
    assert Asker(web, key="hf_000000000000_" + "a" * 43).get("/api/jobs").status_code == 401


def test_a_local_stream_ends_when_the_first_key_is_made(app: Holdfast, web: Any, clock: ManualClock) -> None:
    async def ask() -> None:
        keyring = web.state.gate.keyring
        job = app.tasks["add"].enqueue(1)
        caller = await keyring.take_ticket(await keyring.give_ticket(LOCAL, job.id))
        assert await caller.is_current()
        await app.aadd_key("first")
        clock.advance(SETTINGS.recheck_seconds)
        assert not await caller.is_current()
        assert await keyring.take_ticket(await keyring.give_ticket(LOCAL, job.id)) is None

    Asker(web).get("/api/jobs")
    asyncio.run(ask())


@pytest.mark.parametrize(
    ("settings", "has_key", "local", "remote"),
    [
        (WebSettings(), False, 401, 401),
        (WebSettings(), True, 401, 401),
        (WebSettings(auth="on"), False, 401, 401),
        (WebSettings(auth="off"), False, 200, 200),
        (WebSettings(auth="off"), True, 200, 200),
        (WebSettings(insecure=True), False, 200, 200),
        (WebSettings(insecure=True), True, 401, 401),
    ],
)
def test_who_needs_a_key(app: Holdfast, settings: WebSettings, has_key: bool, local: int, remote: int) -> None:
    if has_key:
        app.add_key("somebody")
    web = create_app(app, settings=settings)
    assert Asker(web).get("/api/jobs").status_code == local
    assert Asker(web, address=REMOTE).get("/api/jobs").status_code == remote


OTHER_HOSTS = ["0.0.0.0", "::", "192.0.2.1", "jobs.example.com", ""]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.8.8", "[::1]"])
def test_loopback_starts_without_a_key(app: Holdfast, host: str) -> None:
    assert check_bind(host, SETTINGS, app).hosts == (host,)


@pytest.mark.parametrize("host", OTHER_HOSTS)
def test_any_other_address_needs_a_usable_key_or_the_word_insecure(app: Holdfast, clock: ManualClock, host: str) -> None:
    def refused(settings: WebSettings = SETTINGS) -> str:
        with pytest.raises(SettingError) as caught:
            check_bind(host, settings, app)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "holdfast keys add" in refused()
    assert "--insecure" in refused(WebSettings(auth="on"))
    assert "auth is off" in refused(WebSettings(auth="off"))
    check_bind(host, WebSettings(insecure=True), app)
    app.revoke_key(app.add_key("revoked").prefix)
    app.add_key("short", expires=10)
    check_bind(host, SETTINGS, app)
    clock.advance(10)
    refused()
    app.add_key("good")
    check_bind(host, SETTINGS, app)
    assert "auth is off" in refused(WebSettings(auth="off"))


# Sessions


def logged_in(web: Any, key: str) -> Asker:
    asker = Asker(web)
    answer = asker.post("/login", data={"key": key})
    assert answer.status_code == 204, answer.text
    asker.headers[CSRF_HEADER] = asker.get("/api/session").json()["csrf"]
    return asker


def test_logging_in_exchanges_the_key_for_a_cookie_that_no_script_can_read(app: Holdfast, web: Any) -> None:
    key = app.add_key("bob", "operate").text
    asker = Asker(web)
    said = asker.post("/login", data={"key": f" {key}\n"}).headers["set-cookie"]
    assert key[-20:] not in said
    flags = {part.strip().lower() for part in said.split(";")[1:]}
    assert flags == {"httponly", "samesite=strict", "path=/", f"max-age={SETTINGS.session_seconds:.0f}"}
    assert asker.get("/api/session").json()["name"] == "bob"
    assert Asker(web, base="https://localhost").post("/login", json={"key": key}).headers["set-cookie"].count("Secure") == 1


def test_a_form_that_is_sent_by_hand_goes_on_to_the_first_page(app: Holdfast, web: Any) -> None:
    key = app.add_key("bob").text
    by_hand = {"sec-fetch-mode": "navigate", "sec-fetch-site": "same-origin"}
    answer = Asker(web).post("/login", data={"key": key}, headers=by_hand)
    assert (answer.status_code, answer.headers["location"]) == (303, "./")


@pytest.mark.parametrize("body", [{"data": {"key": "nothing"}}, {"data": {}}, {"json": {"key": "x"}}, {"content": b""}])
def test_a_wrong_key_logs_nobody_in(app: Holdfast, web: Any, body: dict[str, Any]) -> None:
    app.add_key("bob")
    answer = Asker(web).post("/login", **body)
    assert (answer.status_code, "set-cookie" in answer.headers) == (401, False)


def test_nonsense_at_the_login_is_a_problem(web: Any) -> None:
    for content, kind in (
        (b"\xff\xfe", "application/x-www-form-urlencoded"),
        (b"[", "application/json"),
        (b"[1]", "application/json"),
    ):
        assert Asker(web).post("/login", content=content, headers={"content-type": kind}).status_code == 422


def test_a_session_ends_by_logging_out_by_time_and_with_its_key(app: Holdfast, web: Any, clock: ManualClock) -> None:
    made = app.add_key("bob", "operate")
    out, late, revoked = (logged_in(web, made.text) for _ in range(3))
    stolen = out.cookies[COOKIE]
    answer = out.post("/logout")
    assert (answer.status_code, "Max-Age=0" in answer.headers["set-cookie"]) == (204, True)
    assert Asker(web, cookie=f"{COOKIE}={stolen}").get("/api/jobs").status_code == 401, "also for who kept the cookie"
    clock.advance(SETTINGS.session_seconds - 1)
    assert late.get("/api/jobs").status_code == 200
    clock.advance(1)
    assert late.get("/api/jobs").status_code == 401
    revoked = logged_in(web, made.text)
    app.revoke_key(made.prefix)
    clock.advance(SETTINGS.recheck_seconds)
    assert revoked.get("/api/jobs").status_code == 401


def test_a_stream_of_a_session_ends_with_it(app: Holdfast, web: Any, clock: ManualClock) -> None:
    made = app.add_key("bob")
    secrets = [logged_in(web, made.text).cookies[COOKIE] for _ in range(2)]
    keyring = web.state.gate.keyring

    async def watch() -> None:
        one, other = [await keyring.visitor(secret) for secret in secrets]
        assert [await one.is_current(), await other.is_current()] == [True, True]
        await keyring.close_session(secrets[0])
        assert [await one.is_current(), await other.is_current()] == [False, True]
        await app.arevoke_key(made.prefix)
        clock.advance(SETTINGS.recheck_seconds)
        assert not await other.is_current()

    asyncio.run(watch())


def test_a_session_is_known_to_every_server_process(app: Holdfast, web: Any) -> None:
    asker = logged_in(web, app.add_key("bob", "operate").text)
    with Holdfast(app.url, clock=app.store.clock) as other:
        elsewhere = Asker(create_app(register(other), settings=SETTINGS), **{"x-holdfast-csrf": asker.headers[CSRF_HEADER]})
        elsewhere.cookies = asker.cookies
        assert elsewhere.get("/api/session").json()["name"] == "bob"
        assert elsewhere.post("/api/jobs", json={"task": "add", "args": [1]}).status_code == 201


def test_a_session_may_do_what_its_key_may(app: Holdfast, web: Any) -> None:
    reader = logged_in(web, app.add_key("reader").text)
    assert reader.post("/api/jobs", json={"task": "add", "args": [1]}).status_code == 403
    assert reader.get("/api/jobs").status_code == 200


def test_who_opens_a_page_without_a_session_is_led_to_the_login(app: Holdfast, web: Any) -> None:
    app.add_key("bob")
    browser = Asker(web, sec_fetch_mode="navigate", accept="text/html")
    assert browser.get("/").headers["location"] == "login#"
    assert browser.get("/jobs/a%2Fb").headers["location"] == "../login#jobs%2Fa%252Fb"
    assert browser.get("/api/jobs").status_code == 303
    assert browser.post("/api/jobs").status_code == 401


# Tickets


def ticket_for(asker: Asker, id: str) -> str:
    answer = asker.post("/api/tickets", json={"job": id})
    assert answer.status_code == 201, answer.text
    assert answer.json()["seconds"] == SETTINGS.ticket_seconds
    return str(answer.json()["ticket"])


def test_a_ticket_is_good_once_for_one_job_for_half_a_minute(app: Holdfast, web: Any, clock: ManualClock) -> None:
    job, other = (app.tasks["add"].enqueue(n) for n in (1, 2))
    asker, stranger = Asker(web, key=app.add_key("bob").text), Asker(web)
    place = f"/api/jobs/{job.id}/events"
    ticket = ticket_for(asker, job.id)
    assert stranger.get(f"{place}?ticket={ticket}&after=0").json()["events"][0]["kind"] == "enqueued"
    assert stranger.get(f"{place}?ticket={ticket}").status_code == 401, "it was used"
    for elsewhere in (
        f"/api/jobs/{other.id}/events",
        f"/api/jobs/{job.id}",
        f"/api/jobs/{job.id}/events/",
        "/api/jobs",
    ):
        assert stranger.get(f"{elsewhere}?ticket={ticket_for(asker, job.id)}").status_code == 401, elsewhere
    assert stranger.post(f"/api/jobs/{job.id}/cancel?ticket={ticket_for(asker, job.id)}").status_code == 401
    late = ticket_for(asker, job.id)
    clock.advance(SETTINGS.ticket_seconds)
    assert stranger.get(f"{place}?ticket={late}").status_code == 401
    assert stranger.get(f"{place}?ticket=").status_code == 401
    assert stranger.get(f"{place}?ticket=nothing").status_code == 401


def test_a_ticket_does_not_open_a_job_whose_id_only_looks_like_the_place(app: Holdfast) -> None:
    """`/api/jobs/a%2Fevents` is the job `a/events`; decoded it reads as the events of `a`."""
    for id in ("a", "a/events"):
        app.tasks["add"].using(id=id).enqueue(1)
    key = app.add_key("bob").text
    with served(app) as server:
        headers = {"authorization": f"Bearer {key}"}
        ticket = server.client.post("/api/tickets", json={"job": "a"}, headers=headers).json()["ticket"]
        assert server.client.get(f"/api/jobs/a%2Fevents?ticket={ticket}").status_code == 401
        ticket = server.client.post("/api/tickets", json={"job": "a"}, headers=headers).json()["ticket"]
        assert server.client.get(f"/api/jobs/a/events?ticket={ticket}").status_code == 200


def test_a_ticket_lasts_no_longer_than_its_key(app: Holdfast, web: Any, clock: ManualClock) -> None:
    job = app.tasks["add"].enqueue(1)
    made = app.add_key("bob")
    ticket = ticket_for(Asker(web, key=made.text), job.id)
    app.revoke_key(made.prefix)
    clock.advance(1)
    assert Asker(web).get(f"/api/jobs/{job.id}/events?ticket={ticket}").status_code == 401


def test_a_ticket_of_one_server_is_good_at_another_and_opens_a_stream(app: Holdfast, web: Any) -> None:
    job = app.tasks["add"].enqueue(1)
    ticket = ticket_for(Asker(web, key=app.add_key("bob").text), job.id)
    with served(app) as server:
        place = f"/api/jobs/{job.id}/events?ticket={ticket}"
        with server.client.stream("GET", place, headers=STREAM) as stream:
            assert next(frames_of(stream)).event == "enqueued"
        assert server.client.get(place).status_code == 401


def test_a_ticket_needs_a_job_that_one_may_see(app: Holdfast, web: Any) -> None:
    job = app.tasks["add"].enqueue(1)
    asker = Asker(web, key=app.add_key("other", queues=["elsewhere"]).text)
    assert asker.post("/api/tickets", json={"job": job.id}).status_code == 404
    assert asker.post("/api/tickets", json={"job": "nothing"}).status_code == 404
    assert asker.post("/api/tickets", json={}).status_code == 422


# Two tenants


def test_a_key_for_some_queues_sees_nothing_of_the_others(app: Holdfast, web: Any) -> None:
    """Over all routes: what the other has gives the same answer as what there is not."""
    mine = app.tasks["add"].using(queue="mine", tags=["t"], key=("mine", 1)).enqueue(1)
    theirs = app.tasks["breaks"].using(queue="theirs", tags=["t"], key=("theirs", 1), parent=mine.id).enqueue("CANARY")
    app.tasks["breaks"].using(queue="theirs", parent=mine.id).enqueue("CANARY")
    for scope in Scope:
        asker = Asker(web, key=app.add_key("me", scope, queues=["mine"]).text)
        for route in walk(web):
            if "{id" not in route.path and "{name}" not in route.path:
                if route.method == "GET":
                    answer = asker.get(route.path)
                    for word in ("CANARY", theirs.id, "theirs"):
                        assert word not in answer.text, route
                continue
            if route.path.startswith(("/jobs/", "/static/")):
                continue  # pages, the same for all
            there, nowhere = (asker(route.method, route.at(id, queue), json={"reason": "x"})
                              for id, queue in ((theirs.id, "theirs"), ("nowhere", "nowhere")))  # fmt: skip
            assert there.status_code == nowhere.status_code in (403, 404), (scope, route, there.text)
            assert there.text.replace(theirs.id, "nowhere").replace("theirs", "nowhere") == nowhere.text, route
        assert theirs.id not in asker.get("/api/events?after=").text
        there, nowhere = (asker.get(f"/api/jobs?after={id}") for id in (theirs.id, "nowhere"))
        assert (there.status_code, there.text.replace(theirs.id, "nowhere")) == (404, nowhere.text), "m12: also as a cursor"
        for query in ("", "?queue=theirs", "?tag=t", f"?parent={mine.id}", "?state=ready", "?task=breaks", "?newest=false"):
            listed = asker.get(f"/api/jobs{query}").text
            assert theirs.id not in listed, query
            assert "CANARY" not in listed, query
    assert app.get(theirs.id) is not None


NAMELESS = {("POST", "/api/jobs"), ("POST", "/api/tickets"), ("POST", "/login"), ("POST", "/logout")}
"""Routes that change something and have no name in their path: each has a test of its own here of what its body may name."""


@pytest.fixture
def tenant(app: Holdfast, web: Any) -> Asker:
    @app.task(name="own", queue="mine")
    def own(a: int) -> int:
        return a

    @app.task(name="admin.wipe", queue="theirs")
    def wipe(what: str) -> str:
        return what

    return Asker(web, key=app.add_key("me", "operate", queues=["mine", "more"]).text)


def test_h4_no_route_that_takes_names_in_its_body_was_forgotten(web: Any) -> None:
    assert {(r.method, r.path) for r in walk(web) if r.method != "GET" and "{" not in r.path} == NAMELESS


def test_h4_a_key_for_some_queues_enqueues_their_tasks_only(app: Holdfast, tenant: Asker) -> None:
    def refused(**wanted: Any) -> str:
        answer = tenant.post("/api/jobs", json=wanted)
        assert answer.status_code == 422, answer.text
        return answer.text

    assert tenant.post("/api/jobs", json={"task": "own", "args": [1]}).status_code == 201
    assert tenant.post("/api/jobs", json={"task": "own", "args": [1], "queue": "more"}).status_code == 201
    assert tenant.post("/api/jobs", json={"task": "own", "args": [1], "queue": "theirs"}).status_code == 403
    for queue in ({}, {"queue": "mine"}, {"queue": "theirs"}):
        theirs, nobodys = (refused(task=name, args=["x"], **queue) for name in ("admin.wipe", "nobodys.task"))
        assert theirs.replace("admin.wipe", "nobodys.task") == nobodys, "as if it did not exist"
        assert "registered: own" in theirs
    assert [task["name"] for task in tenant.get("/api/tasks").json()["tasks"]] == ["own"]
    assert {job.task for job in app.jobs()} == {"own"}


def test_m12_keys_and_ids_of_other_queues_can_neither_be_taken_nor_found_out(app: Holdfast, tenant: Asker) -> None:
    wipe, wanted = app.tasks["admin.wipe"], {"task": "own", "args": [1]}
    wipe.using(key=("taken", 1), id="their-id").enqueue("x")
    for parts in (["taken", 1], ["free", 1]):
        for key in (parts, {"parts": parts, "conflict": "raise"}):
            first = tenant.post("/api/jobs", json={**wanted, "key": key})
            assert first.status_code == (201 if key is parts else 409), "its own, whatever another queue has"
        assert tenant.post("/api/jobs", json={**wanted, "key": parts}).json()["created"] is False
        assert tenant.post("/api/jobs", json={**wanted, "queue": "more", "key": parts}).status_code == 201
    assert wipe.using(key=("free", 1)).enqueue("x").created, "the owner's key was not taken"
    theirs, nobodys = (tenant.post("/api/jobs", json={**wanted, "id": id}) for id in ("their-id", "no-such-id"))
    assert (theirs.status_code, theirs.text) == (422, nobodys.text)
    whole = Asker(tenant._web, key=app.add_key("all", "operate").text)
    assert whole.post("/api/jobs", json={**wanted, "key": ["holdfast.queue", "mine", "taken", 1]}).status_code == 422
