"""Chunks of a bulk that PostgreSQL writes side by side: in their order, and none is kept whose predecessor is not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, NewJob, StoreUnavailable
from holdfast.client import ahead
from holdfast.domain.bounds import ENQUEUE_BATCH_MAX as CHUNK
from holdfast.store.commits import ThreadEntry
from holdfast.store.enqueue import NUMBERS_AHEAD, InTurn, Overtaken, Plain, take_numbers
from holdfast.store.op import Statement
from holdfast.store.postgres.connection import Connection
from tests.servers import migrated_database, new_database
from tests.store.inside import postgres_store
from tests.store.test_postgres import app_on, ask, enqueue

WRITING = "state = 'active' AND query LIKE '%INTO holdfast.body%' AND pid <> pg_backend_pid()"
"""Those that are in the middle of a chunk, the earliest first."""
ORDER = "SELECT (arguments::json->>'number')::integer FROM holdfast.body JOIN holdfast.ready USING (seq) ORDER BY seq"


@pytest.fixture
def url() -> Iterator[str]:
    with migrated_database() as url:
        yield url


@pytest.fixture
def app(url: str) -> Iterator[Holdfast]:
    with app_on(url) as app:
        enqueue(app, -1)  # the lane is known from now on
        yield app


def many(app: Holdfast, count: int) -> Iterator[NewJob]:
    return map(app.task_named("work").bind, range(count))


def numbers(url: str) -> list[int]:
    """What the jobs were given, in the order in which they will run."""
    return [number for (number,) in ask(url, ORDER)]


@contextmanager
def held(url: str, table: str) -> Iterator[psycopg.Connection[Any]]:
    """Nobody can write to that table meanwhile."""
    with psycopg.connect(url) as connection:
        connection.execute(f"LOCK TABLE holdfast.{table} IN SHARE MODE".encode())
        yield connection


def backends(url: str, count: int) -> list[int]:
    """So many that write a chunk, once there are."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        found = [pid for (pid,) in ask(url, f"SELECT pid FROM pg_stat_activity WHERE {WRITING} ORDER BY query_start")]
        if len(found) == count:
            return found
    raise AssertionError(f"never {count} at a time")


def test_two_are_written_at_a_time_and_stay_in_their_order(app: Holdfast, url: str) -> None:
    count = 5 * CHUNK + 7
    with ThreadPoolExecutor() as pool:
        with held(url, "ready"):
            batch = pool.submit(app.enqueue_many, many(app, count))
            backends(url, 2)
        ids = batch.result(30).ids
    assert numbers(url) == [-1, *range(count)]
    assert [id for (id,) in ask(url, "SELECT id FROM holdfast.body ORDER BY seq")][1:] == list(ids)


@pytest.mark.parametrize("bad", [0, CHUNK, 2 * CHUNK, 4 * CHUNK])
def test_what_comes_behind_a_chunk_that_is_refused_is_not_kept(bad: int) -> None:
    with new_database() as url, app_on(url) as app:
        enqueue(app, -1)
        ask(url, f"ALTER TABLE holdfast.body ADD CHECK (arguments::json->>'number' <> '{bad}')")
        with pytest.raises(StoreUnavailable, match="CheckViolation"):
            app.enqueue_many(many(app, 5 * CHUNK))
        assert numbers(url) == [-1, *range(bad)]
        assert postgres_store(app)._prepares, "a name that the server did not forget was taken for a pooler's fault"
        enqueue(app, -2)
        assert numbers(url)[-1] == -2


@pytest.mark.parametrize("victims", [[0], [1], [0, 1]])
def test_connections_that_die_under_it_change_nothing(app: Holdfast, url: str, victims: list[int]) -> None:
    """The first is written again, with other numbers: the second must not stay before it."""
    count = 6 * CHUNK
    with ThreadPoolExecutor() as pool:
        with held(url, "ready") as holder:
            batch = pool.submit(app.enqueue_many, many(app, count))
            found = backends(url, 2)
            for victim in victims:
                holder.execute("SELECT pg_terminate_backend(%s, 5000)", (found[victim],))
        assert len(batch.result(60).ids) == count
    assert numbers(url) == [-1, *range(count)]
    assert ask(url, "SELECT sum(last - first + 1) FROM holdfast.chunk") == [(count,)]


