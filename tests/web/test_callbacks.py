"""Callbacks over HTTP: asked for with a job, refused where they lead nowhere good, seen, and delivered again."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from holdfast import Holdfast
from holdfast.web import WebSettings
from holdfast.web.access import Scope
from tests.events.receiver import SECRET, Receiver
from tests.web.ground import served
from tests.web.test_jobs import accepted, problem


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("HOLDFAST_WEBHOOK_ALLOW", "127.0.0.0/8")
    monkeypatch.setenv("HOLDFAST_WEBHOOK_DELAYS", "600")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


def test_a_callback_that_is_asked_for_comes(client: httpx.Client, app: Holdfast, receiver: Receiver) -> None:
    job = accepted(client, "add", 2, callback=receiver.url)
    assert client.get(f"/api/jobs/{job['id']}/deliveries").json() == {"deliveries": []}
    app.worker().run_until_empty()
    (received,) = receiver.wait()
    content = received.verified()
    assert (content["type"], content["data"]["id"], content["data"]["result"]) == ("job.succeeded", job["id"], 3)
    (delivery,) = client.get(f"/api/jobs/{job['id']}/deliveries").json()["deliveries"]
    assert (delivery["status"], delivery["message"], delivery["url"]) == ("delivered", received.id, receiver.url)
    assert [(each["attempt"], each["status"], each["error"]) for each in delivery["tries"]] == [(1, 204, None)]
    document = client.get(f"/api/jobs/{job['id']}").json()
    assert (document["callback"], document["callback_status"]) == (receiver.url, "delivered")


def test_delivered_again(client: httpx.Client, app: Holdfast, receiver: Receiver) -> None:
    receiver.answers = [500]
    id = accepted(client, "add", 2, callback=receiver.url)["id"]
    app.worker().run_until_empty()
    (waiting,) = client.get(f"/api/jobs/{id}/deliveries").json()["deliveries"]
    assert (waiting["status"], waiting["finished_at"]) == ("pending", None)
    assert waiting["next_at"] is not None
    receiver.answers = [200]
    answer = client.post(f"/api/jobs/{id}/redeliver")
    assert answer.status_code == 202
    assert (answer.json()["status"], answer.json()["message"]) == ("pending", waiting["message"])
    app.worker().run_until_empty()
    newest, oldest = client.get(f"/api/jobs/{id}/deliveries").json()["deliveries"]
    assert (newest["id"], newest["status"], oldest["id"], oldest["status"]) == (
        answer.json()["id"], "delivered", waiting["id"], "failed",
    )  # fmt: skip
    assert len({each.id for each in receiver.received}) == 1


@pytest.mark.parametrize(
    "target",
    [
        "https://169.254.169.254/latest/meta-data/",
        "https://[64:ff9b::a9fe:a9fe]/",
        "https://2130706433/",
        "https://user:password@example.com/",
        "ftp://example.com/",
        "https://93.184.215.14:22/",
        "nonsense",
        "",
    ],
)
def test_a_url_that_may_not_be_called_is_refused(client: httpx.Client, app: Holdfast, target: str) -> None:
    answer = client.post("/api/jobs", json={"task": "add", "args": [1], "callback": target})
    assert "callback" in problem(answer, 422)["detail"]
    assert app.jobs() == []


def test_there_is_nothing_to_deliver(client: httpx.Client) -> None:
    for verb, path in (("GET", "deliveries"), ("POST", "redeliver")):
        problem(client.request(verb, f"/api/jobs/nobody/{path}"), 404)
    id = accepted(client)["id"]
    assert "has no callback" in problem(client.post(f"/api/jobs/{id}/redeliver"), 409)["detail"]
    id = accepted(client, callback="http://127.0.0.1:9/")["id"]
    assert "when it has ended" in problem(client.post(f"/api/jobs/{id}/redeliver"), 409)["detail"]


def test_nobody_asks_for_what_is_ours(client: httpx.Client, app: Holdfast) -> None:
    app.worker()
    event = {"job": "x", "url": "https://example.com", "message": "msg_1", "event": {}}
    problem(client.post("/api/jobs", json={"task": "holdfast.deliver", "kwargs": event}), 422)
    problem(client.post("/api/jobs", json={"task": "add", "args": [1], "queue": "holdfast.callbacks"}), 422)


def test_who_may_read_may_not_send(app: Holdfast, receiver: Receiver) -> None:
    reader = app.add_key("reader", Scope.READ)
    stranger = app.add_key("stranger", Scope.OPERATE, queues=["slow"])
    job = app.task_named("add").using(callback=receiver.url).enqueue(1)
    app.worker().run_until_empty()
    with served(app, WebSettings(auth="on")) as server:
        for key, expected in ((reader, (200, 403)), (stranger, (404, 404)), (None, (401, 401))):
            headers = {} if key is None else {"authorization": f"Bearer {key.text}"}
            seen = server.client.get(f"/api/jobs/{job.id}/deliveries", headers=headers).status_code
            sent = server.client.post(f"/api/jobs/{job.id}/redeliver", headers=headers).status_code
            assert (seen, sent) == expected
    assert len(receiver.received) == 1
