"""The events of all jobs over HTTP: page by page and live, for who may see all of them, and for who may see some."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest

from holdfast import Context, Holdfast, Scope
from holdfast.web import WebSettings
from holdfast.web.access import Caller
from holdfast.web.firehose import Sight
from tests.until import PATIENCE
from tests.web.ground import STREAM, Frame, ThreadServer, frames_of, served

Seen = list[tuple[str, int, str]]


def done(app: Holdfast, jobs: int) -> list[str]:
    made = [app.task_named("add").using(queue=f"q{number % 2}").enqueue(number).id for number in range(jobs)]
    app.worker(concurrency=2).run_until_empty()
    return made


def seen(events: list[dict[str, Any]]) -> Seen:
    return [(event["job"], event["number"], event["kind"]) for event in events]


def expected(app: Holdfast, ids: list[str]) -> set[tuple[str, int, str]]:
    return {(id, event.number, event.kind) for id in ids for event in app.events(id)}


def check_order(found: Seen) -> None:
    """Each once, and each job's own in their order."""
    assert len(set(found)) == len(found)
    for id in {job for job, _, _ in found}:
        numbers = [number for job, number, _ in found if job == id]
        assert numbers == sorted(numbers)


def large_events(app: Holdfast, count: int) -> str:
    """The id of a job with so many events of 60 KB each, between four of its own."""

    @app.task(name="large")
    def large(ctx: Context) -> None:
        for number in range(count):
            ctx.emit("large", f"{number:04d}" + "x" * 60_000)

    job = large.enqueue()
    app.worker().run_until_empty()
    return job.id


@pytest.mark.parametrize("of", ["job", "all"])
def test_m9_a_page_of_events_is_bounded_by_bytes_and_goes_on(app: Holdfast, client: httpx.Client, of: str) -> None:
    id = large_events(app, 200)
    pages: list[list[dict[str, Any]]] = []
    after, more = "", True
    while more:
        place = "/api/events" if of == "all" else f"/api/jobs/{id}/events"
        answer = client.get(place, params={"after": after or ("" if of == "all" else "0"), "limit": 1_000})
        assert len(answer.content) < 7 * 1024 * 1024
        page = answer.json()
        pages.append(page["events"])
        after, more = page["next"], page["more"] if of == "all" else page["next"] is not None
    found = seen([event for page in pages for event in page])
    check_order(found)
    assert set(found) == expected(app, [id])
    assert len(pages) == 3


def test_everything_is_read_page_by_page(app: Holdfast, client: httpx.Client) -> None:
    ids = done(app, 7)
    found: Seen = []
    after, more = "", True
    while more:
        page = client.get("/api/events", params={"after": after, "limit": 4}).json()
        assert len(page["events"]) <= 4
        found += seen(page["events"])
        after, more = page["next"], page["more"]
    check_order(found)
    assert set(found) == expected(app, ids)
    assert client.get("/api/events", params={"after": after}).json()["events"] == []
    later = done(app, 1)
    rest = client.get("/api/events", params={"after": after}).json()
    assert set(seen(rest["events"])) == expected(app, later)


def test_without_a_cursor_it_begins_now(app: Holdfast, client: httpx.Client) -> None:
    done(app, 2)
    now = client.get("/api/events").json()
    assert (now["events"], now["more"]) == ([], False)
    job = app.task_named("add").enqueue(1)
    assert seen(client.get("/api/events", params={"after": now["next"]}).json()["events"]) == [(job.id, 1, "enqueued")]


def test_it_goes_on_behind_any_event(app: Holdfast, client: httpx.Client) -> None:
    done(app, 3)
    everything = client.get("/api/events", params={"after": ""}).json()["events"]
    for place, event in enumerate(everything):
        rest = client.get("/api/events", params={"after": event["cursor"]}).json()["events"]
        assert seen(rest) == seen(everything[place + 1 :])


def read(client: httpx.Client, count: int, **headers: str) -> list[Frame]:
    """So many frames of a stream, which is then cut off."""
    params = {} if headers else {"after": ""}
    with client.stream("GET", "/api/events", params=params, headers={**STREAM, **headers}) as answer:
        frames = frames_of(answer)
        return [next(frames) for _ in range(count)]