def test_one_that_was_on_its_way_too_early_is_written_again_behind(
    app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, late = Connection.run_alone, threading.Event()
    overtaken: list[object] = []

    def run_late(connection: Connection, *statements: Statement, **options: Any) -> Any:
        number = statements[0].parameters.get("first")
        if statements[0].verb == "add_many" and number is not None and len(statements) == 1:
            options["sent"]()  # which is not true
            assert late.wait(20), "the second has not been tried"
        try:
            return run(connection, *statements, **options)
        except psycopg.errors.InvalidTextRepresentation:
            overtaken.append(number)
            late.set()
            raise

    monkeypatch.setattr(Connection, "run_alone", run_late)
    app.enqueue_many(many(app, 4 * CHUNK))
    assert numbers(url) == [-1, *range(4 * CHUNK)]
    assert overtaken


def test_where_a_few_statements_cannot_be_sent_as_one_it_is_one_after_the_other(app: Holdfast, url: str) -> None:
    postgres_store(app).distrust_plans()
    app.store.close()
    app.enqueue_many(many(app, 3 * CHUNK))
    enqueue(app, 7)
    app.enqueue_many(many(app, 3 * CHUNK))
    assert numbers(url) == [-1, *range(3 * CHUNK), 7, *range(3 * CHUNK)]


def test_arguments_of_several_lines_are_written_one_after_the_other(app: Holdfast, url: str) -> None:
    options = app.task_named("work").options
    app.enqueue_many(NewJob(options, f'{{"number":\n{number}}}') for number in range(3 * CHUNK))
    assert numbers(url) == [-1, *range(3 * CHUNK)]


def test_a_lane_that_is_not_known_and_chunks_of_all_kinds(app: Holdfast, url: str) -> None:
    app.task(name="other")(lambda number: None)
    other, work = app.task_named("other"), app.task_named("work")
    kinds = [other, work, work.using(key="k"), work, other, work.using(run_after=60), work]
    jobs = [kind.bind(index) for index, kind in enumerate(kinds) for _ in range(CHUNK)]
    app.enqueue_many(jobs)
    stored = ask(url, "SELECT (arguments::json->>'number')::integer, count(*) FROM holdfast.body GROUP BY 1 ORDER BY min(seq)")
    assert stored == [(-1, 1), (0, CHUNK), (1, CHUNK), (2, 1), *((kind, CHUNK) for kind in range(3, 7))]


def test_numbers_that_waited_are_not_used(app: Holdfast, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What others enqueue while a slow source makes a chunk is not overtaken by it."""
    monkeypatch.setattr(ahead, "FRESH_SECONDS", 0.0)
    between = 3 * CHUNK

    def source() -> Iterator[NewJob]:
        for number, job in enumerate(many(app, between + CHUNK)):
            if number == between:
                enqueue(app, 12345)
            yield job

    app.enqueue_many(source())
    assert between < NUMBERS_AHEAD * CHUNK
    assert numbers(url)[between + 1] == 12345


def test_a_chunk_is_forgotten_with_the_last_of_its_jobs(app: Holdfast, url: str) -> None:
    ids = [app.enqueue_many(many(app, count)).ids for count in (3, 2)]
    for id in ids[0][:2]:
        app.delete(id)
    assert ask(url, "SELECT count(*) FROM holdfast.chunk") == [(2,)]
    app.delete(ids[0][2])
    assert ask(url, "SELECT last - first + 1 FROM holdfast.chunk") == [(2,)]
    for id in ids[1]:
        app.cancel(id)
    assert app.prune(0) == 2
    assert ask(url, "SELECT count(*) FROM holdfast.chunk") == [(0,)]


def test_in_one_transaction_with_others_too(app: Holdfast, url: str) -> None:
    """Where its writer is not alone it is an operation like any other, and the only one that is undone."""
    store, task = postgres_store(app), app.task_named("work")
    first, second, third, *_ = store.write(take_numbers)

    def entry(number: int, before: int | None) -> ThreadEntry[Any]:
        return ThreadEntry(InTurn(Plain([task.bind(number), task.bind(number)], store.lanes), number, before, lambda: None))

    batch = [entry(first, None), entry(third, second), entry(second, first)]
    store._writers[1]._commit(list(batch))
    assert [type(each.error) for each in batch] == [type(None), Overtaken, type(None)]
    assert numbers(url) == [-1, first, first, second, second]
