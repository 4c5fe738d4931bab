"""The gate around everything: nobody passes who is not known, and what comes out carries the headers that browsers need.

In this order: the name it was called by, the length of the address, who it is, how much they asked already, whether a page from
elsewhere made them ask, how much they send. What is open to all is a set of exact paths with their methods: nothing is open
because of how its path begins or ends.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.errors import HoldfastError
from holdfast.web import body, session
from holdfast.web.access import LOCAL, Caller, unknown
from holdfast.web.credentials import Keyring
from holdfast.web.hosts import Hosts
from holdfast.web.limits import Buckets, Streams, neighbourhood
from holdfast.web.page import ASSETS
from holdfast.web.paths import JOBS
from holdfast.web.problem import Problem, problem_of
from holdfast.web.settings import WebSettings
from holdfast.web.stream import AFTERWARDS

Open = frozenset[tuple[str, str]]

API: Final = "/api/"
LOGIN: Final = "/login"
HEALTH: Final = "/healthz"
OPEN: Final[Open] = frozenset({("GET", LOGIN), ("POST", LOGIN), *(("GET", f"/static/{name}") for name in ASSETS)})
HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
_BURST_SECONDS: Final = 2


class Gate:
    """ASGI middleware. `api` is the application behind it, if that is not `app` itself."""

    def __init__(self, app: ASGIApp, settings: WebSettings, *, api: FastAPI | None = None) -> None:
        inner = api or app
        assert isinstance(inner, FastAPI)
        self._app, self._settings = app, settings
        holdfast = inner.state.holdfast
        self.keyring = Keyring(holdfast, settings)
        self._hosts = Hosts(settings.hosts)
        self._open = OPEN | ({("GET", HEALTH)} if settings.health_open else set())
        rate = settings.requests_per_second
        self._requests = Buckets(rate, _BURST_SECONDS * rate, holdfast.store.clock)
        self._streams = Streams(settings.streams_per_caller_max)
        inner.state.gate = self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # there is none, so there is none to be let in
            return await send({"type": "websocket.close", "code": 1008, "reason": "there is nothing here"})
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        dressed, stream = _dressed(send, _path(scope)), ""
        token = _taken_from_query(scope, "token")
        try:
            caller, receive = await self._admit(scope, receive)
            if token is not None and _is_navigation(scope):  # it is of no use in the address bar
                return await _to("./" + _sent_path(scope).rpartition("/")[2])(scope, receive, dressed)
            if caller is not None and "text/event-stream" in Headers(scope=scope).get("accept", ""):
                self._streams.enter(caller.identity)
                stream = caller.identity
        except (Problem, HoldfastError) as error:
            answer = _to_login(scope, token) if _is_lost_reader(scope, error) else problem_of(error).response()
            return await answer(scope, receive, dressed)
        try:
            inner = _with(scope, caller)
            await self._app(inner, receive, dressed)
            following = inner["state"].pop(AFTERWARDS, None)
            del inner  # all that the answer was made from: a stream may last for days
            if following is not None:
                await following(receive, dressed)
        finally:
            if stream:
                self._streams.leave(stream)

    async def _admit(self, scope: Scope, receive: Receive) -> tuple[Caller | None, Receive]:
        """Who asks, if that matters, and what they send."""
        headers, path, method = Headers(scope=scope), _path(scope), scope["method"]
        self._check_address(scope, headers)
        if (method, path) in self._open and not (path == HEALTH and _key_in(headers)):  # with a key it tells more
            caller, by_key, asking = None, False, _address(scope)
        else:
            caller, by_key = await self._identify(scope, headers, path)
            asking = f"{caller.identity} {_address(scope) if caller.identity == LOCAL.identity else ''}"
        self._requests.take(asking)
        if method in session.READING:
            return caller, receive
        if not by_key:
            session.check_origin(headers)
        return caller, await body.taken(headers, receive, self._settings)

    def _check_address(self, scope: Scope, headers: Headers) -> None:
        said = headers.getlist("host")
        if len(said) != 1 or not self._hosts.know(said[0]):
            shown = said[0][:100] if said else ""
            raise Problem(421, f"this server does not go by the name {shown!r}; if it should, add it to HOLDFAST_WEB_HOSTS")
        most = self._settings.url_bytes_max
        if len(scope.get("raw_path") or scope["path"].encode()) + len(scope.get("query_string", b"")) > most:
            raise Problem(414, f"the address has more than {most:,} bytes; send less in it")

    # Who it is

    async def _identify(self, scope: Scope, headers: Headers, path: str) -> tuple[Caller, bool]:
        """The caller, and whether they came with a key, which a browser does not send by itself."""
        key = _key_in(headers)
        if key is not None:
            return await self.known(scope, key), True
        ticket = _taken_from_query(scope, "ticket")
        if ticket is not None:
            return await self._ticket_holder(scope, ticket, path), False
        secret = session.secret_in(headers)
        caller = None if secret is None else await self.keyring.visitor(secret)
        if caller is not None and secret is not None:
            if scope["method"] not in session.READING:
                session.check_token(headers, secret)
            return caller, False
        if await self._needs_nothing():
            return LOCAL, False
        self._requests.take(_address(scope))
        raise unknown() if secret is None else unknown("this session is over; log in again")

    async def _needs_nothing(self) -> bool:
        """Whether whoever asks is let in. Not by where they come from: behind a proxy, everybody comes from this machine."""
        return (self._settings.auth == "off" or self._settings.insecure) and await self.keyring.is_keyless()

    async def known(self, scope: Scope, key: str) -> Caller:
        """Whose key, or token, it is. There are 256 bits to guess: to count wrong ones would lock out nobody but others."""
        caller = await self.keyring.holder(key)
        if caller is None:
            self._requests.take(_address(scope))
            raise unknown("this API key, or token, is not known, was revoked, or has expired")
        return caller

    async def _ticket_holder(self, scope: Scope, ticket: str, path: str) -> Caller:
        caller = await self.keyring.take_ticket(ticket)
        if caller is None or scope["method"] != "GET" or path != f"{JOBS}/{caller.job}/events":
            self._requests.take(_address(scope))
            raise unknown("this ticket is not for this stream, was used, or has expired; get another with POST /api/tickets")
        return caller


def _dressed(send: Send, path: str) -> Send:
    """Nobody keeps what the API says, not even a browser for its own use: its disk outlives the session."""

    async def dressed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            if path.startswith(API) and "no-store" not in headers.get("cache-control", ""):
                headers["cache-control"] = "no-store"
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return dressed


def _with(scope: Scope, caller: Caller | None) -> Scope:
    """A copy, so that what we say about the caller stays within: nobody further in can have said it before."""
    state: dict[str, Any] = {name: value for name, value in scope.get("state", {}).items() if name != "caller"}
    return {**scope, "state": state if caller is None else {**state, "caller": caller}}


def _path(scope: Scope) -> str:
    """The path as the routes see it: without what we are mounted under."""
    return _below(str(scope["path"]), scope)


def _below(path: str, scope: Scope) -> str:
    root = str(scope.get("root_path", ""))
    return path[len(root) :] if root and (path == root or path.startswith(f"{root}/")) else path


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return neighbourhood(client[0]) if client else ""


def _key_in(headers: Headers) -> str | None:
    kind, _, key = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return key.strip()
    return headers.get("x-api-key")


def _taken_from_query(scope: Scope, wanted: str) -> str | None:
    """A secret, out of the address, so that no log that is written later can hold it."""
    if f"{wanted}=".encode() not in scope.get("query_string", b""):
        return None
    pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    found = next((value for name, value in pairs if name == wanted), None)
    if found is not None:
        scope["query_string"] = urlencode([pair for pair in pairs if pair[0] != wanted]).encode()
    return found


def _is_lost_reader(scope: Scope, error: Exception) -> bool:
    """Somebody who opened a page in a browser, and has to log in first."""
    return isinstance(error, Problem) and error.status == 401 and _is_navigation(scope)


def _is_navigation(scope: Scope) -> bool:
    return scope["method"] == "GET" and Headers(scope=scope).get("sec-fetch-mode") == "navigate"


def _to_login(scope: Scope, token: str | None) -> Response:
    """A token goes along behind the #, which a browser keeps to itself: the form sends it."""
    path = _sent_path(scope)
    place = f"login#{quote(path.removeprefix('/'), safe='')}" + ("" if token is None else f"&token={quote(token, safe='')}")
    return _to("../" * max(0, path.count("/") - 1) + place)


def _to(place: str) -> Response:
    """By a relative address: only the browser knows under which path it reached us."""
    return Response(status_code=303, headers={"location": place})


def _sent_path(scope: Scope) -> str:
    return _below((scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0], scope)