def test_a_stream_goes_on_where_it_was_cut_off(app: Holdfast, client: httpx.Client) -> None:
    ids = done(app, 5)
    frames = read(client, 3)
    while len(frames) < len(expected(app, ids)):
        frames += read(client, min(3, len(expected(app, ids)) - len(frames)), **{"last-event-id": frames[-1].id or ""})
    found = [(frame.data["job"], frame.data["number"], frame.event) for frame in frames]
    check_order(found)
    assert set(found) == expected(app, ids)
    assert all(frame.id == frame.data["cursor"] for frame in frames)


def test_a_stream_without_a_cursor_has_what_comes(app: Holdfast, client: httpx.Client) -> None:
    done(app, 2)
    with client.stream("GET", "/api/events", headers=STREAM) as answer:
        job = app.task_named("add").enqueue(1)
        first = next(frames_of(answer))
    assert (first.data["job"], first.event) == (job.id, "enqueued")


@pytest.mark.parametrize("cursor", ["x", "1", "0" * 12 + ".1:1", "é"])
def test_a_cursor_that_is_none_is_refused(app: Holdfast, client: httpx.Client, cursor: str) -> None:
    app.migrate()
    assert client.get("/api/events", params={"after": cursor}).status_code == 422
    assert client.get("/api/events", params={"after": cursor}, headers=STREAM).status_code == 422
    answer = client.get("/api/events", headers=httpx.Headers({**STREAM, "last-event-id": cursor}, encoding="utf-8"))
    assert answer.status_code in (400, 422)
    assert answer.headers["content-type"] == "application/problem+json"


def test_who_may_see_some_queues_hears_of_those_only(app: Holdfast) -> None:
    ids = done(app, 6)
    key = app.add_key("of one", "read", queues=["q1"])
    wanted = expected(app, ids[1::2])
    with served(app, WebSettings(insecure=True, heartbeat_seconds=0.1)) as server:
        headers = {"authorization": f"Bearer {key.text}"}
        page = server.client.get("/api/events", params={"after": ""}, headers=headers).json()
        assert set(seen(page["events"])) == wanted
        frames = _until(server, headers, len(wanted), lambda: done(app, 2))
    found = [(frame.data["job"], frame.data["number"], frame.event) for frame in frames]
    assert set(found[: len(wanted)]) == wanted
    jobs = {job.id: job.queue for job in app.jobs()}
    assert {jobs[job] for job, _, _ in found} == {"q1"}


def _until(server: ThreadServer, headers: dict[str, str], count: int, then: Any) -> list[Frame]:
    """So many frames, then what happens, then three more."""
    with server.client.stream("GET", "/api/events", params={"after": ""}, headers={**headers, **STREAM}) as answer:
        stream = frames_of(answer)
        frames = [next(stream) for _ in range(count)]
        thread = threading.Thread(target=then)
        thread.start()
        frames += [next(stream) for _ in range(3)]
        thread.join(PATIENCE)
        return frames


def test_l2_an_id_that_is_used_again_in_another_queue_is_not_shown(app: Holdfast) -> None:
    sight = Sight(app, Caller("tenant", Scope.READ, frozenset({"a"})))
    add = app.task_named("add")

    async def seen(after: str) -> tuple[list[str], str]:
        events = [event async for event in app.afeed(after=after)]
        return [event.kind for event in await sight.of(events)], events[-1].cursor or ""

    async def look() -> None:
        await add.using(id="batch-1", queue="a").aenqueue(1)
        kinds, cursor = await seen("")
        assert kinds == ["enqueued"]
        await app.adelete("batch-1")
        await add.using(id="batch-1", queue="payroll").aenqueue(2)
        await add.using(id="batch-2", queue="a").aenqueue(2)
        await app.acancel("batch-1")
        assert (await seen(cursor))[0] == ["enqueued"], "of batch-2"

    asyncio.run(look())
