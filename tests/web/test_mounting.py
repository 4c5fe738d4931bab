"""Inside somebody else's application: under a prefix, beside their routes, with a worker for as long as it lives."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from holdfast import Context, Holdfast
from holdfast.web import create_app, lifespan
from holdfast.web.serving import address_of, bind
from tests.until import PATIENCE
from tests.web.ground import OPEN, ROOT, STREAM, frames_of, free_port, numbers

PREFIX = "/team/jobs"


def in_fastapi(app: Holdfast, **options: Any) -> FastAPI:
    outer = FastAPI(**options)

    @outer.get("/hello")
    async def hello() -> str:
        return "hello"

    outer.mount(PREFIX, create_app(app, settings=OPEN))
    return outer


def in_starlette(app: Holdfast, **options: Any) -> Starlette:
    async def hello(_: Any) -> PlainTextResponse:
        return PlainTextResponse('"hello"')

    return Starlette(routes=[Route("/hello", hello), Mount(PREFIX, create_app(app, settings=OPEN))], **options)


@contextmanager
def running(outer: Any) -> Iterator[httpx.Client]:
    """As people run theirs: plain uvicorn, which knows nothing of us."""
    bound = bind("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(outer, log_config=None, timeout_graceful_shutdown=5))
    thread = threading.Thread(target=server.run, args=([bound],))
    thread.start()
    try:
        with httpx.Client(base_url=address_of(bound), timeout=PATIENCE, verify=False) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        bound.close()
        assert not thread.is_alive()


@pytest.mark.parametrize("put_into", [in_fastapi, in_starlette])
def test_it_works_under_a_prefix_beside_the_routes_of_others(app: Holdfast, put_into: Any) -> None:
    with running(put_into(app)) as client:
        assert client.get("/hello").json() == "hello"
        answer = client.post(f"{PREFIX}/api/jobs", json={"task": "add", "args": [1], "id": "a/b"})
        assert answer.status_code == 201
        assert answer.headers["location"] == f"{PREFIX}/api/jobs/a%2Fb"
        assert client.get(answer.headers["location"]).json()["id"] == "a/b"
        assert client.get(f"{PREFIX}/api/jobs/a/b").json()["id"] == "a/b"
        client.post(f"{PREFIX}/api/jobs", json={"task": "add", "args": [2]})
        page = client.get(f"{PREFIX}/api/jobs?limit=1")
        assert page.links["next"]["url"].startswith(f"{PREFIX}/api/jobs?limit=1&after=")
        assert [job["id"] for job in client.get(page.links["next"]["url"]).json()["jobs"]] == ["a/b"]
        assert client.post(f"{PREFIX}/api/jobs/a%2Fb/cancel").json()["state"] == "cancelled"
        with client.stream("GET", f"{PREFIX}/api/jobs/a%2Fb/events", headers=STREAM) as stream:
            assert numbers(list(frames_of(stream))) == [1, 2]
        assert client.get(f"{PREFIX}/openapi.json").json()["servers"] == [{"url": PREFIX}]
        assert client.get(f"{PREFIX}/nothing").headers["content-type"] == "application/problem+json"
        assert client.get(f"{PREFIX}/api/jobs/never").status_code == 404
        assert client.get("/api/jobs").status_code == 404
        assert client.get("/nothing").headers["content-type"] != "application/problem+json"


def test_it_works_behind_a_proxy_that_takes_the_prefix_off(app: Holdfast) -> None:
    async def ask() -> None:
        transport = httpx.ASGITransport(create_app(app, settings=OPEN), root_path="/proxied")
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            answer = await client.post("/api/jobs", json={"task": "add", "args": [1], "id": "a/b"})
            assert answer.headers["location"] == "/proxied/api/jobs/a%2Fb"
            for path in ("/api/jobs/a/b", "/api/jobs/a%2Fb", "/proxied/api/jobs/a%2Fb"):
                assert (await client.get(path)).json()["id"] == "a/b"

    asyncio.run(ask())


# A worker inside


@pytest.mark.parametrize("put_into", [in_fastapi, in_starlette])
def test_a_worker_runs_inside_for_as_long_as_it_lives(app: Holdfast, put_into: Any) -> None:
    with running(put_into(app, lifespan=lifespan(app, concurrency=2, name="inside"))) as client:
        id = client.post(f"{PREFIX}/api/jobs", json={"task": "add", "args": [2, 3]}).json()["id"]
        assert app.wait(id, timeout=PATIENCE).result == 5
        assert [worker["name"] for worker in client.get(f"{PREFIX}/api/workers").json()["workers"]] == ["inside"]
    assert app.store.read(lambda _: _workers()) == []


def _workers() -> Any:
    from holdfast.store import browse

    return browse.workers()


def test_what_is_started_twice_runs_once_until_the_last_one_leaves(app: Holdfast) -> None:
    async def life() -> None:
        async with lifespan(app, name="first"):
            async with lifespan(app, name="second"), lifespan(app, name="third"):
                job = await app.task_named("add").aenqueue(1)
                assert (await app.await_job(job.id, timeout=PATIENCE)).result == 2
                assert [row[1] for row in app.store.read(lambda _: _workers())] == ["first"]
            job = await app.task_named("add").aenqueue(2)
            assert (await app.await_job(job.id, timeout=PATIENCE)).result == 3
        assert app.store.read(lambda _: _workers()) == []
        async with lifespan(app, name="again"):
            job = await app.task_named("add").aenqueue(3)
            assert (await app.await_job(job.id, timeout=PATIENCE)).result == 4

    asyncio.run(life())


def test_at_the_end_it_finishes_what_runs(app: Holdfast) -> None:
    started, go_on = threading.Event(), threading.Event()

    @app.task(name="slow")
    def slow(ctx: Context) -> str:
        started.set()
        assert go_on.wait(PATIENCE)
        return "finished"

    job = slow.enqueue()

    async def life() -> None:
        async with lifespan(app):
            assert await asyncio.to_thread(started.wait, PATIENCE)
            asyncio.get_running_loop().call_later(0.1, go_on.set)

    asyncio.run(life())
    done = app.get(job.id)
    assert done is not None
    assert (done.state, done.result) == ("succeeded", "finished")


def test_a_worker_that_fails_is_started_again(app: Holdfast, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
    monkeypatch.setattr(import_module("holdfast.web.lifespan"), "AGAIN_SECONDS", 0.01)
    opened = type(app.worker())._open
    failures = iter([OSError("the disk is full")])

    def fail_once(worker: Any, loop: Any) -> None:
        for failure in failures:
            raise failure
        opened(worker, loop)

    monkeypatch.setattr("holdfast.worker.worker.Worker._open", fail_once)

    async def life() -> None:
        async with lifespan(app):
            job = await app.task_named("add").aenqueue(1)
            assert (await app.await_job(job.id, timeout=PATIENCE)).result == 2

    asyncio.run(life())
    assert "the disk is full" in caplog.text


# In a process of their own


MOUNTED = """
import sys, uvicorn
from fastapi import FastAPI
from holdfast.web import create_app, lifespan
from tests.web.tasks import app
outer = FastAPI(lifespan=lifespan(app))
outer.mount("/jobs", create_app(app))
uvicorn.run(outer, port=int(sys.argv[1]), log_level="warning")
"""


def test_a_server_that_knows_nothing_of_us_ends_at_once_with_streams_open(app: Holdfast, url: str) -> None:
    job = app.task_named("add").using(run_after=60).enqueue(1)
    port = free_port()
    environment = {
        **os.environ,
        "HOLDFAST_WEB_INSECURE": "true",
        "HOLDFAST_URL": url,
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    }
    process = subprocess.Popen([sys.executable, "-c", MOUNTED, str(port)], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        with httpx.Client(
            transport=httpx.HTTPTransport(retries=8), base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE
        ) as client:
            with client.stream("GET", f"/jobs/api/jobs/{job.id}/events", headers=STREAM) as answer:
                frames = frames_of(answer)
                assert next(frames).event == "scheduled"
                process.send_signal(signal.SIGTERM)
                assert list(frames) == []
            _, said = process.communicate(timeout=10)
        assert process.returncode in (0, -signal.SIGTERM), said
        assert "Traceback" not in said
    finally:
        process.kill()


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    script = "import sys; sys.modules['fastapi'] = None\nimport holdfast.web"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: holdfast.web needs fastapi, which is not installed: pip install 'holdfast[web]'"
    )
