"""ClientPart the web application without a network, one request after the other; and its routes, as they really are."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import Route

from holdfast import Scope
from holdfast.web.access import Needs
from holdfast.web.app import ROUTERS, Web
from holdfast.web.gate import OPEN

HOME = "http://localhost"


class Asker:
    """Somebody with these headers. Cookies are kept, as a browser does."""

    def __init__(self, web: Any, *, key: str | None = None, address: str = "127.0.0.1", base: str = HOME, **headers: str) -> None:
        self._web, self._address, self._base = web, address, base
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            self.headers["authorization"] = f"Bearer {key}"
        self.cookies = httpx.Cookies()

    def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        return asyncio.run(self._ask(method, path, options))

    async def _ask(self, method: str, path: str, options: dict[str, Any]) -> httpx.Response:
        transport = httpx.ASGITransport(self._web, client=(self._address, 123))
        headers = {**self.headers, **options.pop("headers", {})}
        async with httpx.AsyncClient(transport=transport, base_url=self._base, cookies=self.cookies) as client:
            answer = await client.request(method, path, headers=headers, **options)
            self.cookies = client.cookies
            return answer

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self("POST", path, **options)


class Walked(NamedTuple):
    method: str
    path: str
    scope: Scope | None
    """What it needs."""

    @property
    def is_open(self) -> bool:
        return (self.method, self.path) in OPEN

    def at(self, id: str = "nothing", queue: str = "default") -> str:
        filled = self.path.replace("{id:path}", id).replace("{id}", id)
        return filled.replace("{name}", queue).replace("{number}", "1")


def walk(web: Web) -> list[Walked]:
    """Every method of every route: of the routers, and of the application itself."""
    found = [each for router in ROUTERS for route in router.routes for each in _methods(route)]
    found += [each for route in web.routes if isinstance(route, Route) for each in _methods(route)]
    known = {(method.upper(), path) for path, methods in web.openapi()["paths"].items() for method in methods}
    missing = known - {(each.method, each.path) for each in found}
    assert not missing, f"the walk does not see {missing}"
    return found


def _methods(route: Any) -> Iterator[Walked]:
    needed = _needed(route.dependant) if isinstance(route, APIRoute) else None
    for method in sorted(route.methods - {"HEAD"}):
        yield Walked(method, route.path, needed)


def _needed(dependant: Dependant) -> Scope | None:
    for each in dependant.dependencies:
        if isinstance(each.call, Needs):
            return each.call.scope
        if (found := _needed(each)) is not None:
            return found
    return None
