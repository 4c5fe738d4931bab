"""A PostgreSQL database that was restored from a dump of another server, whose transactions had other numbers."""

from __future__ import annotations

import psycopg
import pytest

from holdfast import Holdfast, SettingError
from tests.servers import new_database
from tests.store.test_caller import double


def as_if_restored(url: str) -> None:
    """The numbers of a server that had used a billion transactions more."""
    with psycopg.connect(url) as connection:
        for table in ("job_spec", "event"):
            connection.execute(f"UPDATE holdfast.{table} SET tx = ((tx::text)::bigint + 1000000000)::text::xid8".encode())


def test_m3_the_feed_of_a_restored_database_has_all_history_and_repeats_none_of_it() -> None:
    with new_database() as url:
        with Holdfast(url) as app:
            task = app.task(double)
            app.enqueue_many(task.bind(number) for number in range(5))
            app.worker().run_until_empty()
            before = [(event.job, event.number) for event in app.feed(after="")]
            old = next(iter(app.feed(after=""))).cursor
        as_if_restored(url)
        with Holdfast(url) as app:
            assert sorted((event.job, event.number) for event in app.feed(after="")) == sorted(before)
            job = app.task(double).enqueue(9)
            assert [event.job for event in app.feed(after="")][-1] == job.id
            with pytest.raises(SettingError, match="another database"):
                list(app.feed(after=old))
        with psycopg.connect(url) as connection:
            foreign = "SELECT count(*) FROM holdfast.event WHERE tx >= pg_snapshot_xmax(pg_current_snapshot())"
            assert connection.execute(foreign).fetchall() == [(0,)]
