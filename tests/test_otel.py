"""One trace from the enqueue through every run to the callback, whatever kind of function the task is."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode, format_span_id, format_trace_id

from holdfast import Conflict, Context, Holdfast, Hook, Job, Key, Retry, Skip
from holdfast.domain.bounds import META_BYTES_MAX
from holdfast.domain.job import Options
from holdfast.domain.outcome import Outcome
from holdfast.domain.trace import carried, placed
from holdfast.hooks import Entry
from holdfast.otel import instrument
from holdfast.testing.elsewhere import elsewhere
from tests.events.receiver import SECRET, Receiver
from tests.worker import process_tasks

PLACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traced:
    """An app whose spans are kept in memory."""

    def __init__(self, app: Holdfast) -> None:
        self.app = app
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")
        instrument(app, self.provider)

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if name in (None, span.name)]

    def span(self, name: str) -> ReadableSpan:
        (span,) = self.spans(name)
        return span

    def work(self) -> None:
        self.app.worker(concurrency=2).run_until_empty()


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    with Holdfast(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield Traced(app)


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


def id_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return format_span_id(span.context.span_id)


def parent_of(span: ReadableSpan) -> str | None:
    return None if span.parent is None else format_span_id(span.parent.span_id)


def said(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def here() -> str:
    """The span that is current in the task's own code."""
    return format_span_id(trace.get_current_span().get_span_context().span_id)


NOWHERE = format_span_id(0)


# From the enqueue to the run


