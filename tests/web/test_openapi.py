"""The OpenAPI document is true: whatever is generated from it is answered as it says, with and without a key.

And to read changes nothing: the database is the same after every GET that there is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
import schemathesis
from schemathesis.config import SchemathesisConfig
from schemathesis.config._checks import NEGATIVE_DATA_REJECTION_EXPECTED_STATUSES
from schemathesis.engine import events, from_schema

from holdfast import Holdfast
from holdfast.web import WebSettings
from tests.servers import plain
from tests.web.asking import walk
from tests.web.ground import ThreadServer, served

OPEN_SEASON = WebSettings(auth="on", requests_per_second=10**6)
SENSIBLE = ["2xx", "404", "409"]
"""What may be said to a request that fits its schema, which cannot know what jobs there are;"""
IN_THE_STORE = ["400", "422"]
"""nor the signature of a task, nor that two fields exclude each other, nor which cursors were given out;"""
IN_THE_TAG = ["412"]
"""nor how often a job has moved."""


DEEPER = ("POST /api/jobs", "GET /api/events", "PATCH /api/queues/{name}")


def config(key: str | None, examples: int) -> SchemathesisConfig:
    """Without examples: only the cases that a schema has at its edges."""
    acceptance = {
        "positive_data_acceptance": {"expected-statuses": [*SENSIBLE, *IN_THE_TAG, "401"]},
        "negative_data_rejection": {"expected-statuses": [*NEGATIVE_DATA_REJECTION_EXPECTED_STATUSES, "413", "414"]},  # too long
    }
    deeper = {"positive_data_acceptance": {"expected-statuses": [*SENSIBLE, *IN_THE_STORE, *IN_THE_TAG, "401"]}}
    return SchemathesisConfig.from_dict({
        "seed": 1,
        "headers": {} if key is None else {"Authorization": f"Bearer {key}"},
        "generation": {"max-examples": max(1, examples)},
        "phases": {name: {"enabled": bool(examples)} for name in ("fuzzing", "stateful")},
        "checks": acceptance,
        "operations": [{"include-name": name, "checks": deeper} for name in DEEPER],
        "request-timeout": 30.0,
        "output": {"sanitization": {"enabled": False}},
    })  # fmt: skip


def findings(server: ThreadServer, key: str, asked_with: str | None, examples: int) -> tuple[list[str], set[str]]:
    """What schemathesis has to say, with all its checks in all its phases; and the operations that it asked."""
    url, headers = f"{server.url}/openapi.json", {"Authorization": f"Bearer {key}"}
    schema = schemathesis.openapi.from_url(url, headers=headers, config=config(asked_with, examples))
    found: list[str] = []
    asked: set[str] = set()
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            found.append(str(event))
        if isinstance(event, events.ScenarioFinished):
            asked.add(str(event.recorder.label))
            found += _failures(event)
    return found, asked


def _failures(event: events.ScenarioFinished) -> Iterator[str]:
    for checks in event.recorder.checks.values():
        for check in checks:
            if check.failure_info is not None:
                failure = check.failure_info.failure
                yield f"{event.recorder.label}: {failure.title}: {failure.message}\n{check.failure_info.code_sample}"


@pytest.fixture
def strict(app: Holdfast) -> Iterator[tuple[ThreadServer, str]]:
    """Its app has the task of the examples, so that some of what is asked for is accepted."""

    @app.task(name="reports.render")
    def render(document: str) -> None: ...

    key = app.add_key("all", "admin")
    with served(app, OPEN_SEASON) as server:
        yield server, key.text


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_schemathesis_finds_nothing_with_a_key(strict: tuple[ThreadServer, str], app: Holdfast) -> None:
    server, key = strict
    found, asked = findings(server, key, key, examples=5)
    assert not found, "\n\n".join(found[:10])
    documented = {f"{method.upper()} {path}" for path, methods in server.web.openapi()["paths"].items() for method in methods}
    assert asked >= documented
    assert app.jobs(limit=1), "not one job was accepted"


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_schemathesis_finds_nothing_without_one(strict: tuple[ThreadServer, str], app: Holdfast) -> None:
    server, key = strict
    found, _ = findings(server, key, None, examples=0)
    assert not found, "\n\n".join(found[:10])
    assert app.jobs() == []


def contents(url: str) -> Callable[[], list[Any]]:
    """All that is stored."""
    if url.startswith("sqlite"):

        def dump() -> list[Any]:
            with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
                return list(connection.iterdump())
    else:

        def dump() -> list[Any]:
            with psycopg.connect(plain(url)) as connection:
                tables = "SELECT relname FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind = 'r' ORDER BY 1"
                names = [name for (name,) in connection.execute(tables).fetchall()]
                return [(name, connection.execute(f'SELECT * FROM holdfast."{name}"').fetchall()) for name in names]

    return dump  # fmt: skip


def test_to_read_changes_nothing(app: Holdfast, url: str) -> None:
    """Of every route that there is, in every form, for somebody who may do everything."""
    talk = app.task_named("talk")
    job, other = talk.using(key=("a", 1), tags=["eu"], id="a/b").enqueue(2), talk.using(run_after=3600).enqueue(1)
    app.worker(concurrency=1).run_until_empty()
    key = app.add_key("all", "admin").text
    look, headers = contents(url), {"authorization": f"Bearer {key}"}
    with served(app, OPEN_SEASON) as server:
        paths = sorted({each.at(id) for each in walk(server.web) if each.method == "GET" for id in ("a%2Fb", other.id, "never")})
        assert len(paths) > 12
        before, refusals = look(), 0
        for path in paths:
            is_long = path.endswith("/events")
            for accept in ("*/*", "text/event-stream") if not is_long or job.id in path else ("*/*",):
                for query in ("", "?limit=1&after=1&state=ready&queue=default&tag=eu&newest=false"):
                    answer = server.client.get(path + query, headers={**headers, "accept": accept})
                    refusals += answer.is_error
        assert refusals
        assert look() == before


# What is said in it


def test_everything_has_its_words_its_examples_and_its_problems(app: Holdfast) -> None:
    with served(app) as server:
        document = server.client.get("/openapi.json").json()
    names: list[str] = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            place = f"{method} {path}"
            names.append(operation["operationId"])
            assert operation["summary"], place
            assert operation["description"], place
            assert operation["tags"], place
            for status, response in operation["responses"].items():
                assert response["description"], (place, status)
                if int(status) >= 400:
                    assert "application/problem+json" in response["content"], (place, status)
                    assert "application/json" not in response["content"], (place, status)
            assert {"400", "401", "403", "422", "429", "503"} <= operation["responses"].keys(), place
    assert len(set(names)) == len(names)
    body = document["paths"]["/api/jobs"]["post"]["requestBody"]["content"]["application/json"]
    assert len(body["examples"]) == 3
    fields = document["components"]["schemas"]["JobWanted"]["properties"]
    using = {"key", "priority", "run_after", "queue", "attempts", "id", "tags", "meta", "parent", "callback"}
    assert fields.keys() == {"task", "args", "kwargs", *using}
    assert {tag for methods in document["paths"].values() for each in methods.values() for tag in each["tags"]} <= {
        tag["name"] for tag in document["tags"]
    }


def test_every_option_of_using_can_be_sent(app: Holdfast) -> None:
    import inspect

    from holdfast import Task
    from holdfast.web.new_job import JobWanted

    options = set(inspect.signature(Task.using).parameters) - {
        "self",
        "on",
        "wait",
    }  # a request that waits would hold a connection; it is told when to come again
    assert options == set(JobWanted.__struct_fields__) - {"task", "args", "kwargs"}
