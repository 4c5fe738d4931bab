"""Jobs over HTTP: asked for, listed, looked at, acted on; and every error as a problem document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast import (
    Changed,
    Conflict,
    Context,
    Holdfast,
    HoldfastError,
    IllegalMove,
    JobNotFound,
    LeaseLost,
    PayloadError,
    QueueFull,
    SettingError,
    StoreUnavailable,
    UnknownTask,
)
from holdfast.testing import ManualClock
from holdfast.web import jobs
from holdfast.web.etag import expected_count, tag_of
from holdfast.web.problem import problem_of
from tests.web.ground import served
from tests.web.tasks import register

PROBLEM = "application/problem+json"


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """One server for all requests that it has to refuse: nothing is ever written to its store."""
    with Holdfast(f"sqlite:///{tmp_path_factory.mktemp('refusing') / 'jobs.db'}") as app, served(register(app)) as server:
        app.migrate()
        yield server.client
        assert app.jobs() == []


def accepted(client: httpx.Client, task: str = "add", *args: Any, status: int = 201, **options: Any) -> dict[str, Any]:
    answer = client.post("/api/jobs", json={"task": task, "args": list(args or (1,)), **options})
    assert answer.status_code == status, answer.text
    document: dict[str, Any] = answer.json()
    return document


def problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    document: dict[str, Any] = answer.json()
    assert (document["status"], document["type"]) == (status, "about:blank")
    assert document["title"]
    assert "Traceback" not in answer.text
    return document


# ClientPart


def test_a_job_that_is_asked_for_is_there(client: httpx.Client, app: Holdfast) -> None:
    answer = client.post("/api/jobs", json={"task": "add", "kwargs": {"a": 2, "b": 3}})
    assert answer.status_code == 201
    document = answer.json()
    assert (document["task"], document["state"], document["arguments"]) == ("add", "ready", {"a": 2, "b": 3})
    assert (document["created"], document["same_arguments"]) == (True, True)
    assert answer.headers["location"] == f"/api/jobs/{document['id']}"
    assert client.get(answer.headers["location"]).json()["id"] == document["id"]
    job = app.get(document["id"])
    assert job is not None
    assert job.arguments == {"a": 2, "b": 3}


def test_it_takes_every_option_by_its_name(client: httpx.Client, app: Holdfast) -> None:
    parent = accepted(client)
    options = {
        "priority": 7,
        "run_after": "2130-01-31T12:00:00+01:00",
        "queue": "other",
        "attempts": 9,
        "id": "run/2030:01",
        "tags": ["eu", "big"],
        "meta": {"who": "Žofie"},
        "parent": parent["id"],
        "key": ["client-7", 1],
    }
    document = accepted(client, "add", 1, **options)
    assert {name: document[name] for name in ("priority", "queue", "id", "tags", "meta", "parent", "key", "state")} == {
        **{name: options[name] for name in ("priority", "queue", "id", "tags", "meta", "parent", "key")},
        "state": "scheduled",
    }
    assert document["attempts_max"] == 9
    assert document["run_after"] == "2130-01-31T11:00:00+00:00"
    job = app.get("run/2030:01")
    assert job is not None
    assert job.tags == ("eu", "big")


def test_seconds_are_from_now(client: httpx.Client) -> None:
    assert accepted(client, run_after=60)["state"] == "scheduled"
    assert accepted(client, run_after=0)["state"] == "ready"
    assert accepted(client, run_after="2001-01-31T12:00:00Z")["state"] == "ready"


@pytest.mark.parametrize(
    ("body", "pointer", "said"),
    [
        ({"task": "add", "args": ["x"]}, "/args/0", "expected int, got str ('x')"),
        ({"task": "add", "kwargs": {"a": 1, "b": 1.5}}, "/kwargs/b", "expected int, got float (1.5)"),
        ({"task": "add", "kwargs": {}}, "/kwargs/a", "missing a required argument: 'a'"),
        ({"task": "add", "args": [1, 2, 3]}, "/args", "too many positional arguments"),
        ({"task": "add", "args": [1], "kwargs": {"c": 1}}, "/kwargs/c", "unexpected keyword argument 'c'"),
        ({"task": "add", "args": [1], "kwargs": {"a": 1}}, "/kwargs/a", "multiple values"),
        (
            {"task": "render", "args": ["a.pdf"], "kwargs": {"pages": [{"number": 1, "words": ["a", 2]}]}},
            "/kwargs/pages/0/words/1",
            "expected str, got int (2)",
        ),
        ({"task": "anything", "args": [1, {"x": [2**70]}]}, "/args/1/x/0", "64 bits"),
        ({"task": "anything", "kwargs": {"a/b": {"c": 2**70}}}, "/kwargs/a~1b/c", "64 bits"),
        ({"task": "talk", "args": [1], "kwargs": {"ctx": 1}}, "/kwargs/ctx", "the worker gives it"),
        ({"task": "nope"}, "/task", "'nope' is not registered with this app; registered: add, anything,"),
        ({"task": "holdfast.deliver"}, "/task", "is not registered"),
        ({"task": "add", "args": [1], "priority": "high"}, "/priority", "expected int | null, got str"),
        ({"task": "add", "args": [1], "run_after": "tomorrow"}, "/run_after", "invalid RFC3339 encoded datetime"),
        ({"task": "add", "args": [1], "run_after": "2030-01-31T12:00:00"}, "/run_after", "timezone"),
        ({"task": "add", "args": [1], "run_after": "9999-12-31T23:00:00-14:00"}, "/run_after", "too far"),
        ({"task": "add", "args": [1], "run_after": -1}, "/run_after", ">= 0"),
        ({"task": "add", "args": [1], "attempts": 0}, "/attempts", ">= 1"),
        ({"task": "add", "args": [1], "queue": "holdfast.callbacks"}, "/queue", "Holdfast's own"),
        ({"task": "add", "args": [1], "queue": "a b"}, "/queue", "expected str matching regex"),
        ({"task": "add", "args": [1], "queue": "a\n"}, "/queue", "a\\n"),
        ({"task": "add", "args": [1], "id": "a b"}, "/id", "expected str matching regex"),
        ({"task": "add", "args": [1], "tags": ["ok", "not ok"]}, "/tags/1", "expected str matching regex"),
        ({"task": "add", "args": [1], "tags": "eu"}, "/tags", "expected array | null, got str"),
        ({"task": "add", "args": [1], "key": []}, "/key", "length >= 1"),
        ({"task": "add", "args": [1], "key": [1.5]}, "/key/0", "expected int | str, got float"),
        ({"task": "add", "args": [1], "key": ["x\u0000"]}, "/key", "NUL"),
        ({"task": "add", "args": [1], "key": {"parts": ["a"], "scope": "never"}}, "/key/scope", "invalid enum value 'never'"),
        ({"task": "add", "args": [1], "key": ["Idempotency-Key", "x"]}, "/key", "is one of ours"),
        ({"task": "add", "args": [1], "meta": [1]}, "/meta", "expected object | null, got array"),
        ({"task": "add", "args": [1], "colour": "red"}, "", "object contains unknown field colour"),
        ({"task": "add", "args": {"a": 1}}, "/args", "expected array, got object"),
        ([1], "", "expected object, got array"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(refusing: httpx.Client, body: Any, pointer: str, said: str) -> None:
    answer = problem(refusing.post("/api/jobs", json=body), 422)
    (error,) = answer["errors"]
    assert error["pointer"] == pointer
    assert said in error["detail"]
    assert said in answer["detail"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b'{"task": NaN}', b'{"task": "add", "args": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"],
)
def test_what_is_not_json_is_refused(refusing: httpx.Client, content: bytes) -> None:
    answer = refusing.post("/api/jobs", content=content, headers={"content-type": "application/json"})
    assert problem(answer, 400)["detail"].startswith("the body is ")


def test_arguments_nested_too_deeply_are_refused(refusing: httpx.Client) -> None:
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    answer = problem(refusing.post("/api/jobs", json={"task": "anything", "args": [deep]}), 422)
    assert answer["errors"][0]["pointer"].startswith("/args/0/0")
    bottomless = refusing.post("/api/jobs", content=b"[" * 500_000, headers={"content-type": "application/json"})
    problem(bottomless, 422)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_what_does_not_say_that_it_is_json_is_refused(refusing: httpx.Client, kind: str) -> None:
    answer = refusing.post("/api/jobs", content=b'{"task": "add", "args": [1]}', headers={"content-type": kind})
    problem(answer, 415)


def test_an_id_that_is_taken_is_a_conflict(client: httpx.Client) -> None:
    accepted(client, id="mine")
    assert "'mine' is taken" in problem(client.post("/api/jobs", json={"task": "add", "args": [1], "id": "mine"}), 409)["detail"]


# Once


def test_a_key_gives_the_first_job_again(client: httpx.Client) -> None:
    first = accepted(client, key=["client-7", "req-1"])
    again = accepted(client, key=["client-7", "req-1"], status=200)
    assert (again["id"], again["created"], again["same_arguments"]) == (first["id"], False, True)
    other = accepted(client, "add", 2, key=["client-7", "req-1"], status=200)
    assert (other["id"], other["same_arguments"], other["arguments"]) == (first["id"], False, {"a": 1})
    assert accepted(client, key=["client-7", "req-2"])["id"] != first["id"]


def test_a_key_may_say_what_becomes_of_the_second(client: httpx.Client) -> None:
    first = accepted(client, key={"parts": ["a"], "scope": "active"})
    refused = client.post("/api/jobs", json={"task": "add", "args": [1], "key": {"parts": ["a"], "conflict": "raise"}})
    assert "is held by job" in problem(refused, 409)["detail"]
    second = accepted(client, key={"parts": ["a"], "conflict": "replace", "scope": 60, "failed": "hold"})
    assert client.get(f"/api/jobs/{first['id']}").json()["state"] == "cancelled"
    assert second["id"] != first["id"]


def test_an_idempotency_key_gives_the_first_job_again(client: httpx.Client) -> None:
    body, header = {"task": "add", "args": [1]}, {"idempotency-key": "5f0c6f1e-7c1b"}
    first, second = (client.post("/api/jobs", json=body, headers=header) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert second.headers["location"] == first.headers["location"]


def test_an_idempotency_key_is_for_one_request(client: httpx.Client) -> None:
    header = {"idempotency-key": "once"}
    first = client.post("/api/jobs", json={"task": "add", "args": [1]}, headers=header).json()
    for body in ({"task": "add", "args": [2]}, {"task": "anything", "args": [1]}):
        assert first["id"] in problem(client.post("/api/jobs", json=body, headers=header), 422)["detail"]
    assert client.get("/api/stats").json() == {"stats": {"add": {"ready": 1}}}


def test_a_job_that_failed_keeps_its_idempotency_key(client: httpx.Client, app: Holdfast) -> None:
    body, header = {"task": "breaks", "args": ["x"]}, {"idempotency-key": "once"}
    first = client.post("/api/jobs", json=body, headers=header).json()
    app.worker(concurrency=1).run_until_empty()
    again = client.post("/api/jobs", json=body, headers=header)
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (200, first["id"], "failed")


def test_two_names_for_one_key_are_refused(client: httpx.Client) -> None:
    answer = client.post("/api/jobs", json={"task": "add", "args": [1], "key": ["a"]}, headers={"idempotency-key": "b"})
    assert "send one of them" in problem(answer, 400)["detail"]


@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
def test_an_idempotency_key_that_is_none_is_refused(refusing: httpx.Client, key: str) -> None:
    answer = refusing.post("/api/jobs", json={"task": "add", "args": [1]}, headers={"idempotency-key": key})
    problem(answer, 422 if len(key) > 255 else 400)


# Listing


def test_jobs_are_listed_page_by_page_until_there_are_no_more(client: httpx.Client) -> None:
    ids = [accepted(client, "add", number)["id"] for number in range(5)]
    seen: list[str] = []
    url: str | None = "/api/jobs?limit=2"
    while url is not None:
        answer = client.get(url)
        page = answer.json()
        seen += [job["id"] for job in page["jobs"]]
        assert ("next" in answer.links) == (page["next"] is not None)
        url = answer.links["next"]["url"] if page["next"] else None
    assert seen == ids[::-1]
    oldest = client.get("/api/jobs", params={"newest": "false", "limit": 3}).json()
    assert [job["id"] for job in oldest["jobs"]] == ids[:3]
    rest = client.get("/api/jobs", params={"newest": "false", "limit": 3, "after": oldest["next"]}).json()
    assert ([job["id"] for job in rest["jobs"]], rest["next"]) == (ids[3:], None)


def test_the_next_page_has_the_same_filters(client: httpx.Client) -> None:
    for number in range(3):
        accepted(client, "add", number, tags=["a:b"])
        accepted(client, "anything", number)
    answer = client.get("/api/jobs", params={"tag": "a:b", "limit": 1})
    assert answer.links["next"]["url"].startswith("/api/jobs?tag=a%3Ab&limit=1&after=")
    following = client.get(answer.links["next"]["url"]).json()["jobs"]
    assert [job["arguments"] for job in following] == [{"a": 1}]


def test_jobs_are_listed_by_what_they_are(client: httpx.Client) -> None:
    plain = accepted(client)["id"]
    tagged = accepted(client, "anything", 1, tags=["eu"], queue="other")["id"]
    later = accepted(client, parent=plain, run_after=60)["id"]
    for params, wanted in (
        ({"state": "scheduled"}, [later]),
        ({"queue": "other"}, [tagged]),
        ({"task": "add"}, [later, plain]),
        ({"tag": "eu"}, [tagged]),
        ({"parent": plain}, [later]),
        ({"tag": "us"}, []),
        ({"task": "add", "state": "ready"}, [plain]),
    ):
        assert [job["id"] for job in client.get("/api/jobs", params=params).json()["jobs"]] == wanted, params


@pytest.mark.parametrize(
    "params",
    [
        {"limit": "0"}, {"limit": "1001"}, {"limit": "x"}, {"limit": "9" * 5_000}, {"state": "lost"}, {"queue": "a b"},
        {"task": "\0"}, {"tag": "'; DROP TABLE job; --"}, {"parent": "ü"}, {"after": "\0"},
        {"newest": "perhaps"}, {"queue": "x" * 129},
    ],
)  # fmt: skip
def test_a_filter_that_makes_no_sense_is_refused_by_its_name(refusing: httpx.Client, params: dict[str, str]) -> None:
    (name,) = params
    assert problem(refusing.get("/api/jobs", params=params), 422)["errors"][0]["pointer"] == name


def test_a_page_after_a_job_that_is_gone_says_so(client: httpx.Client) -> None:
    assert "begin again" in problem(client.get("/api/jobs?after=never"), 404)["detail"]


# Looking


def test_an_id_may_hold_slashes_and_the_words_of_our_paths(client: httpx.Client) -> None:
    for id in ("a/b", "a/events", "events", "a//b", "/a", "a/", "a+b=c@d.e:f", "..", "a/../b", "cancel", "x/cancel"):
        document = accepted(client, "anything", id, id=id)
        encoded = "".join(f"%{ord(letter):02X}" if letter in "/.@+=:" else letter for letter in id)
        for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/retry"), ("DELETE", "")):
            answer = client.request(method, f"/api/jobs/{encoded}{path}")
            assert answer.is_success, (id, method, path, answer.text)
            if method == "GET" and not path:
                assert answer.json() == {
                    name: value for name, value in document.items() if name not in ("created", "same_arguments")
                }
    for id in ("a/b", "a/events/x"):
        accepted(client, id=id)
        assert client.get(f"/api/jobs/{id}").json()["id"] == id
        assert client.get(f"/api/jobs/{id}/events").json()["events"][0]["job"] == id
        assert client.post(f"/api/jobs/{id}/cancel").json()["id"] == id


@pytest.mark.parametrize(
    "id", ["never", "a%00b", "%ff", "a%20b", "x" * 201, "%2e%2e%2f", "a%252Fb", "ü", "'%3B--", "%F0%9F%90%8E"]
)
def test_a_job_that_is_not_there_is_not_found(refusing: httpx.Client, id: str) -> None:
    for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/retry"), ("DELETE", "")):
        assert "there is no job" in problem(refusing.request(method, f"/api/jobs/{id}{path}"), 404)["detail"]


def test_a_job_that_did_not_change_is_not_sent_again(client: httpx.Client, app: Holdfast) -> None:
    id = accepted(client)["id"]
    first = client.get(f"/api/jobs/{id}")
    tag = first.headers["etag"]
    for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        again = client.get(f"/api/jobs/{id}", headers={"if-none-match": known})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    app.cancel(id)
    changed = client.get(f"/api/jobs/{id}", headers={"if-none-match": tag})
    assert (changed.status_code, changed.json()["state"]) == (200, "cancelled")
    assert changed.headers["etag"] != tag


def test_a_tag_changes_with_everything_that_is_said(app: Holdfast) -> None:
    """What became of a callback is no event of the job's, yet the answer is another."""
    job = app.task_named("add").enqueue(1)
    tags = {
        tag_of(job.event_count, content) for content in (b'{"callback_status":"pending"}', b'{"callback_status":"delivered"}')
    }
    assert len(tags) == 2
    assert {expected_count(tag) for tag in tags} == {1}