def test_a_run_is_the_child_of_its_enqueue_in_the_callers_trace(traced: Traced) -> None:
    @traced.app.task(name="add", queue="sums")
    async def add(a: int, b: int) -> int:
        return a + b

    with traced.tracer.start_as_current_span("request") as request:
        job = add.enqueue(1, 2)
    traced.work()

    enqueued, ran = traced.span("enqueue add"), traced.span("run add")
    assert trace_of(enqueued) == trace_of(ran) == request.get_span_context().trace_id
    assert parent_of(enqueued) == format_span_id(request.get_span_context().span_id)
    assert parent_of(ran) == id_of(enqueued)
    assert (enqueued.kind, ran.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert said(enqueued) == {
        "messaging.system": "holdfast",
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
        "messaging.destination.name": "sums",
        "messaging.message.id": job.id,
        "holdfast.task": "add",
    }
    assert said(ran) == {
        "messaging.system": "holdfast",
        "messaging.operation.type": "process",
        "messaging.operation.name": "run",
        "messaging.destination.name": "sums",
        "messaging.message.id": job.id,
        "holdfast.task": "add",
        "holdfast.attempt": 1,
        "holdfast.outcome": "succeeded",
    }
    assert ran.status.status_code is StatusCode.UNSET


def test_the_span_is_current_in_the_code_and_what_it_enqueues_goes_on_with_the_trace(traced: Traced) -> None:
    @traced.app.task(name="child")
    def child() -> str:
        return here()

    @traced.app.task(name="plain")
    def plain() -> str:
        child.enqueue()
        return here()

    @traced.app.task(name="later")
    async def later() -> str:
        await child.aenqueue()
        inside = await asyncio.gather(asyncio.to_thread(here), asyncio.create_task(_here()))
        assert set(inside) == {here()}
        return here()

    first, second = plain.enqueue(), later.enqueue()
    traced.work()
    for job, name in ((first, "plain"), (second, "later")):
        ran = traced.span(f"run {name}")
        assert read(traced, job).result == id_of(ran)
        (below,) = [span for span in traced.spans("enqueue child") if parent_of(span) == id_of(ran)]
        assert trace_of(below) == trace_of(ran)
        assert [span for span in traced.spans("run child") if parent_of(span) == id_of(below)]
    assert here() == NOWHERE, "nothing stays current behind a run"


async def _here() -> str:
    return here()


def test_threads_are_used_again_and_nothing_of_the_last_run_is_left_in_them(traced: Traced) -> None:
    @traced.app.task(name="one")
    def one() -> str:
        return here()

    jobs = [one.enqueue() for _ in range(20)]
    traced.app.worker(concurrency=1).run_until_empty()
    runs = {said(span)["messaging.message.id"]: span for span in traced.spans("run one")}
    assert {read(traced, job).result for job in jobs} == {id_of(span) for span in runs.values()}
    assert len({trace_of(span) for span in runs.values()}) == 20


def test_a_task_in_a_process_of_its_own_has_its_span_in_the_worker(tmp_path: Path) -> None:
    with elsewhere(process_tasks.app, f"sqlite:///{tmp_path}/jobs.db") as app:
        traced = Traced(app)
        try:
            good, bad = process_tasks.add.enqueue(1, 2), process_tasks.fail.using(attempts=1).enqueue("fatal")
            traced.work()
        finally:
            app.hooks.clear()
        for job, how in ((good, "succeeded"), (bad, "failed")):
            ran = next(span for span in traced.spans() if said(span).get("messaging.message.id") == job.id and is_run(span))
            assert said(ran)["holdfast.outcome"] == how
            assert parent_of(ran) == id_of(traced.span(f"enqueue {job.task}"))
        assert here() == NOWHERE


def is_run(span: ReadableSpan) -> bool:
    return span.kind is SpanKind.CONSUMER


# How it ended


def test_every_attempt_has_a_span_and_a_failed_one_tells_why(traced: Traced) -> None:
    @traced.app.task(name="flaky", retry=Retry(2, delays=[0], jitter=0))
    def flaky(ctx: Context) -> str:
        if ctx.attempt == 1:
            raise ValueError("not yet")
        return "well"

    job = flaky.enqueue()
    while not read(traced, job).final:
        traced.work()
    first, second = sorted(traced.spans("run flaky"), key=lambda span: said(span)["holdfast.attempt"])
    assert trace_of(first) == trace_of(second)
    assert (said(first)["holdfast.outcome"], said(second)["holdfast.outcome"]) == ("failed", "succeeded")
    assert first.status.status_code is StatusCode.ERROR
    assert first.status.description == "ValueError: not yet"
    (event,) = first.events
    assert event.name == "exception"
    told = dict(event.attributes or {})
    assert (told["exception.type"], told["exception.message"]) == ("ValueError", "not yet")
    assert "raise ValueError" in str(told["exception.stacktrace"])
    assert not second.events


def test_an_outcome_that_was_decided_from_outside_is_the_one_that_is_told(traced: Traced) -> None:
    @traced.app.task(name="slow", timeout=0.05, retry=Retry(1))
    async def slow() -> None:
        await asyncio.sleep(60)

    @traced.app.task(name="unneeded")
    def unneeded() -> None:
        raise Skip("not today")

    slow.enqueue()
    unneeded.enqueue()
    traced.work()
    timed_out = traced.span("run slow")
    assert timed_out.status.description == "TimeoutError: it ran longer than its timeout of 0.05 s"
    assert said(traced.span("run unneeded"))["holdfast.outcome"] == "skipped"


def test_an_enqueue_that_is_refused_tells_why(traced: Traced) -> None:
    @traced.app.task(name="once")
    def once() -> None: ...

    unique = once.using(key=Key("a", conflict="raise"))
    unique.enqueue()
    with pytest.raises(Conflict):
        unique.enqueue()
    refused = traced.spans("enqueue once")[1]
    assert refused.status.status_code is StatusCode.ERROR
    assert [event.name for event in refused.events] == ["exception"]


# What travels with the job


def test_many_jobs_share_one_span(traced: Traced) -> None:
    @traced.app.task(name="one")
    def one(n: int) -> None: ...

    batch = traced.app.enqueue_many([one.bind(1), one.using(tags=["x"], meta={"of": "mine"}).bind(2)])
    asyncio.run(_enqueue_many(traced.app, [one.bind(3)]))
    many, alone = traced.spans("enqueue many")
    assert said(many)["messaging.batch.message_count"] == 2
    assert "messaging.message.id" in said(alone)
    metas = [job.meta for job in batch]
    places = [meta.pop("traceparent") for meta in metas]
    assert len(set(places)) == 1
    assert id_of(many) in places[0]
    assert metas == [{}, {"of": "mine"}]
    assert one.options.meta is None


async def _enqueue_many(app: Holdfast, jobs: Sequence[Any]) -> None:
    await app.aenqueue_many(jobs)


def test_who_enqueues_over_rest_may_bring_a_place_of_his_own(traced: Traced) -> None:
    @traced.app.task(name="one")
    def one() -> None: ...

    job = one.using(meta={"traceparent": PLACE, "of": "mine"}).enqueue()
    enqueued = traced.span("enqueue one")
    assert format_trace_id(trace_of(enqueued)) in PLACE
    assert str(parent_of(enqueued)) in PLACE
    assert job.meta["of"] == "mine"
    assert id_of(enqueued) in job.meta["traceparent"]


@pytest.mark.parametrize("place", ["nonsense", "", 7, None, {"a": 1}, PLACE + "x" * 10_000])
def test_a_place_that_is_none_begins_a_trace_of_its_own(traced: Traced, place: Any) -> None:
    @traced.app.task(name="one")
    def one() -> None: ...

    one.using(meta={"traceparent": place}).enqueue()
    traced.work()
    assert parent_of(traced.span("enqueue one")) is None
    assert parent_of(traced.span("run one")) == id_of(traced.span("enqueue one"))


def test_where_meta_is_full_the_job_goes_without(traced: Traced, caplog: pytest.LogCaptureFixture) -> None:
    @traced.app.task(name="one")
    def one() -> None: ...

    full = {"x": "y" * (META_BYTES_MAX - 10)}
    assert one.using(meta=full).enqueue().meta == full
    traced.work()
    assert trace_of(traced.span("run one")) != trace_of(traced.span("enqueue one"))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_inside_the_callers_transaction_it_is_the_same(traced: Traced, tmp_path: Path) -> None:
    @traced.app.task(name="one")
    def one() -> None: ...

    traced.app.migrate()
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        job = one.using(on=connection).enqueue()
        connection.commit()
    assert id_of(traced.span("enqueue one")) in read(traced, job).meta["traceparent"]


def test_a_program_that_records_nothing_stores_nothing(tmp_path: Path) -> None:
    with Holdfast(f"sqlite:///{tmp_path}/jobs.db") as app:
        instrument(app, NoOpTracerProvider())

        @app.task(name="one")
        def one() -> None: ...

        assert one.enqueue().meta == {}
        app.worker().run_until_empty()
        assert app.stats() == {"one": {"succeeded": 1}}


def test_to_instrument_twice_is_once(traced: Traced) -> None:
    instrument(traced.app, traced.provider)
    assert len(traced.app.hooks) == 1


def test_the_callback_is_part_of_the_trace(traced: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("HOLDFAST_WEBHOOK_ALLOW", "127.0.0.0/8")

    @traced.app.task(name="one")
    def one() -> None: ...

    with Receiver() as receiver:
        job = one.using(callback=receiver.url).enqueue()
        traced.work()
        assert len(receiver.wait()) == 1
    enqueued, ran, delivered = traced.span("enqueue one"), traced.span("run one"), traced.span("run holdfast.deliver")
    assert trace_of(enqueued) == trace_of(ran) == trace_of(delivered)
    assert parent_of(delivered) == id_of(enqueued)
    assert delivered.kind is SpanKind.CONSUMER
    assert said(delivered)["holdfast.outcome"] == "succeeded"
    assert read(traced, job).callback_status == "delivered"


def test_what_goes_on_for_another_job_carries_its_place_and_nothing_else() -> None:
    assert carried(None) is None
    assert carried('{"a":1}') is None
    assert carried('{"a":"traceparent"}') is None
    assert carried('{"traceparent":1}') is None
    assert carried(placed('{"secret":1}', PLACE)) == f'{{"traceparent":"{PLACE}"}}'


# The seam


class Failing(Hook, Entry):
    """A hook that raises at one of its turns."""

    def __init__(self, where: str) -> None:
        self.where = where

    def enqueueing(self, options: Options | None) -> AbstractContextManager[Any]:
        self._fail("enqueueing")
        return self._around()

    def running(self, job: Job) -> AbstractContextManager[Callable[[Outcome], object]]:
        self._fail("running")
        return self._around()

    @contextmanager
    def _around(self) -> Iterator[Any]:
        self._fail("enter")
        yield self
        self._fail("exit")

    def mark(self, options: Options) -> Options:
        self._fail("mark")
        return options

    def accepted(self, ids: Sequence[str]) -> None:
        self._fail("accepted")

    def __call__(self, outcome: Outcome) -> None:
        self._fail("told")

    def _fail(self, where: str) -> None:
        if where == self.where:
            raise RuntimeError(f"broken at {where}")


class Noting(Hook):
    """A hook that notes its turns."""

    def __init__(self) -> None:
        self.turns: list[str] = []

    def running(self, job: Job) -> AbstractContextManager[Callable[[Outcome], object]]:
        return self

    def __enter__(self) -> Callable[[Outcome], object]:
        self.turns.append("enter")
        return lambda outcome: self.turns.append(type(outcome).__name__)

    def __exit__(self, *_: object) -> None:
        self.turns.append("exit")


def test_a_run_in_a_process_is_surrounded_from_its_start_to_its_end(tmp_path: Path) -> None:
    with elsewhere(process_tasks.app, f"sqlite:///{tmp_path}/jobs.db") as app:
        noting = Noting()
        app.hooks.append(noting)
        try:
            process_tasks.add.enqueue(1)
            app.worker().run_until_empty()
        finally:
            app.hooks.clear()
        assert noting.turns == ["enter", "Succeeded", "exit"]


@pytest.mark.parametrize("where", ["enqueueing", "running", "enter", "exit", "mark", "accepted", "told"])
def test_a_hook_that_fails_harms_no_job(traced: Traced, caplog: pytest.LogCaptureFixture, where: str) -> None:
    @traced.app.task(name="one")
    async def one() -> int:
        return 1

    @traced.app.task(name="two")
    def two() -> int:
        return 2

    traced.app.hooks.insert(0, Failing(where))
    with caplog.at_level(logging.WARNING, "holdfast.hooks"):
        one.enqueue()
        asyncio.run(_enqueue_many(traced.app, [two.bind()]))
        traced.work()
    assert traced.app.stats() == {"one": {"succeeded": 1}, "two": {"succeeded": 1}}
    assert f"broken at {where}" in caplog.text
    assert len(traced.spans()) == 4, "the other hook is not disturbed"


def read(traced: Traced, job: Job) -> Job:
    found = traced.app.get(job.id)
    assert found is not None
    return found
