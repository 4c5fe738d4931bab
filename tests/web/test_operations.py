"""What somebody on call asks: does it get jobs done, and what do the numbers say?"""

from __future__ import annotations

import asyncio
import configparser
import logging
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast import Breaker, Holdfast, Lease
from holdfast.domain.callback import CALLBACK_QUEUE
from holdfast.events import counting, metrics
from holdfast.events.exposition import Histogram, Metric, document, family
from holdfast.settings import GRACE_SECONDS
from holdfast.store.health import standing
from holdfast.testing import ManualClock
from holdfast.web import WebSettings, create_app, health, lifespan
from holdfast.web.app import Web
from tests.events.receiver import SECRET
from tests.until import PATIENCE
from tests.web.ground import OPEN, served
from tests.web.tasks import register

LOCKED = WebSettings(auth="on", health_open=True)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(url: str, clock: ManualClock) -> Iterator[Holdfast]:
    with Holdfast(url, clock=clock) as made:
        yield register(made)


_webs: dict[tuple[int, WebSettings | None], Web] = {}


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    """Whatever counts in the background stops with the test, as it does with a server."""
    yield
    for web in _webs.values():
        web.state.closing.begin()
        if hasattr(web.state, "counting"):
            web.state.counting.close()
    _webs.clear()


def web_of(app: Holdfast, settings: WebSettings | None) -> Web:
    place = (id(app), settings)
    if place not in _webs:
        _webs[place] = create_app(app, settings=settings or OPEN)
    return _webs[place]


def ask(app: Holdfast, path: str, settings: WebSettings | None = None, key: str | None = None, times: int = 1) -> httpx.Response:
    """Without a network: one of the answers, which are all alike."""
    web = web_of(app, settings)

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(web)
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answers = await asyncio.gather(*[client.get(path, headers=headers) for _ in range(times)])
        assert len({answer.status_code for answer in answers}) == 1
        return answers[0]

    return asyncio.run(send())


# Health


def test_it_is_well_when_there_is_nothing_to_do(app: Holdfast) -> None:
    answer = ask(app, "/healthz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "workers": 0, "running": 0, "waiting_seconds": 0.0}


def test_a_job_that_nobody_takes_makes_it_fail_with_the_reason(app: Holdfast, clock: ManualClock) -> None:
    job = app.task_named("add").enqueue(1)
    clock.advance(60)
    assert ask(app, "/healthz").json()["waiting_seconds"] == 60.0
    clock.advance(1)
    answer = ask(app, "/healthz")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    (reason,) = answer.json()["reasons"]
    assert (reason["queue"], reason["task"], reason["id"], reason["seconds"]) == ("default", "add", job.id, 61.0)
    said = f"job {job.id} (add) has been ready for 61 s: no living worker serves queue default; start one"
    assert answer.json()["detail"] == reason["reason"] == said
    app.worker().run_until_empty()
    assert ask(app, "/healthz").status_code == 200


def test_the_limit_is_a_setting(app: Holdfast, clock: ManualClock) -> None:
    app.task_named("add").enqueue(1)
    clock.advance(6)
    assert ask(app, "/healthz", WebSettings(insecure=True, stalled_seconds=5)).status_code == 503
    assert ask(app, "/healthz", WebSettings(insecure=True, stalled_seconds=10)).status_code == 200


def test_jobs_of_other_apps_are_their_business(url: str, app: Holdfast, clock: ManualClock) -> None:
    app.task_named("add").enqueue(1)
    clock.advance(100)
    with Holdfast(url, clock=clock) as other, Holdfast(url, clock=clock) as onlooker:
        other.task(name="mine")(lambda: None)
        assert ask(other, "/healthz").status_code == 200
        assert ask(onlooker, "/healthz").status_code == 503


def test_who_shows_no_key_learns_no_more_than_how_it_is(app: Holdfast, clock: ManualClock) -> None:
    key, narrow = app.add_key("probe").text, app.add_key("narrow", queues=["elsewhere"]).text
    assert ask(app, "/healthz", LOCKED).json() == {"status": "ok"}
    assert ask(app, "/healthz", LOCKED, key).json()["workers"] == 0
    app.task_named("add").enqueue(1)
    clock.advance(100)
    hidden = ask(app, "/healthz", LOCKED)
    assert hidden.status_code == 503
    assert hidden.json() == {"type": "about:blank", "title": "Service Unavailable", "status": 503, "detail": "unavailable"}
    assert "add" in ask(app, "/healthz", LOCKED, key).json()["detail"]
    masked = ask(app, "/healthz", LOCKED, narrow)
    assert masked.json()["detail"] == "a job waits in a queue that your key does not show"
    assert "default" not in masked.text


def test_it_needs_a_key_unless_it_was_opened(app: Holdfast) -> None:
    assert ask(app, "/healthz", WebSettings(auth="on")).status_code == 401
    assert ask(app, "/healthz", LOCKED, "hf_nonsense").status_code == 401


@contextmanager
def silent_server() -> Iterator[str]:
    """Takes connections and never says a word: what a database looks like whose machine hangs."""
    callers: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take() -> None:
            try:
                while True:
                    callers.append(listener.accept()[0])
            except OSError:
                return

        threading.Thread(target=take, daemon=True).start()
        yield f"postgresql://nobody@127.0.0.1:{listener.getsockname()[1]}/none?connect_timeout=5&sslmode=disable"
    for caller in callers:
        caller.close()


def test_a_database_that_is_silent_fails_it_in_time_and_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "ANSWER_SECONDS", 0.3)
    with silent_server() as url:
        app = Holdfast(url)
        asked = mock.Mock(wraps=app.store.aread)
        monkeypatch.setattr(app.store, "aread", asked)
        began = time.monotonic()
        answer = ask(app, "/healthz", LOCKED, times=20)
        assert answer.status_code == 503
        assert time.monotonic() - began < 3
        assert asked.call_count == 1


