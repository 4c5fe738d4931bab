"""Queues over HTTP: what is shown of them, and who sees which."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

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


def keyed(app: Holdfast, name: str, scope: str) -> dict[str, str]:
    return {"authorization": f"Bearer {app.add_key(name, scope).text}"}


def test_limits_are_changed_by_the_key_s_name_and_a_stale_tag_is_412(app: Holdfast) -> None:
    app.queue("default", concurrency=1, gap=10)
    app.task_named("add").enqueue(1)
    kim = keyed(app, "kim", "admin")
    with served(app, OPEN_SEASON) as server:
        seen = server.client.get("/api/queues/default", headers=kim).headers["etag"]
        body = {"concurrency": 3, "gap": None, "rate": {"starts": 60, "per": 60}, "breaker": {"after": 4}, "max_depth": 9}
        changed = server.client.patch("/api/queues/default", json=body, headers={**kim, "if-match": seen})
        assert changed.status_code == 200, changed.text
        limits = changed.json()["limits"]
        assert (limits["concurrency"], limits["gap"], limits["max_depth"]) == (3, None, 9)
        assert limits["rate"] == [{"starts": 60.0, "per": 60.0, "burst": None}]
        assert limits["breaker"] == {"after": 4, "base": 15.0, "cap": 300.0}
        stale = server.client.patch("/api/queues/default", json={"concurrency": 8}, headers={**kim, "if-match": seen})
        assert (stale.status_code, "has 2 changes, not 1" in stale.json()["detail"]) == (412, True)
        tag = changed.headers["etag"]
        assert server.client.patch("/api/queues/default", json={"rate": []}, headers={**kim, "if-match": tag}).status_code == 200
    (queue,) = app.queues()
    assert (queue.limits.concurrency, queue.limits.rates, queue.change_count) == (3, (), 3)
    assert [(change.actor, change.action) for change in app.queue_changes("default")] == [
        ("kim", "changed"), ("kim", "changed"), ("code", "declared"),
    ]  # fmt: skip


def test_a_queue_is_paused_and_resumed_by_an_operator(app: Holdfast) -> None:
    app.task_named("add").enqueue(1)
    ops = keyed(app, "ops", "operate")
    with served(app, OPEN_SEASON) as server:
        body = {"seconds": 600, "reason": "the model is down"}
        paused = server.client.post("/api/queues/default/pause", json=body, headers=ops).json()
        assert (paused["paused"]["by"], paused["paused"]["reason"]) == ("ops", "the model is down")
        assert paused["blocks"] == [{"kind": "paused", "until": paused["paused"]["until"]}]
        assert app.claim() is None
        assert server.client.post("/api/queues/default/resume", headers=ops).json()["paused"] is None
        assert server.client.post("/api/queues/default/resume", headers=ops).status_code == 200
        assert app.claim() is not None
        assert server.client.post("/api/queues/default/pause", headers=ops).json()["paused"]["until"] is None
        assert server.client.patch("/api/queues/default", json={"concurrency": 1}, headers=ops).status_code == 403


def test_who_does_not_see_a_queue_does_not_change_it(app: Holdfast) -> None:
    app.task_named("add").enqueue(1)
    narrow = {"authorization": f"Bearer {app.add_key('narrow', 'admin', queues=['slow']).text}"}
    with served(app, OPEN_SEASON) as server:
        for name in ("default", "never"):
            answers = [
                server.client.patch(f"/api/queues/{name}", json={"concurrency": 1}, headers=narrow),
                server.client.post(f"/api/queues/{name}/pause", headers=narrow),
                server.client.post(f"/api/queues/{name}/resume", headers=narrow),
            ]
            assert [answer.status_code for answer in answers] == [404, 404, 404]
    assert [(queue.name, queue.change_count) for queue in app.queues()] == [("default", 0)]


@pytest.mark.parametrize(
    ("body", "pointer", "words"),
    [
        ({}, "", "no limit is given"),
        ({"speed": 1}, "", "speed"),
        ({"concurrency": 0}, "/concurrency", ">= 1"),
        ({"concurrency": True}, "/concurrency", "expected int"),
        ({"gap": -1}, "/gap", ">= 0"),
        ({"rate": {"starts": 0}}, "/rate/starts", "> 0"),
        ({"rate": [{"starts": 1}] * 5}, "/rate", "<= 4"),
        ({"breaker": {"base": 10, "cap": 5}}, "/breaker", "breaker cap 5 is less than its base 10"),
        ({"paused": True}, "", "paused"),
    ],
)
def test_a_limit_that_makes_no_sense_is_422_with_its_place(
    client: httpx.Client, app: Holdfast, body: dict[str, Any], pointer: str, words: str
) -> None:
    app.task_named("add").enqueue(1)
    answer = client.patch("/api/queues/default", json=body)
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert words in error["detail"]
    assert app.queue_changes("default") == []


def test_a_full_queue_is_429_with_its_depth_and_when_to_come_again(client: httpx.Client, app: Holdfast) -> None:
    app.queue("default", max_depth=2)
    body = {"task": "add", "args": [1]}
    assert [client.post("/api/jobs", json=body).status_code for _ in range(3)] == [201, 201, 429]
    answer = client.post("/api/jobs", json=body)
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["retry-after"]) >= 1
    document = answer.json()
    assert (document["status"], document["depth"], document["max_depth"]) == (429, 2, 2)
    assert document["detail"].startswith("queue default is full: 2 of 2 jobs wait")