def test_a_result_and_errors_are_shown(client: httpx.Client, app: Holdfast) -> None:
    good, bad = accepted(client, "add", 2)["id"], accepted(client, "breaks", "no luck")["id"]
    app.worker(concurrency=1).run_until_empty()
    assert client.get(f"/api/jobs/{good}").json()["result"] == 3
    document = client.get(f"/api/jobs/{bad}").json()
    assert (document["state"], document["errors"][0]["kind"], document["errors"][0]["message"]) == (
        "failed",
        "ValueError",
        "no luck",
    )


# Acting


def test_a_job_is_cancelled_retried_and_skipped(client: httpx.Client) -> None:
    id = accepted(client)["id"]
    cancelled = client.post(f"/api/jobs/{id}/cancel", json={"reason": "changed my mind"}).json()
    assert (cancelled["state"], cancelled["error"]) == ("cancelled", "changed my mind")
    assert client.post(f"/api/jobs/{id}/retry").json()["state"] == "ready"
    skipped = client.post(f"/api/jobs/{id}/skip", json={"reason": "done by hand"}).json()
    assert (skipped["state"], skipped["error"]) == ("skipped", "done by hand")
    answer = client.delete(f"/api/jobs/{id}")
    assert (answer.status_code, answer.content) == (204, b"")
    problem(client.get(f"/api/jobs/{id}"), 404)