def test_a_database_that_is_gone_fails_it() -> None:
    app = Holdfast("postgresql://nobody@127.0.0.1:1/none")
    assert ask(app, "/healthz", LOCKED).json()["detail"] == "unavailable"


def test_a_worker_tells_what_it_serves_and_how_much_at_once(app: Holdfast) -> None:
    async def watch() -> None:
        async with lifespan(app, queues=["slow", "slower"], concurrency=3):
            while (await asyncio.to_thread(ask, app, "/healthz")).json()["workers"] == 0:
                await asyncio.sleep(0.01)
            (duty,) = app.store.read(standing).duties
            assert duty.queues == frozenset({"slow", "slower", CALLBACK_QUEUE})
            assert (duty.slots, duty.running, duty.by_hand) == (3, 0, False)
            found = await asyncio.to_thread(scrape, app)
            assert (found["holdfast_workers"], found["holdfast_worker_slots"]) == ({(): 1}, {(): 3})

    asyncio.run(watch())


def test_a_worker_in_the_same_process_that_hangs_fails_it(app: Holdfast, clock: ManualClock) -> None:
    beats, hold = threading.Event(), threading.Event()

    def probe(step: str) -> None:
        if threading.current_thread().name == "holdfast-clerk" and step == "beat":
            beats.set()
            hold.wait(PATIENCE)

    async def watch() -> None:
        async with lifespan(app, lease=15):
            while (await asyncio.to_thread(ask, app, "/healthz")).json()["workers"] == 0:
                await asyncio.sleep(0.01)
            app.store.probe = probe
            clock.advance(10)  # time for a beat
            assert await asyncio.to_thread(beats.wait, PATIENCE)
            assert (await asyncio.to_thread(ask, app, "/healthz")).status_code == 200
            clock.advance(10)
            answer = await asyncio.to_thread(ask, app, "/healthz")
            app.store.probe = None
            hold.set()
            assert answer.status_code == 503
            assert "the worker in this process has given no sign of life for 20 s" in answer.json()["detail"]

    try:
        asyncio.run(watch())
    finally:
        app.store.probe = None
        hold.set()


