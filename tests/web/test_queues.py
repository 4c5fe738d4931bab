"""Queues over HTTP: what is shown of them, and who sees which."""

from __future__ import annotations

import httpx

from holdfast import Breaker, Holdfast, Rate
from tests.web.ground import served
from tests.web.test_openapi import OPEN_SEASON


def test_a_queue_is_shown_with_its_jobs_its_limits_and_what_closes_it(client: httpx.Client, app: Holdfast) -> None:
    app.queue("slow", max_depth=50, concurrency=1, gap=10, rate=Rate(60, per=60), breaker=Breaker(2, 15, 300))
    app.task_named("add").enqueue(1)
    app.task_named("add").using(run_after=60).enqueue(1)
    for _ in range(2):
        app.task_named("render").enqueue("a.pdf")
    app.claim(queues=["slow"], worker="hand")
    app.pause("slow", 600, reason="down", actor="kim")
    default, slow = client.get("/api/queues").json()["queues"]
    assert (default["depth"], default["ready"], default["scheduled"], default["limits"]["concurrency"]) == (2, 1, 1, None)
    assert (default["blocks"], default["paused"], default["breaker"], default["change_count"]) == ([], None, None, 0)
    assert (slow["depth"], slow["max_depth"], slow["running"], slow["workers"]) == (1, 50, 1, 0)
    assert (slow["estimated_wait"], slow["average_seconds"]) == (None, None)
    limits = {"max_depth": 50, "concurrency": 1, "gap": 10.0, "paused": False}
    rate, breaker = [{"starts": 60, "per": 60.0, "burst": None}], {"after": 2, "base": 15.0, "cap": 300.0}
    assert slow["limits"] == {**limits, "rate": rate, "breaker": breaker}
    assert (slow["declared"]["concurrency"], slow["live"], slow["change_count"]) == (1, None, 2)
    assert slow["breaker"] == {"state": "closed", "failures": 0, "until": None}
    assert (slow["paused"]["by"], slow["paused"]["reason"]) == ("kim", "down")
    assert {block["kind"]: block["until"] for block in slow["blocks"]}["paused"] == slow["paused"]["until"]
    assert {block["kind"] for block in slow["blocks"]} == {"paused", "concurrency", "rate"}


def test_an_answer_has_a_tag_and_is_not_sent_again(client: httpx.Client, app: Holdfast) -> None:
    app.task_named("add").enqueue(1)
    for path in ("/api/queues", "/api/queues/default"):
        first = client.get(path)
        assert first.headers["etag"].startswith('"0-')
        again = client.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        app.task_named("add").enqueue(1)
        assert client.get(path, headers={"if-none-match": first.headers["etag"]}).status_code == 200


def test_a_queue_that_is_not_there_or_not_the_caller_s_is_404(app: Holdfast) -> None:
    app.task_named("add").enqueue(1)
    app.task_named("render").enqueue("a.pdf")
    key = app.add_key("narrow", "admin", queues=["slow"]).text
    with served(app, OPEN_SEASON) as server:
        headers = {"authorization": f"Bearer {key}"}
        assert [each["name"] for each in server.client.get("/api/queues", headers=headers).json()["queues"]] == ["slow"]
        for name in ("default", "never"):
            answer = server.client.get(f"/api/queues/{name}", headers=headers)
            assert (answer.status_code, f"there is no queue '{name}'" in answer.json()["detail"]) == (404, True)