def test_a_move_that_is_not_legal_is_a_conflict(client: httpx.Client, app: Holdfast) -> None:
    id = accepted(client)["id"]
    assert "legal here" in problem(client.post(f"/api/jobs/{id}/retry"), 409)["detail"]
    app.claim()
    assert "legal here" in problem(client.delete(f"/api/jobs/{id}"), 409)["detail"]


@pytest.mark.parametrize(
    ("act", "content", "status"),
    [
        ("skip", b"", 422), ("skip", b"{}", 422), ("skip", b'{"reason": ""}', 422), ("skip", b'{"reason": 1}', 422),
        ("cancel", b'{"why": "x"}', 422), ("cancel", b"x", 400), ("cancel", b'{"reason": "' + b"x" * 2_001 + b'"}', 422),
    ],
)  # fmt: skip
def test_a_reason_that_is_none_is_refused(client: httpx.Client, act: str, content: bytes, status: int) -> None:
    id = accepted(client)["id"]
    problem(client.post(f"/api/jobs/{id}/{act}", content=content, headers={"content-type": "application/json"}), status)
    assert client.get(f"/api/jobs/{id}").json()["state"] == "ready"


def test_with_if_match_a_job_that_moved_on_is_left_alone(client: httpx.Client, app: Holdfast) -> None:
    id = accepted(client)["id"]
    tag = client.get(f"/api/jobs/{id}").headers["etag"]
    app.claim()
    stale = {"if-match": tag}
    for method, path, body in (
        ("POST", "/cancel", {}),
        ("POST", "/skip", {"reason": "x"}),
        ("POST", "/retry", None),
        ("DELETE", "", None),
    ):
        answer = problem(client.request(method, f"/api/jobs/{id}{path}", json=body, headers=stale), 412)
        assert "it has moved on" in answer["detail"]
    assert client.get(f"/api/jobs/{id}").json()["state"] == "running"
    fresh = client.get(f"/api/jobs/{id}").headers["etag"]
    done = client.post(f"/api/jobs/{id}/cancel", headers={"if-match": fresh})
    assert (done.status_code, done.json()["state"]) == (200, "cancelled")
    assert client.post(f"/api/jobs/{id}/retry", headers={"if-match": done.headers["etag"]}).status_code == 200
    assert client.post(f"/api/jobs/{id}/cancel", headers={"if-match": "*"}).status_code == 200


