"""A bulk on PostgreSQL: its chunks come in their order, and none is kept whose predecessor is not."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, NewJob, StoreUnavailable
from holdfast.domain.bounds import ENQUEUE_BATCH_MAX as CHUNK
from tests.servers import migrated_database, new_database
from tests.store.inside import postgres_store
from tests.store.test_postgres import app_on, ask, enqueue
from tests.until import until

WRITING = "state = 'active' AND query LIKE '%INTO holdfast.job_spec%' AND pid <> pg_backend_pid()"
"""A backend that is in the middle of a chunk."""
ORDER = "SELECT (arguments::json->>'number')::integer FROM holdfast.job_spec JOIN holdfast.ready USING (seq) ORDER BY seq"


@pytest.fixture
def url() -> Iterator[str]:
    with migrated_database() as url:
        yield url


@pytest.fixture
def app(url: str) -> Iterator[Holdfast]:
    with app_on(url) as app:
        enqueue(app, -1)
        yield app


def many(app: Holdfast, count: int) -> Iterator[NewJob]:
    return map(app.task_named("work").bind, range(count))


def numbers(url: str) -> list[int]:
    """What the jobs were given, in the order in which they will run."""
    return [number for (number,) in ask(url, ORDER)]


@contextmanager
def held(url: str, table: str) -> Iterator[psycopg.Connection[Any]]:
    """No other transaction can write to that table meanwhile."""
    with psycopg.connect(url) as connection:
        connection.execute(f"LOCK TABLE holdfast.{table} IN SHARE MODE".encode())
        yield connection


def writing(url: str) -> int:
    """The process of the server that writes a chunk, once there is one."""
    query = f"SELECT pid FROM pg_stat_activity WHERE {WRITING}"
    found: list[tuple[int]] = until(lambda: ask(url, query), "a chunk is being written")
    return found[0][0]


def test_chunks_stay_in_their_order(app: Holdfast, url: str) -> None:
    count = 5 * CHUNK + 7
    ids = app.enqueue_many(many(app, count)).ids
    assert numbers(url) == [-1, *range(count)]
    assert [id for (id,) in ask(url, "SELECT id FROM holdfast.job_spec ORDER BY seq")][1:] == list(ids)


@pytest.mark.parametrize("bad", [0, CHUNK, 2 * CHUNK, 4 * CHUNK])
def test_what_comes_behind_a_chunk_that_is_refused_is_not_kept(bad: int) -> None:
    with new_database() as url, app_on(url) as app:
        enqueue(app, -1)
        ask(url, f"ALTER TABLE holdfast.job_spec ADD CHECK (arguments::json->>'number' <> '{bad}')")
        with pytest.raises(StoreUnavailable, match="CheckViolation"):
            app.enqueue_many(many(app, 5 * CHUNK))
        assert numbers(url) == [-1, *range(bad)]
        assert postgres_store(app)._prepares, "a name that the server did not forget was taken for a pooler's fault"
        enqueue(app, -2)
        assert numbers(url)[-1] == -2


def test_a_connection_that_dies_under_it_changes_nothing(app: Holdfast, url: str) -> None:
    count = 6 * CHUNK
    with ThreadPoolExecutor() as pool:
        with held(url, "ready") as holder:
            batch = pool.submit(app.enqueue_many, many(app, count))
            holder.execute("SELECT pg_terminate_backend(%s, 5000)", (writing(url),))
        assert len(batch.result(60).ids) == count
    assert numbers(url) == [-1, *range(count)]


def test_where_nothing_can_be_prepared_it_goes_one_by_one(app: Holdfast, url: str) -> None:
    postgres_store(app).distrust_plans()
    app.store.close()
    app.enqueue_many(many(app, 3 * CHUNK))
    enqueue(app, 7)
    app.enqueue_many(many(app, 3 * CHUNK))
    assert numbers(url) == [-1, *range(3 * CHUNK), 7, *range(3 * CHUNK)]


def test_arguments_may_have_several_lines(app: Holdfast, url: str) -> None:
    options = app.task_named("work").options
    app.enqueue_many(NewJob(options, f'{{"number":\n{number}}}') for number in range(3 * CHUNK))
    assert numbers(url) == [-1, *range(3 * CHUNK)]


def test_a_new_lane_and_chunks_of_all_kinds(app: Holdfast, url: str) -> None:
    app.task(name="other")(lambda number: None)
    other, work = app.task_named("other"), app.task_named("work")
    kinds = [other, work, work.using(key="k"), work, other, work.using(run_after=60), work]
    jobs = [kind.bind(index) for index, kind in enumerate(kinds) for _ in range(CHUNK)]
    app.enqueue_many(jobs)
    stored = ask(
        url, "SELECT (arguments::json->>'number')::integer, count(*) FROM holdfast.job_spec GROUP BY 1 ORDER BY min(seq)"
    )
    assert stored == [(-1, 1), (0, CHUNK), (1, CHUNK), (2, 1), *((kind, CHUNK) for kind in range(3, 7))]


def test_what_others_enqueue_while_a_slow_source_makes_a_chunk_is_not_overtaken_by_it(app: Holdfast, url: str) -> None:
    between = 3 * CHUNK

    def source() -> Iterator[NewJob]:
        for number, job in enumerate(many(app, between + CHUNK)):
            if number == between:
                enqueue(app, 12345)
            yield job

    app.enqueue_many(source())
    place = numbers(url).index(12345)
    assert between - CHUNK < place <= between + 1, "before the chunk that was made after it"
