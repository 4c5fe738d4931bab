"""Live streams: nothing is missed, nothing comes twice, and nothing is left behind when they end."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Context, Event, Holdfast
from holdfast.domain.job import moment_of
from holdfast.web import WebSettings
from holdfast.web.frame import HEARTBEAT, event_frame, frame, retry_line
from tests.until import PATIENCE, until
from tests.web.conftest import Serve
from tests.web.ground import STREAM, Frame, Frames, ThreadServer, frames_of, numbers, served
from tests.workers import working

# The wire

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
breaks = st.text(alphabet='\r\n\x00\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029:{}"\\ data id event retry é🐎', max_size=40)


def parsed(wire: bytes, size: int) -> list[Frame]:
    """As a client would, from pieces of any size."""
    frames = Frames()
    return [each for start in range(0, len(wire), size) for each in frames.feed(wire[start : start + size])]


@given(data=json_values | breaks | st.lists(breaks) | st.dictionaries(breaks, breaks), size=st.integers(1, 50))
def test_what_is_said_comes_out_as_it_went_in(data: Any, size: int) -> None:
    wire = frame("word", data, "7") + HEARTBEAT + frame("end", data)
    assert parsed(wire, size) == [Frame("7", "word", data), Frame(None, "end", data)]
    assert wire.count(b"\n") == 3 + 1 + 2 + 3  # for a reader that goes by any other line end as well
    assert len(wire.decode().splitlines()) == wire.count(b"\n")


@given(data=json_values | breaks, number=st.integers(1, 10**6))
def test_an_event_is_one_frame(data: Any, number: int) -> None:
    event = Event("run/1", number, "a.b:c-d_e", moment_of(1_000_001), data)
    (got,) = parsed(event_frame(event), 10)
    at = "1970-01-01T00:00:01.000001+00:00"
    assert got == Frame(str(number), "a.b:c-d_e", {"job": "run/1", "number": number, "kind": "a.b:c-d_e", "at": at, "data": data})


def test_the_time_to_come_back_is_in_milliseconds() -> None:
    frames = Frames()
    assert list(frames.feed(retry_line(1.5))) == []
    assert frames.retry == 1500


# Over the network


def followed(client: httpx.Client, id: str, *, after: int | None = None, last: str | None = None) -> list[Frame]:
    """All frames until the stream ends."""
    headers = STREAM if last is None else {**STREAM, "last-event-id": last}
    with client.stream(
        "GET", f"/api/jobs/{id}/events", params={} if after is None else {"after": after}, headers=headers
    ) as answer:
        assert answer.status_code == 200, answer.read()
        return list(frames_of(answer))


@contextmanager
def following(url: str, id: str) -> Iterator[Iterator[Frame]]:
    """Somebody else, who reads when told to."""
    with httpx.stream("GET", f"{url}/api/jobs/{id}/events", headers=STREAM, timeout=PATIENCE, verify=False) as answer:
        yield frames_of(answer)


def ended(app: Holdfast, words: int = 3) -> str:
    job = app.task_named("talk").enqueue(words)
    app.worker(concurrency=1).run_until_empty()
    return job.id


def test_a_stream_has_every_event_and_ends_with_the_job(app: Holdfast, client: httpx.Client) -> None:
    id = ended(app)
    *frames, last = followed(client, id)
    kinds = [frame.event for frame in frames if frame.event != "progress"]
    assert kinds == ["enqueued", "started", "word", "word", "word", "succeeded"]
    assert numbers(frames) == list(range(1, len(frames) + 1))
    assert [frame.data["data"] for frame in frames if frame.event == "word"] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert all(frame.data["number"] == int(frame.id or 0) and frame.data["kind"] == frame.event for frame in frames)
    assert last == Frame(None, "end", {"job": id, "state": "succeeded"})


def test_its_headers_keep_proxies_from_holding_it_back(app: Holdfast, client: httpx.Client) -> None:
    with client.stream("GET", f"/api/jobs/{ended(app)}/events", headers={**STREAM, "accept-encoding": "gzip, br"}) as answer:
        headers = answer.headers
        wire = b"".join(answer.iter_raw())
    assert headers["content-type"] == "text/event-stream; charset=utf-8"
    assert headers["cache-control"] == "no-store, no-transform"
    assert headers["x-accel-buffering"] == "no"
    assert headers["content-encoding"] == "identity"
    assert "content-length" not in headers
    assert wire.startswith(b"retry: 2000\n\nid: 1\nevent: enqueued\ndata: {")


def test_it_goes_on_from_where_a_client_was(app: Holdfast, client: httpx.Client) -> None:
    id = ended(app)
    count = len(numbers(followed(client, id)))
    assert numbers(followed(client, id, after=3)) == list(range(4, count + 1))
    assert numbers(followed(client, id, last="4")) == list(range(5, count + 1))
    assert numbers(followed(client, id, after=1, last="4")) == list(range(5, count + 1)), (
        "a browser sends both when it comes back"
    )
    assert [frame.event for frame in followed(client, id, last=str(count))] == ["end"]


@pytest.mark.parametrize("last", ["", "x", "-1", "1.5", "٣", "1" * 11, "1,2"])
def test_a_last_event_id_that_is_none_is_refused(app: Holdfast, client: httpx.Client, last: str) -> None:
    headers = {**STREAM, "last-event-id": last.encode()}
    answer = client.get(f"/api/jobs/{ended(app, 0)}/events", headers=headers)  # type: ignore[arg-type]
    assert answer.status_code == 400
    assert "Last-Event-ID" in answer.json()["detail"]


@pytest.mark.parametrize("after", ["-1", "x", "1" * 30])
def test_a_number_that_is_none_is_refused(app: Holdfast, client: httpx.Client, after: str) -> None:
    assert client.get(f"/api/jobs/{ended(app, 0)}/events", params={"after": after}, headers=STREAM).status_code == 422


def test_a_job_that_is_not_there_has_no_stream(client: httpx.Client) -> None:
    assert client.get("/api/jobs/never/events", headers=STREAM).status_code == 404


def test_events_come_as_they_happen(app: Holdfast, client: httpx.Client, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    job = app.task_named("talk").enqueue(6, waits_for=str(go_on))
    with working(app, concurrency=4), client.stream("GET", f"/api/jobs/{job.id}/events", headers=STREAM) as answer:
        seen: list[Frame] = []
        for each in frames_of(answer):
            seen.append(each)
            if each.event == "word" and each.data["data"] == {"n": 2}:
                assert not go_on.exists(), "what follows was not yet said"
                go_on.touch()
    assert [frame.data["data"]["n"] for frame in seen if frame.event == "word"] == list(range(6))
    assert numbers(seen) == list(range(1, len(seen)))
    assert seen[-1].data == {"job": job.id, "state": "succeeded"}


def test_a_client_that_was_cut_off_misses_nothing_and_gets_nothing_twice(app: Holdfast, client: httpx.Client) -> None:
    job = app.task_named("talk").enqueue(300, pause=0.002)
    seen: list[Frame] = []
    with working(app, concurrency=4):
        while not seen or seen[-1].event != "end":
            headers = {**STREAM, "last-event-id": str(numbers(seen)[-1])} if seen else STREAM
            with client.stream("GET", f"/api/jobs/{job.id}/events", headers=headers) as answer:
                for count, each in enumerate(frames_of(answer)):
                    seen.append(each)
                    if count == 60:
                        break
    assert numbers(seen) == list(range(1, len(numbers(seen)) + 1))
    assert [frame.data["data"]["n"] for frame in seen if frame.event == "word"] == list(range(300))


def test_a_long_history_comes_whole(app: Holdfast, client: httpx.Client) -> None:
    @app.task(name="floods")
    def floods(ctx: Context) -> None:
        for number in range(3_000):
            ctx.emit("word", {"n": number, "text": "ž" * 50})

    job = floods.enqueue()
    app.worker(concurrency=1).run_until_empty()
    assert [frame.data["data"]["n"] for frame in followed(client, job.id) if frame.event == "word"] == list(range(3_000))


def test_a_job_that_is_deleted_ends_its_stream(app: Holdfast, client: httpx.Client) -> None:
    job = app.task_named("add").using(run_after=60).enqueue(1)
    with client.stream("GET", f"/api/jobs/{job.id}/events", headers=STREAM) as answer:
        frames = frames_of(answer)
        assert next(frames).event == "scheduled"
        app.delete(job.id)
        assert list(frames) == [Frame(None, "end", {"job": job.id, "state": None})]


def test_a_page_of_events_is_given_to_who_does_not_ask_for_a_stream(app: Holdfast, client: httpx.Client) -> None:
    id = ended(app)
    everything = client.get(f"/api/jobs/{id}/events").json()
    count = len(everything["events"])
    assert ([event["number"] for event in everything["events"]], everything["next"]) == (list(range(1, count + 1)), None)
    first = client.get(f"/api/jobs/{id}/events", params={"limit": 2}).json()
    assert ([event["number"] for event in first["events"]], first["next"]) == ([1, 2], 2)
    rest = client.get(f"/api/jobs/{id}/events", params={"after": 2, "limit": count - 2}).json()
    assert ([event["number"] for event in rest["events"]], rest["next"]) == (list(range(3, count + 1)), None)
    assert client.get(f"/api/jobs/{id}/events", params={"after": count}).json() == {"events": [], "next": None}
    both = client.get(f"/api/jobs/{id}/events", headers={"accept": "application/json, text/html;q=0.5"})
    assert both.headers["vary"] == "accept"
    assert both.json() == everything


# When nothing happens, and when it ends


@pytest.fixture
def quick(app: Holdfast) -> Iterator[ThreadServer]:
    """A server that says something at least every 50 ms."""
    with served(app, WebSettings(insecure=True, heartbeat_seconds=0.05, reconnect_seconds=0.5)) as server:
        yield server


def test_a_stream_on_which_nothing_happens_is_kept_alive(app: Holdfast, quick: ThreadServer) -> None:
    job = app.task_named("add").using(run_after=60).enqueue(1)
    frames = Frames()
    with quick.client.stream("GET", f"/api/jobs/{job.id}/events", headers=STREAM) as answer:
        seen: list[Frame] = []
        for piece in answer.iter_raw():
            seen += frames.feed(piece)
            if frames.comments >= 3 and len(seen) == 1:
                app.cancel(job.id)
                seen.append(Frame(None, "by us", None))
            if seen and seen[-1].event == "end":
                break
    assert frames.retry == 500
    assert [frame.event for frame in seen] == ["scheduled", "by us", "cancelled", "end"]


def test_a_stream_ends_with_the_rights_of_who_reads_it(app: Holdfast) -> None:
    key = app.add_key("reader", "read")
    job = app.task_named("add").using(run_after=60).enqueue(1)
    with served(app, WebSettings(insecure=True, heartbeat_seconds=0.05, recheck_seconds=0.0)) as server:
        headers = {**STREAM, "authorization": f"Bearer {key.text}"}
        with server.client.stream("GET", f"/api/jobs/{job.id}/events", headers=headers) as answer:
            frames = frames_of(answer)
            assert next(frames).event == "scheduled"
            app.revoke_key(key.prefix)
            assert list(frames) == [], "it ends, and not as if the job had"
        assert server.client.get(f"/api/jobs/{job.id}/events", headers=headers).status_code == 401


def test_clients_that_go_leave_nothing_behind(app: Holdfast, server: ThreadServer) -> None:
    job = app.task_named("add").using(run_after=60).enqueue(1)
    loops: set[asyncio.AbstractEventLoop] = set()
    at_work = 0

    def tasks() -> int:
        return sum(len(asyncio.all_tasks(loop)) for loop in loops)

    for turn in range(20):
        with following(server.url, job.id) as frames:
            assert next(frames).event == "scheduled"
            loops.update(server.web.state.closing._waiting.values())
            at_work = tasks() if turn == 0 else at_work
    assert at_work > 1
    until(lambda: len(server.web.state.closing) == 0, "streams are still open")
    until(lambda: tasks() < at_work, f"{tasks()} tasks are left")
    until(lambda: len(server.web.state.gate._streams) == 0, "a stream still counts")
    until(lambda: app._feed.followers == 0, "somebody still follows")


def test_a_server_that_stops_does_not_wait_for_its_streams(app: Holdfast) -> None:
    job = app.task_named("add").using(run_after=60).enqueue(1)
    server = ThreadServer(app)
    with following(server.url, job.id) as frames:
        assert next(frames).event == "scheduled"
        begun = time.monotonic()
        server.stop()
        assert list(frames) == []
    assert time.monotonic() - begun < 5


def test_a_client_that_never_reads_holds_up_nobody(app: Holdfast, server: ThreadServer) -> None:
    """Its own source waits for it, and for as long as it likes; another client of the same job has everything at once."""

    @app.task(name="floods")
    def floods(ctx: Context) -> None:
        for number in range(1_000):
            ctx.emit("word", {"n": number, "text": "x" * 5_000})

    job = floods.enqueue()
    with working(app, concurrency=4), following(server.url, job.id) as lazy:
        assert len([frame for frame in followed(server.client, job.id) if frame.event == "word"]) == 1_000
        assert len([frame for frame in lazy if frame.event == "word"]) == 1_000


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_real_server_ends_at_once_with_streams_open(app: Holdfast, serve: Serve, number: signal.Signals) -> None:
    job = app.task_named("add").using(run_after=60).enqueue(1)
    server = serve()
    with following(f"http://127.0.0.1:{server.port}", job.id) as frames:
        assert next(frames).event == "scheduled"
        begun = time.monotonic()
        server.process.send_signal(number)
        assert list(frames) == []
        assert server.process.wait(PATIENCE) == 0, server.log
    assert time.monotonic() - begun < 4
    assert "Traceback" not in server.log