@pytest.mark.parametrize("tag", ["1", '"x"', '"1"', '"1-zz"', '"99999999999999999999-ab"', '"1-ab", "2-cd"', ""])
def test_a_tag_that_is_none_of_ours_matches_nothing(client: httpx.Client, tag: str) -> None:
    id = accepted(client)["id"]
    assert "If-Match" in problem(client.post(f"/api/jobs/{id}/cancel", headers={"if-match": tag}), 412)["detail"]


# How things stand


def test_stats_workers_and_tasks(client: httpx.Client, app: Holdfast) -> None:
    accepted(client)
    accepted(client, run_after=60)
    accepted(client, "render", "a.pdf")
    app.claim(queues=["slow"], worker="hand")
    assert [each["name"] for each in client.get("/api/queues").json()["queues"]] == ["default", "slow"]
    assert client.get("/api/stats").json() == {"stats": {"add": {"ready": 1, "scheduled": 1}, "render": {"running": 1}}}
    (worker,) = client.get("/api/workers").json()["workers"]
    assert (worker["name"], worker["by_hand"], worker["running"]) == ("hand", True, 1)
    tasks = {task["name"]: task for task in client.get("/api/tasks").json()["tasks"]}
    assert sorted(tasks) == ["add", "anything", "breaks", "render", "talk"]
    assert tasks["add"]["arguments"]["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}}
    assert tasks["add"]["arguments"]["required"] == ["a"]
    assert (tasks["render"]["queue"], tasks["render"]["description"]) == ("slow", "Turns a document into pages.")


# Problems


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PayloadError("x"), 422), (SettingError("x"), 422), (UnknownTask("x"), 422), (JobNotFound("x"), 404),
        (Conflict("x"), 409), (Changed("x"), 412), (IllegalMove("x"), 409), (LeaseLost("x"), 409), (QueueFull("x", 0.1), 429),
        (StoreUnavailable("x"), 503),
        (HoldfastError("x"), 500), (KeyError("x"), 500), (RecursionError("x"), 500),
    ],
)  # fmt: skip
def test_every_error_of_ours_has_its_status(error: Exception, status: int) -> None:
    found = problem_of(error)
    assert (found.status, found.detail == "x") == (status, status != 500)
    assert ("retry-after" in found.headers) == (status in (429, 503))