def test_a_worker_in_the_same_process_that_does_not_start_fails_it(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    def probe(step: str) -> None:
        if step == "add_worker":
            failed.set()
            raise OSError("no room for workers")

    async def watch() -> None:
        app.store.probe = probe
        async with lifespan(app):
            assert await asyncio.to_thread(failed.wait, PATIENCE)
            while (answer := await asyncio.to_thread(ask, app, "/healthz")).status_code == 200:
                await asyncio.sleep(0.01)
            assert "does not start: OSError: no room for workers" in answer.json()["detail"]

    asyncio.run(watch())
    app.store.probe = None


# Metrics


Values = dict[tuple[str, ...], float]


def scrape(app: Holdfast, settings: WebSettings | None = None, key: str | None = None) -> dict[str, Values]:
    """Sample -> values of its labels, in the order in which they stand -> number; read by Prometheus' own parser."""
    answer = ask(app, "/metrics", settings, key)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return parsed(answer.text)


def parsed(text: str) -> dict[str, Values]:
    samples: dict[str, Values] = {}
    for each in text_string_to_metric_families(text):
        for sample in each.samples:
            samples.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return samples


def take(app: Holdfast, task: str) -> Lease:
    lease = app.claim(tasks=task, seconds=1000)
    assert lease is not None
    return lease


def test_events_are_counted_from_the_first_question_on(app: Holdfast) -> None:
    add = app.task_named("add")
    add.enqueue(1)
    assert "holdfast_events_total" not in scrape(app)
    add.enqueue(2)
    app.task_named("breaks").enqueue("now")
    app.task_named("talk").enqueue(2)
    app.worker().run_until_empty()
    found = scrape(app)
    counted = found["holdfast_events_total"]
    assert counted["default", "add", "enqueued"] == 1
    assert counted["default", "add", "succeeded"] == 2
    assert counted["default", "talk", "word"] == 2
    assert counted["default", "talk", "progress"] >= 1
    assert found["holdfast_jobs_finished_total"] == {
        ("default", "add", "succeeded"): 2,
        ("default", "breaks", "failed"): 1,
        ("default", "talk", "succeeded"): 1,
    }
    assert found["holdfast_attempts_failed_total"] == {("default", "breaks"): 1}
    assert scrape(app)["holdfast_events_total"] == counted


def test_waits_and_runs_are_measured(app: Holdfast, clock: ManualClock) -> None:
    scrape(app)
    add = app.task_named("add")
    add.enqueue(1)
    clock.advance(30)
    lease = take(app, "add")
    clock.advance(7)
    app.finish(lease, 2)
    found = scrape(app)
    for name, seconds, above, below in (("wait", 30.0, "10.0", "30.0"), ("run", 7.0, "5.0", "10.0")):
        buckets = found[f"holdfast_job_{name}_seconds_bucket"]
        assert buckets["default", "add", above] == 0
        assert buckets["default", "add", below] == buckets["default", "add", "+Inf"] == 1
        assert found[f"holdfast_job_{name}_seconds_sum"] == {("default", "add"): seconds}
        assert found[f"holdfast_job_{name}_seconds_count"] == {("default", "add"): 1}


def test_f28_the_number_of_ready_jobs_is_there_when_it_is_0(app: Holdfast) -> None:
    app.task_named("add").enqueue(1)
    app.worker().run_until_empty()
    assert scrape(app)["holdfast_jobs"] == {("default", "add", "ready"): 0}


def test_gauges_tell_how_it_stands_now(app: Holdfast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "KEPT", 0)
    add, render = app.task_named("add"), app.task_named("render")
    add.enqueue(1)
    clock.advance(40)
    add.using(priority=1).enqueue(2)
    render.using(run_after=1000).enqueue("x")
    clock.advance(5)
    found = scrape(app)
    assert found["holdfast_up"] == {(): 1}
    jobs = {("default", "add", "ready"): 2, ("slow", "render", "scheduled"): 1, ("slow", "render", "ready"): 0}
    assert found["holdfast_jobs"] == jobs
    assert found["holdfast_oldest_ready_seconds"] == {("default",): 5}
    assert found["holdfast_workers"] == found["holdfast_worker_slots"] == found["holdfast_callbacks_pending"] == {(): 0}
    take(app, "add")
    found = scrape(app)
    assert found["holdfast_jobs"]["default", "add", "running"] == 1
    assert found["holdfast_oldest_ready_seconds"] == {("default",): 45}


def test_gauges_tell_which_queues_are_bounded_paused_and_stopped(
    app: Holdfast, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "KEPT", 0)
    app.queue("default", max_depth=9, breaker=Breaker(after=1, base=15))
    app.task_named("add").using(attempts=1).enqueue(1)
    app.pause("slow")
    found = scrape(app)
    assert found["holdfast_queue_max_depth"] == {("default",): 9}
    assert found["holdfast_queue_paused"] == {("default",): 0, ("slow",): 1}
    assert found["holdfast_queue_stopped"] == {("default",): 0, ("slow",): 0}
    app.fail(take(app, "add"), "broken")
    clock.advance(60)
    app.resume("slow")
    found = scrape(app)
    assert found["holdfast_queue_paused"] == {("default",): 0, ("slow",): 0}
    assert found["holdfast_queue_stopped"] == {("default",): 1, ("slow",): 0}


def test_callbacks_that_were_not_delivered_yet_are_counted(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("HOLDFAST_WEBHOOK_ALLOW", "127.0.0.0/8")
    job = app.task_named("add").using(callback="http://127.0.0.1:9/hook").enqueue(1)
    app.cancel(job)
    assert scrape(app)["holdfast_callbacks_pending"] == {(): 1}


def test_a_key_for_some_queues_sees_those(app: Holdfast) -> None:
    settings = WebSettings(auth="on")
    everything, narrow = app.add_key("all").text, app.add_key("some", queues=["slow"]).text
    assert ask(app, "/metrics", settings).status_code == 401
    scrape(app, settings, everything)
    app.task_named("add").enqueue(1)
    app.task_named("render").enqueue("x")
    app.worker().run_until_empty()
    app.task_named("add").enqueue(1)
    for name, values in scrape(app, settings, narrow).items():
        for labels in values:
            assert not labels or labels[0] in ("slow", ""), name
    assert {labels[0] for labels in scrape(app, settings, everything)["holdfast_events_total"]} == {"default", "slow"}


def test_it_keeps_up_by_itself(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "BEAT_SECONDS", 0.01)
    counted = threading.Event()

    def probe(step: str) -> None:
        if step == "event_counts" and threading.current_thread().name == "holdfast-metrics":
            counted.set()

    scrape(app)
    app.store.probe = probe
    app.task_named("add").enqueue(1)
    assert counted.wait(PATIENCE)
    app.store.probe = None


def test_when_nobody_asks_any_more_it_stops_and_begins_anew(app: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(counting, "UNASKED_SECONDS", 0.0)
    app.migrate()
    scrape(app)
    wait_until_alone()
    app.task_named("add").enqueue(1)
    assert "holdfast_events_total" not in scrape(app)


def wait_until_alone() -> None:
    for thread in threading.enumerate():
        if thread.name == "holdfast-metrics":
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_it_stops_with_the_server(app: Holdfast) -> None:
    with served(app) as server:
        assert server.client.get("/metrics").status_code == 200
        assert any(thread.name == "holdfast-metrics" for thread in threading.enumerate())
    wait_until_alone()


def test_without_the_store_what_was_counted_is_still_told(app: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    scrape(app)
    app.task_named("add").enqueue(1)
    scrape(app)
    web_of(app, None).state.counting._store = Holdfast("postgresql://nobody@127.0.0.1:1/none").store
    with caplog.at_level(logging.CRITICAL):
        found = scrape(app)
    assert found["holdfast_up"] == {(): 0}
    assert found["holdfast_events_total"] == {("default", "add", "enqueued"): 1}
    assert "holdfast_jobs" not in found


def test_neither_health_nor_metrics_write(app: Holdfast) -> None:
    app.task_named("add").enqueue(1)
    steps: list[str] = []
    app.store.probe = steps.append
    for path in ("/healthz", "/metrics", "/healthz", "/metrics"):
        assert ask(app, path).status_code == 200
    app.store.probe = None
    assert {"oldest_ready", "worker_loads", "depths"} <= set(steps)
    assert not {"begin", "commit", "committed"} & set(steps)


def test_the_number_of_lines_has_a_bound() -> None:
    tally = metrics.Tally()
    for n in range(5_000):
        tally.add(f"queue-{n}", "task", f"word-{n}", 1, None)
        tally.add("queue-0", "task", "started", 1, n * 1000)
    found = parsed(document(metrics.lines(tally.families(), lambda _: True)))
    events = found["holdfast_events_total"]
    assert len(events) <= metrics.LANES_MAX + metrics.KINDS_MAX + 2
    assert sum(events.values()) == 10_000
    assert events[metrics.OTHER, metrics.OTHER, metrics.OTHER] == 5_000 - metrics.LANES_MAX
    assert found["holdfast_job_wait_seconds_count"] == {("queue-0", "task"): 5_000}


def test_any_text_can_be_a_label() -> None:
    odd = 'a"b\\c\nd{}, é'
    assert parsed(document(family(Metric("m", "gauge", "Help.", ("x",)), {(odd,): 1.5}))) == {"m": {(odd,): 1.5}}


def test_a_bound_belongs_to_the_bucket_below_it() -> None:
    histogram = Histogram((1, 2.5))
    for value in (0, 1, 1.0001, 2.5, 3):
        histogram.observe(value)
    found = parsed(document(family(Metric("m", "histogram", "Help."), {(): histogram})))
    assert found["m_bucket"] == {("1.0",): 2, ("2.5",): 4, ("+Inf",): 5}
    assert found["m_sum"] == {(): 7.5001}


# What the documentation says

OPERATIONS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")


def test_the_table_in_the_documentation_is_what_is_told() -> None:
    rows = re.findall(r"^\| `(holdfast_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$", OPERATIONS, flags=re.MULTILINE)
    assert rows == [(each.name, each.kind, ", ".join(each.labels), each.help) for each in metrics.METRICS]


def test_the_unit_in_the_documentation_gives_no_rights_away() -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(OPERATIONS.partition("```ini\n")[2].partition("```")[0])
    service = unit["Service"]
    for name in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "ProtectHome", "RestrictNamespaces"):
        assert service.getboolean(name), name
    assert (service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("strict", "")
    assert float(service["TimeoutStopSec"]) > GRACE_SECONDS


def test_the_settings_in_the_documentation_are_there() -> None:
    for name in set(re.findall(r"HOLDFAST_WEB_(\w+)", OPERATIONS)):
        assert name.lower() in WebSettings.__struct_fields__
