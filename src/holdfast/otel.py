"""OpenTelemetry: `instrument(app)`, and a job's way is one trace, from its enqueue through every run to its callback.

The place in the trace travels in the job's meta under `traceparent`: any program that enqueues, over REST too, can set it.
Needs opentelemetry-api; without an SDK that the program has set up, nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from holdfast.domain import codec
from holdfast.domain.job import Job, Options
from holdfast.domain.outcome import Failed, Outcome
from holdfast.domain.trace import TRACEPARENT, place_in, placed
from holdfast.hooks import Entry, Hook

if TYPE_CHECKING:
    from holdfast.app import Holdfast

_W3C: Final = TraceContextTextMapPropagator()


def instrument(app: Holdfast, tracer_provider: TracerProvider | None = None) -> None:
    """Trace what is enqueued through this app from now on, and what its workers run that start later."""
    if not any(isinstance(hook, Tracing) for hook in app.hooks):
        app.hooks.append(Tracing(trace.get_tracer("holdfast", tracer_provider=tracer_provider)))


class Tracing(Hook):
    """The hook: a PRODUCER span around an enqueue, a CONSUMER span around a run."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def enqueueing(self, options: Options | None) -> Iterator[Marking]:
        name, about, parent = "enqueue many", {}, None
        if options is not None:
            name, about = f"enqueue {options.task}", _about(options.queue, options.task)
            parent = None if options.meta is None else _context(place_in(codec.decode(options.meta)))
        attributes = {"messaging.operation.type": "send", "messaging.operation.name": "enqueue", **about}
        with self._tracer.start_as_current_span(name, parent, SpanKind.PRODUCER, attributes) as span:
            yield Marking(span)

    @contextmanager
    def running(self, job: Job) -> Iterator[Callable[[Outcome], None]]:
        attributes = {
            "messaging.operation.type": "process",
            "messaging.operation.name": "run",
            "messaging.message.id": job.id,
            "holdfast.attempt": job.attempt,
            **_about(job.queue, job.task),
        }
        parent = _context(place_in(job.meta))
        with self._tracer.start_as_current_span(f"run {job.task}", parent, SpanKind.CONSUMER, attributes) as span:
            yield lambda outcome: _tell(span, outcome)


class Marking(Entry):
    """An enqueue on its way: its jobs are given their place in the trace."""

    def __init__(self, span: Span) -> None:
        self._span = span
        carrier: dict[str, str] = {}
        _W3C.inject(carrier, trace.set_span_in_context(span))
        self._place = carrier.get(TRACEPARENT)

    def mark(self, options: Options) -> Options:
        if self._place is None:  # nobody records
            return options
        return msgspec.structs.replace(options, meta=placed(options.meta, self._place))

    def accepted(self, ids: Sequence[str]) -> None:
        if len(ids) == 1:
            self._span.set_attribute("messaging.message.id", ids[0])
        else:
            self._span.set_attribute("messaging.batch.message_count", len(ids))


def _about(queue: str, task: str) -> dict[str, Any]:
    return {"messaging.system": "holdfast", "messaging.destination.name": queue, "holdfast.task": task}


def _context(place: str | None) -> Context | None:
    """Where a span belongs that is made far away from its parent; None: where its maker stands."""
    return None if place is None else _W3C.extract({TRACEPARENT: place})


def _tell(span: Span, outcome: Outcome) -> None:
    span.set_attribute("holdfast.outcome", type(outcome).__name__.removeprefix("Was").lower())
    if not isinstance(outcome, Failed):
        return
    error = outcome.error
    told = {"exception.type": error.kind, "exception.message": error.message, "exception.stacktrace": error.traceback}
    span.add_event("exception", told)
    span.set_status(Status(StatusCode.ERROR, error.line))