def test_a_path_that_is_not_there_and_a_method_that_is_not_taken(client: httpx.Client) -> None:
    problem(client.get("/api/nothing"), 404)
    problem(client.get("/api/jobs/"), 404)
    assert problem(client.put("/api/jobs"), 405)["detail"] == "this path does not take this method"
    assert client.put("/api/jobs").headers["allow"]
    problem(client.get(f"/api/jobs/{accepted(client)['id']}/cancel"), 405)


def test_a_store_that_is_gone_is_a_503_that_says_when_to_come_back(client: httpx.Client, app: Holdfast, monkeypatch: Any) -> None:
    async def gone(*_: Any) -> Any:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(type(app), "aget", gone)
    answer = client.get("/api/jobs/x")
    assert problem(answer, 503)["detail"] == "the database is away"
    assert answer.headers["retry-after"] == "5"


def test_a_full_queue_is_a_429_that_says_when_to_come_back(client: httpx.Client, app: Holdfast, monkeypatch: Any) -> None:
    async def full(*_: Any) -> Any:
        raise QueueFull("queue 'default' is full", 2.5)

    monkeypatch.setattr(type(app), "aenqueue", full)
    answer = client.post("/api/jobs", json={"task": "add", "args": [1]})
    problem(answer, 429)
    assert answer.headers["retry-after"] == "3"


