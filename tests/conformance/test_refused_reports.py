"""H2: what the database refuses to write is one run's failure; its worker goes on, renews, claims, and writes the rest."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from holdfast import Context, Lease, PayloadError, Retry, SettingError
from holdfast.domain.bounds import EVENTS_WAITING_BYTES_MAX, FILING_BYTES_MAX, METER_MAX
from holdfast.worker.context import Detached
from tests.conformance.world import STORES, World
from tests.servers import plain
from tests.until import PATIENCE
from tests.workers import working

_SQLITE = "CREATE TRIGGER refusal BEFORE INSERT ON {table} WHEN {new} BEGIN SELECT RAISE(ABORT, 'no such words here'); END"
_POSTGRES = "ALTER TABLE holdfast.{table} ADD CONSTRAINT refusal CHECK (NOT ({new}))"


@contextmanager
def refusing(store: World, table: str, condition: str) -> Iterator[None]:
    """The database refuses some rows: as it does for reasons that nobody thought of."""
    store.app.migrate()
    if store.url.startswith("sqlite"):
        with sqlite3.connect(store.url.removeprefix("sqlite:///")) as file:
            file.execute(_SQLITE.format(table=f"holdfast_{table}", new=condition.format("NEW.")))
        file.close()
        yield
        return
    with psycopg.connect(plain(store.url), autocommit=True) as server:
        server.execute(_POSTGRES.format(table=table, new=condition.format("")))
        try:
            yield
        finally:
            server.execute(f"ALTER TABLE holdfast.{table} DROP CONSTRAINT refusal")


@pytest.mark.parametrize("ending", ["returns", "goes on"])
def test_h2_what_the_database_refuses_fails_its_own_job_only(store: World, ending: str) -> None:
    gate = threading.Event()

    @store.app.task(name="poison", retry=Retry(5, delays=[0]))
    def poison(ctx: Context) -> str:
        ctx.emit("poison", {"a": 1})
        while ending == "goes on" and not gate.wait(0.02):
            ctx.check()
        return "done"

    @store.app.task(name="chatty")
    def chatty(ctx: Context, number: int) -> int:
        ctx.emit("fine", number)
        return number

    with refusing(store, "event", "{}kind = 'poison'"), working(store.app, concurrency=8):
        jobs = [chatty.enqueue(number) for number in range(5)]
        bad = [poison.enqueue() for _ in range(2)]
        jobs += [chatty.enqueue(number) for number in range(5, 10)]
        assert [store.app.wait(job.id, timeout=PATIENCE).result for job in jobs] == list(range(10))
        failed = [store.app.wait(job.id, timeout=PATIENCE) for job in bad]
        assert store.app.wait(chatty.enqueue(99).id, timeout=PATIENCE).result == 99
        gate.set()
    assert [(job.state, job.attempt) for job in failed] == [("failed", 1)] * 2
    assert all((job.error or "").startswith("ReportRefused: what it reported cannot be written: ") for job in failed)
    assert [store.kinds(job) for job in jobs] == [["enqueued", "started", "fine", "succeeded"]] * 10


def test_h2_a_job_that_cannot_be_written_at_all_stops_nobody(store: World) -> None:
    """Not even its failure is written; it stays with its worker."""

    @store.app.task(name="poison", retry=Retry(1))
    def poison() -> None:
        raise ValueError("out")

    with refusing(store, "error", "{}attempt = 1"), working(store.app, concurrency=2):
        bad = poison.enqueue()
        assert [store.app.wait(store.add.enqueue(1).id, timeout=PATIENCE).result for _ in range(3)] == [2] * 3
        assert store.get(bad).state == "running"


def test_h2_meters_that_would_sum_to_infinity_are_refused_where_they_are_given(store: World) -> None:
    @store.app.task(name="spend", retry=Retry(1))
    def spend(ctx: Context, amount: float) -> None:
        ctx.meter(tokens=amount)

    with working(store.app):
        large = [store.app.wait(spend.enqueue(1e308).id, timeout=PATIENCE) for _ in range(2)]
        right = [store.app.wait(spend.enqueue(METER_MAX).id, timeout=PATIENCE) for _ in range(2)]
    assert [job.error for job in large] == [
        "holdfast.errors.SettingError: meter tokens=1e+308 is larger than 1e+100; use a larger unit"
    ] * 2
    assert [job.state for job in right] == ["succeeded"] * 2
    assert store.rows("SELECT sum(amount) FROM holdfast_meter") == [(2 * METER_MAX,)]
    with pytest.raises(SettingError, match="larger than"):
        store.app.finish(_claimed(store), meter={"tokens": 10**400})


def _claimed(store: World) -> Lease:
    store.add.enqueue(1)
    lease = store.app.claim()
    assert lease is not None
    return lease


def test_h2_events_beyond_one_transaction_are_written_in_order(store: World) -> None:
    count = 2 * FILING_BYTES_MAX // 60_000 + 10

    @store.app.task(name="events", retry=Retry(1))
    def events(ctx: Context) -> None:
        for number in range(count):
            ctx.emit("chunk", {"n": number, "text": "x" * 60_000})
        ctx.progress(1, 1)

    with working(store.app):
        job = store.app.wait(events.enqueue().id, timeout=PATIENCE)
    assert job.state == "succeeded"
    found = list(store.app.events(job.id))
    assert [event.number for event in found] == list(range(1, count + 5))
    assert [event.data["n"] for event in found if event.kind == "chunk"] == list(range(count))
    assert [event.kind for event in found][-2:] == ["progress", "succeeded"]


def test_h2_events_beyond_all_memory_are_refused_where_they_are_emitted() -> None:
    context = Context(Detached(lambda: None), 1, {}, {})  # type: ignore[arg-type, return-value]
    for _ in range(EVENTS_WAITING_BYTES_MAX // 60_002):
        context.emit("chunk", "x" * 60_000)
    with pytest.raises(PayloadError, match="faster than the database takes them, and 64 MB of them wait; emit less"):
        context.emit("chunk", "x" * 60_000)
    assert context._waiting_bytes <= EVENTS_WAITING_BYTES_MAX
    assert len(context._take(bytes_max=FILING_BYTES_MAX).events) == FILING_BYTES_MAX // 60_002
    context.emit("chunk", "x" * 60_000)


_DISK_FULL = """
CREATE FUNCTION holdfast.full() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.kind = 'large' THEN RAISE 'no space left' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON holdfast.event FOR EACH ROW EXECUTE FUNCTION holdfast.full()
"""


def test_h2_no_beat_no_claim_and_no_other_report_waits_for_one_that_finds_no_room(tmp_path: Path) -> None:
    """A full disk is no fault of the job's: it is tried again, and nothing of it is lost."""
    store = STORES["postgresql"](tmp_path)
    told = threading.Event()

    @store.app.task(name="large", retry=Retry(1))
    def large(ctx: Context) -> str:
        ctx.emit("large", 1)
        told.set()
        return "kept"

    try:
        store.app.migrate()
        with psycopg.connect(plain(store.url), autocommit=True) as server:
            server.execute(_DISK_FULL)
            try:
                with working(store.app, concurrency=2):
                    job = large.enqueue()
                    assert told.wait(PATIENCE)
                    assert [store.app.wait(store.add.enqueue(1).id, timeout=PATIENCE).result for _ in range(5)] == [2] * 5
                    assert store.get(job).state == "running"
                    server.execute("DROP FUNCTION holdfast.full() CASCADE")
                    assert store.app.wait(job.id, timeout=PATIENCE).result == "kept"
            finally:
                server.execute("DROP FUNCTION IF EXISTS holdfast.full() CASCADE")
        assert store.kinds(job) == ["enqueued", "started", "large", "succeeded"]
    finally:
        store.close()
