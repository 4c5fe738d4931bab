"""A file that is not the one that was opened any more: deleted, replaced, or looked for in another directory."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Holdfast, SettingError, State, StoreUnavailable
from tests.store.inside import sqlite_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def app(path: Path) -> Iterator[Holdfast]:
    with Holdfast(f"sqlite:///{path}") as app:
        app.task(name="double")(double)
        yield app


def double(number: int) -> int:
    return number * 2


def enqueue(app: Holdfast, number: int = 1) -> str:
    return app.task_named("double").enqueue(number).id


def replace_by_copy(app: Holdfast, path: Path) -> None:
    """As a restored backup would be put in place."""
    sqlite_store(app).checkpoint()
    shutil.copy(path, path.with_name("copy"))
    for log in ("jobs.db-wal", "jobs.db-shm"):
        path.with_name(log).unlink()
    os.replace(path.with_name("copy"), path)


def test_m5_nothing_is_acknowledged_into_a_file_that_was_deleted(app: Holdfast, path: Path) -> None:
    enqueue(app)
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(StoreUnavailable, match=r"jobs\.db or its log was deleted or replaced, and this write with it; try again"):
        enqueue(app)
    for call in (lambda: enqueue(app), lambda: app.jobs(), lambda: app.enqueue_many([app.task_named("double").bind(1)])):
        with pytest.raises(StoreUnavailable, match=r"was deleted while it was in use; put it back, or create an empty"):
            call()
    assert not path.exists()
    app.migrate()
    assert app.jobs() == []
    assert app.get(enqueue(app)) is not None


def test_m5_jobs_go_to_the_file_that_replaced_the_old_one(app: Holdfast, path: Path) -> None:
    first = enqueue(app)
    replace_by_copy(app, path)
    with pytest.raises(StoreUnavailable, match="deleted or replaced"):
        enqueue(app)
    second = enqueue(app)
    with Holdfast(f"sqlite:///{path}") as other:
        assert other.get(first) is not None
        assert other.get(second) is not None
    assert app.get(second) is not None
    assert sqlite_store(app).generation == 1


def test_m5_reads_see_the_file_that_replaced_the_old_one(app: Holdfast, path: Path) -> None:
    enqueue(app)
    replace_by_copy(app, path)
    with Holdfast(f"sqlite:///{path}") as other:
        other.task(name="double")(double)
        enqueue(other)
        assert len(app.jobs()) == 2


def test_m5_nothing_is_acknowledged_into_a_log_that_was_deleted(app: Holdfast, path: Path) -> None:
    enqueue(app)
    path.with_name("jobs.db-wal").unlink()
    with pytest.raises(StoreUnavailable, match="deleted or replaced"):
        enqueue(app)


@pytest.mark.parametrize("gone", ["jobs.db", "jobs.db-wal"])
def test_m5_one_look_at_a_directory_that_has_long_been_the_same_is_enough(app: Holdfast, path: Path, gone: str) -> None:
    enqueue(app)
    os.utime(path.parent, (1, 1))
    enqueue(app)
    enqueue(app)
    path.with_name(gone).unlink()
    with pytest.raises(StoreUnavailable, match="deleted or replaced"):
        enqueue(app)


def test_m5_a_directory_whose_stamp_may_not_move_is_not_trusted(app: Holdfast, path: Path) -> None:
    """As on a file system that counts in seconds, or where the clock was set back."""
    enqueue(app)
    later = time.time() + 60
    os.utime(path.parent, (later, later))
    enqueue(app)
    path.unlink()
    os.utime(path.parent, (later, later))
    with pytest.raises(StoreUnavailable, match="deleted or replaced"):
        enqueue(app)


def test_m5_a_link_that_leads_to_another_file_is_noticed(path: Path) -> None:
    there, elsewhere = path.parent / "there", path.parent / "elsewhere"
    for directory in (there, elsewhere):
        directory.mkdir()
    path.symlink_to(there / "jobs.db")
    with Holdfast(f"sqlite:///{path}") as app:
        app.task(name="double")(double)
        enqueue(app)
        for directory in (path.parent, there):
            os.utime(directory, (1, 1))
        enqueue(app)
        path.unlink()
        path.symlink_to(elsewhere / "jobs.db")
        os.utime(path.parent, (1, 1))
        with pytest.raises(StoreUnavailable, match="deleted or replaced"):
            enqueue(app)


def test_m5_every_caller_of_a_shared_commit_is_refused(app: Holdfast, path: Path) -> None:
    enqueue(app)
    replace_by_copy(app, path)
    with pytest.raises(StoreUnavailable, match="deleted or replaced"):
        app.enqueue_many(app.task_named("double").bind(number) for number in range(10))
    assert len(app.jobs()) == 1


def test_m5_a_watcher_notices_commits_to_the_file_that_replaced_the_old_one(app: Holdfast, path: Path) -> None:
    enqueue(app)
    with closing(app.store.watcher()) as watcher:
        replace_by_copy(app, path)
        assert watcher.wait(20)
        while watcher.wait(0.0):  # what the replacement itself has written
            pass
        with Holdfast(f"sqlite:///{path}") as other:
            other.task(name="double")(double)
            enqueue(other)
        assert watcher.wait(20)


def test_h1_a_relative_path_stays_where_it_was_when_the_program_changes_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)
    with Holdfast("sqlite:///jobs.db") as app:
        app.task(name="double")(double)
        ids = [enqueue(app)]
        monkeypatch.chdir(second)
        ids.append(enqueue(app))
        app.close()
        ids.append(enqueue(app))
        assert all(app.get(id) is not None for id in ids)
    assert list(second.iterdir()) == []
    assert stat.S_IMODE((first / "jobs.db").stat().st_mode) == 0o600


def test_l5_a_connection_that_finds_the_tables_of_another_file_first_is_refused(app: Holdfast, path: Path) -> None:
    shop_path = path.with_name("shop.db")
    app.migrate()
    with Holdfast(f"sqlite:///{shop_path}") as shop, closing(sqlite3.connect(shop_path)) as connection:
        shop.migrate()
        connection.execute("ATTACH ? AS jobs", (str(path),))
        with pytest.raises(SettingError, match=r"on= is a connection to .*shop\.db, but this app's jobs are in .*jobs\.db"):
            app.task_named("double").using(on=connection).enqueue(1)
        connection.rollback()
        assert shop.jobs() == app.jobs() == []


def test_l5_a_connection_that_has_the_file_attached_beside_one_without_tables_is_accepted(app: Holdfast, path: Path) -> None:
    app.migrate()
    with closing(sqlite3.connect(path.with_name("shop.db"))) as connection:
        connection.execute("ATTACH ? AS jobs", (str(path),))
        job = app.task_named("double").using(on=connection).enqueue(1)
        connection.commit()
    assert app.get(job.id) is not None


def test_c3_a_worker_that_lives_through_a_restore_starts_over(app: Holdfast, path: Path, tmp_path: Path) -> None:
    """Its runs end with the database that they came from; numbers that are given out again do not reach them."""
    started, go, ran = threading.Event(), threading.Event(), []

    @app.task(name="old")
    def old() -> str:
        started.set()
        go.wait(20)
        return "of the old database"

    @app.task(name="new")
    def new() -> str:
        ran.append("new")
        return "of the new one"

    app.migrate()
    sqlite_store(app).checkpoint()
    shutil.copy(path, tmp_path / "copy")
    old.enqueue()
    worker = app.worker(concurrency=2)
    thread = threading.Thread(target=worker.run)
    thread.start()
    assert started.wait(20)
    with sqlite_store(app).commits.paused():
        for log in ("jobs.db-wal", "jobs.db-shm"):
            path.with_name(log).unlink(missing_ok=True)
        os.replace(tmp_path / "copy", path)
    with Holdfast(f"sqlite:///{path}") as other:
        job = other.task(name="new")(new).enqueue()  # has the number, and will have the token, of the old one
        assert other.wait(job.id, timeout=20).result == "of the new one"
        go.set()
        worker.stop()
        thread.join(20)
        assert [(found.task, found.state, found.result) for found in other.jobs()] == [("new", State.SUCCEEDED, "of the new one")]
        assert [event.kind for event in other.events(job.id)] == ["enqueued", "started", "succeeded"]
    assert ran == ["new"]