def test_an_error_of_ours_says_nothing_of_its_cause(client: httpx.Client, app: Holdfast, monkeypatch: Any, caplog: Any) -> None:
    async def broken(*_: Any) -> Any:
        raise ZeroDivisionError("the secret of the cause")

    monkeypatch.setattr(type(app), "aget", broken)
    answer = client.get("/api/jobs/x")
    assert problem(answer, 500)["detail"] == "an error of the server; its log has the rest"
    assert "the secret" not in answer.text
    assert "the secret of the cause" in caplog.text


def test_m9_a_page_of_jobs_is_bounded_by_bytes_and_goes_on(app: Holdfast, client: httpx.Client) -> None:
    large = [app.task_named("anything").using(tags=["m9"]).enqueue("x" * 900_000).id for _ in range(9)]
    small = [app.task_named("add").using(tags=["m9"]).enqueue(n).id for n in range(70)]
    listed: list[str] = []
    cuts: list[bool] = []
    after: str | None = ""
    while after is not None:
        answer = client.get(f"/api/jobs?tag=m9&limit=1000&newest=false{after and f'&after={after}'}")
        assert len(answer.content) < 4.5 * 1024 * 1024
        page = answer.json()
        listed += [job["id"] for job in page["jobs"]]
        cuts.append(page["cut"])
        after = page["next"]
        assert ("link" in answer.headers) is (after is not None)
    assert listed == large + small
    assert cuts == [True, True, False]


