"""S1, document extraction behind a REST API, end to end: requests that are resubmitted when in doubt, and called back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.events.receiver import SECRET, Receiver
from tests.seeds.programs import ResponseIX
from tests.servers import migrated_database
from tests.until import until
from tests.web.ground import ProcessServer, Program

TARGET = "tests.seeds.programs:app"


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("HOLDFAST_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("HOLDFAST_WEBHOOK_ALLOW", "127.0.0.0/8")
    monkeypatch.setenv("HOLDFAST_WEBHOOK_DELAYS", "0.1,0.1")
    with migrated_database() as made:
        yield made


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[ProcessServer]:
    started = ProcessServer(url, tmp_path / "server.log", target=TARGET)
    yield started
    started.close()


@pytest.fixture
def worker(url: str, tmp_path: Path) -> Iterator[Program]:
    started = Program(url, tmp_path / "worker.log", "worker", TARGET, "--lease", "1s")
    started.wait_for("works on ")
    yield started
    started.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


def body(number: int = 1, *pages: str, **request: Any) -> dict[str, Any]:
    wanted = {"client_id": "billing", "request_id": f"r-{number}", "pages": list(pages or ("page-1.png",)), **request}
    return {"task": "extract", "args": [wanted], "key": ["billing", f"r-{number}"]}


def job(server: ProcessServer, id: str) -> dict[str, Any]:
    document: dict[str, Any] = server.client.get(f"/api/jobs/{id}").json()
    return document


def ended(server: ProcessServer, id: str) -> dict[str, Any]:
    until(lambda: job(server, id)["finished_at"] is not None, "it does not end")
    return job(server, id)


# Does


def test_a_request_that_is_submitted_again_is_the_same_job(server: ProcessServer, receiver: Receiver) -> None:
    first = server.client.post("/api/jobs", json={**body(), "callback": receiver.url})
    other = {**body(threshold=0.9), "callback": f"{receiver.url}/second"}
    second = server.client.post("/api/jobs", json=other)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert (second.json()["created"], second.json()["same_arguments"]) == (False, False)
    assert (second.json()["callback"], second.json()["arguments"]) == (receiver.url, first.json()["arguments"])
    assert re.fullmatch("[0-9a-f]{16}", first.json()["handle"])
    assert server.client.post("/api/jobs", json=body(2)).status_code == 201


@pytest.mark.parametrize("by", ["key", "header"])
def test_ten_that_resubmit_at_once_get_one_job(server: ProcessServer, by: str) -> None:
    asked, headers = body(), {}
    if by == "header":
        del asked["key"]
        headers = {"idempotency-key": "5f0c6f1e"}

    def submit(_: int) -> httpx.Response:
        return httpx.post(f"http://127.0.0.1:{server.port}/api/jobs", json=asked, headers=headers, timeout=30, verify=False)

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(submit, range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] * 9 + [201]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert server.client.get("/api/stats").json() == {"stats": {"extract": {"ready": 1}}}


def test_a_request_and_its_response_are_typed(server: ProcessServer, worker: Program) -> None:
    for wrong, pointer in (({"threshold": "high"}, "/args/0/threshold"), ({"pages": [1]}, "/args/0/pages/0")):
        answer = server.client.post("/api/jobs", json=body(1, **wrong))
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == pointer
    id = server.client.post("/api/jobs", json=body(1, "a.png", "b.png", threshold=0.25)).json()["id"]
    done = ended(server, id)
    assert ResponseIX.model_validate(done["result"]) == ResponseIX(fields={"a.png": "0.25", "b.png": "0.25"})
    (task,) = server.client.get("/api/tasks").json()["tasks"][1:2]
    assert (task["name"], "request" in task["arguments"]["properties"]) == ("extract", True)


def test_it_calls_back_when_it_is_done_and_again_until_it_is_heard(
    server: ProcessServer, worker: Program, receiver: Receiver
) -> None:
    receiver.answers = [503, 204]
    id = server.client.post("/api/jobs", json={**body(), "callback": receiver.url}).json()["id"]
    first, second = receiver.wait(2)
    assert first.id == second.id
    message = second.verified()
    assert (message["type"], message["data"]["id"]) == ("job.succeeded", id)
    assert message["data"]["result"] == {"fields": {"page-1.png": "0.50"}, "error": None}
    until(lambda: job(server, id)["callback_status"] == "delivered", "it is not noted")


def test_what_became_of_the_callback_is_apart_from_what_became_of_the_job(
    server: ProcessServer, worker: Program, receiver: Receiver
) -> None:
    receiver.answers = [410]
    fine = server.client.post("/api/jobs", json={**body(1), "callback": receiver.url}).json()["id"]
    until(lambda: job(server, fine)["callback_status"] == "failed", "the callback does not fail")
    assert job(server, fine)["state"] == "succeeded"
    receiver.answers = [204]
    broken = server.client.post("/api/jobs", json={**body(2, "breaks"), "attempts": 1, "callback": receiver.url}).json()["id"]
    until(lambda: job(server, broken)["callback_status"] == "delivered", "the callback is not delivered")
    assert job(server, broken)["state"] == "failed"
    assert "IX_003: no text found" in job(server, broken)["error"]


def test_a_callback_that_may_not_be_called_is_refused_with_the_request(server: ProcessServer) -> None:
    for hostile in (
        "http://169.254.169.254/latest",
        "https://user@example.com/",
        "ftp://example.com/",
        "http://[::ffff:10.0.0.1]/",
    ):
        answer = server.client.post("/api/jobs", json={**body(), "callback": hostile})
        assert answer.status_code == 422, hostile
        assert "callback" in answer.json()["detail"]
    assert server.client.get("/api/stats").json() == {"stats": {}}


def test_orphans_go_back_with_their_attempts_counted(server: ProcessServer, url: str, tmp_path: Path, worker: Program) -> None:
    id = server.client.post("/api/jobs", json=body(1, "kills")).json()["id"]
    assert worker.process.wait(30) == -9
    rescuer = Program(url, tmp_path / "rescuer.log", "worker", TARGET)
    try:
        done = ended(server, id)
    finally:
        rescuer.close()
    assert (done["state"], done["attempt"]) == ("succeeded", 2)
    kinds = [event["kind"] for event in server.client.get(f"/api/jobs/{id}/events").json()["events"]]
    assert kinds == ["enqueued", "started", "expired", "started", "succeeded"]
