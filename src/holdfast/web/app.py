"""The web application: every router, behind the gate, as one ASGI application that can be mounted anywhere."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute

from holdfast import __version__
from holdfast.app import Holdfast
from holdfast.web import (
    callbacks,
    events,
    firehose,
    health,
    job_actions,
    jobs,
    login,
    meters,
    metrics,
    openapi,
    overview,
    page,
    problem,
    queues,
    tickets,
)
from holdfast.web.gate import Gate
from holdfast.web.paths import OneSegment
from holdfast.web.settings import WebSettings
from holdfast.web.shutdown import Closing

ROUTERS: Final[tuple[APIRouter, ...]] = (
    jobs.router, job_actions.router, callbacks.router, events.router, firehose.router, queues.router, overview.router,
    meters.router, health.router, metrics.router, login.router, tickets.router, page.router,
)  # fmt: skip
ROUTES: Final = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


class Web(FastAPI):
    """A FastAPI application whose OpenAPI document knows our problems."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = openapi.document(self)
        return self.openapi_schema


def create_app(app: Holdfast, *, settings: WebSettings | None = None) -> Web:
    """REST and live streams for `app`: run it with uvicorn, or mount it in an application of your own."""
    web = Web(title="Holdfast", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    web.state.holdfast = app
    web.state.settings = settings or WebSettings.of_environment()
    web.state.closing = Closing()
    for router in ROUTERS:
        web.include_router(router)
    web.add_middleware(OneSegment, paths=[route.path for route in ROUTES])
    web.add_middleware(problem.Rescue)
    web.add_middleware(Gate, settings=web.state.settings, api=web)
    problem.install(web, methods_of)
    return web


def methods_of(path: str) -> set[str]:
    """What any of the routes at a path takes."""
    return {method for route in ROUTES for method in route.methods or () if route.path_regex.match(path)}