def test_m9_one_job_is_shown_however_large(app: Holdfast, client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "PAGE_BYTES_MAX", 1)
    made = [app.task_named("add").enqueue(n).id for n in range(2)]
    page = client.get("/api/jobs?newest=false").json()
    assert ([job["id"] for job in page["jobs"]], page["next"], page["cut"]) == ([made[0]], made[0], True)


def test_f16_meters_are_read_with_the_days_and_queues_that_are_asked_for(tmp_path: Path) -> None:
    with Holdfast(f"sqlite:///{tmp_path}/jobs.db", clock=ManualClock()) as app:

        @app.task(name="answer", queue="llm")
        def answer(ctx: Context) -> None:
            ctx.meter(usd=0.0001)

        answer.enqueue()
        answer.using(queue="other").enqueue()
        app.worker().run_until_empty()
        whole = {"day": "2030-01-01", "queue": "llm", "task": "answer", "name": "usd", "amount": 0.0001}
        as_reader = {"Authorization": f"Bearer {app.add_key('reader', 'read', queues=['llm']).text}"}
        with served(app) as server:
            assert server.client.get("/api/meters", headers=as_reader).json() == {"meters": [whole]}
            assert server.client.get("/api/meters?since=2030-01-02", headers=as_reader).json() == {"meters": []}
            assert server.client.get("/api/meters", headers={"Authorization": "Bearer hf_no"}).status_code == 401
            refused = server.client.get("/api/meters?since=7", headers=as_reader)
            assert refused.status_code == 422
            assert "2030-01-31" in refused.text
            told = [
                line for line in server.client.get("/metrics", headers=as_reader).text.splitlines() if "_metered_total{" in line
            ]
            assert told == ['holdfast_metered_total{queue="llm",task="answer",name="usd"} 0.0001']
