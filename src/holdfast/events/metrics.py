"""The metrics for Prometheus: counts of events, and the state of the store at the moment of the request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from holdfast.domain.callback import CALLBACK_QUEUE
from holdfast.domain.event import DROPPED, MOVED, PROGRESSED
from holdfast.domain.flow import Flow
from holdfast.domain.meter import Meter
from holdfast.domain.states import EVENTS, FINAL
from holdfast.events.exposition import Histogram, Labels, Metric, family
from holdfast.store.health import Snapshot
from holdfast.store.op import Row

LANES_MAX: Final = 200
KINDS_MAX: Final = 50
OTHER: Final = "holdfast.other"
"""What comes after so many different ones; no queue, task or event of a user's can be called that."""
BOUNDS: Final = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 3600, 21600)

_LANE: Final = ("queue", "task")
UP: Final = Metric("holdfast_up", "gauge", "1 if the database answered.")
TOLD: Final = Metric("holdfast_events_total", "counter", "Events since this server was first asked.", (*_LANE, "kind"))
FINISHED: Final = Metric("holdfast_jobs_finished_total", "counter", "Jobs that came to an end.", (*_LANE, "state"))
FAILED: Final = Metric("holdfast_attempts_failed_total", "counter", "Attempts that failed or whose worker was lost.", _LANE)
WAITED: Final = Metric("holdfast_job_wait_seconds", "histogram", "How long jobs were ready before they started.", _LANE)
RAN: Final = Metric(
    "holdfast_job_run_seconds", "histogram", "How long the code of attempts ran that came to an end of their own.", _LANE
)
JOBS: Final = Metric("holdfast_jobs", "gauge", "Jobs by state, but for those that succeeded.", (*_LANE, "state"))
OLDEST: Final = Metric("holdfast_oldest_ready_seconds", "gauge", "How long the next job of the queue has been ready.", ("queue",))
MAX_DEPTH: Final = Metric("holdfast_queue_max_depth", "gauge", "How many jobs of a bounded queue may wait.", ("queue",))
PAUSED: Final = Metric("holdfast_queue_paused", "gauge", "1 while a queue that has settings is paused.", ("queue",))
STOPPED: Final = Metric(
    "holdfast_queue_stopped", "gauge", "1 while the breaker of a queue that has settings is open or half-open.", ("queue",)
)
WORKERS: Final = Metric("holdfast_workers", "gauge", "Workers that live.")
SLOTS: Final = Metric("holdfast_worker_slots", "gauge", "How many jobs they can run at once.")
CALLBACKS: Final = Metric("holdfast_callbacks_pending", "gauge", "Callbacks that are still to be delivered.")
METERED: Final = Metric(
    "holdfast_metered_total", "counter", "What jobs metered today; begins again at midnight UTC.", (*_LANE, "name")
)
METRICS: Final = (
    UP,
    TOLD,
    FINISHED,
    FAILED,
    WAITED,
    RAN,
    JOBS,
    OLDEST,
    MAX_DEPTH,
    PAUSED,
    STOPPED,
    WORKERS,
    SLOTS,
    CALLBACKS,
    METERED,
)

_OWN_WORDS: Final = MOVED | {PROGRESSED, DROPPED}
_FAILURES: Final = frozenset(EVENTS[verb] for verb in ("fail", "back_off", "expire"))

MaySee = Callable[[str], bool]
Values = Mapping[Labels, Any]


class Tally:
    """What was counted so far. Its size has a bound, whatever the names of tasks and events."""

    def __init__(self) -> None:
        self._lanes: set[tuple[str, str]] = set()
        self._kinds: set[str] = set()
        self._queues: set[str] = set()
        self._meters: set[str] = set()
        self._told: Counter[Labels] = Counter()
        self._finished: Counter[Labels] = Counter()
        self._failed: Counter[Labels] = Counter()
        self._waited: dict[Labels, Histogram] = {}
        self._ran: dict[Labels, Histogram] = {}

    def add(self, queue: str, task: str, kind: str, number: int, micros: int | None) -> None:
        """So many events of a kind; of a start and of the end of a run, with how long the job waited or ran before it."""
        lane = self.lane(queue, task)
        self._told[(*lane, self._kind(kind))] += number
        if micros is not None:
            _observe(self._waited if kind == EVENTS["claim"] else self._ran, lane, micros / 1e6)
        if kind in _FAILURES:
            self._failed[lane] += number
        if kind in FINAL:
            self._finished[(*lane, kind)] += number

    def lane(self, queue: str, task: str) -> tuple[str, str]:
        return _kept(self._lanes, (queue, task), LANES_MAX) or (OTHER, OTHER)

    def queue(self, name: str) -> str:
        return _kept(self._queues, name, LANES_MAX) or OTHER

    def meter(self, name: str) -> str:
        return _kept(self._meters, name, KINDS_MAX) or OTHER

    def families(self) -> Iterator[tuple[Metric, Values]]:
        yield TOLD, self._told
        yield FINISHED, self._finished
        yield FAILED, self._failed
        yield WAITED, self._waited
        yield RAN, self._ran

    def _kind(self, kind: str) -> str:
        return kind if kind in _OWN_WORDS else _kept(self._kinds, kind, KINDS_MAX) or OTHER


def gauges(
    tally: Tally, depths: Iterable[Row], found: Snapshot, meters: Iterable[Meter], flows: Mapping[str, Flow]
) -> Iterator[tuple[Metric, Values]]:
    """From the store: `depths` are rows of `depths.sql`."""
    jobs: Counter[Labels] = Counter()
    pending = 0
    for queue, task, state, number in depths:
        jobs[(*tally.lane(queue, task), state)] += number
        if queue == CALLBACK_QUEUE and state not in FINAL:
            pending += number
    oldest: dict[Labels, float] = {}
    for head in found.heads:
        queue, _ = tally.lane(head.queue, head.task)
        oldest[queue,] = max(oldest.get((queue,), 0.0), head.waited_seconds)
    yield JOBS, jobs
    yield OLDEST, oldest
    yield from _limits(tally, flows)
    yield WORKERS, {(): len(found.workers)}
    yield SLOTS, {(): sum(worker.slots for worker in found.workers)}
    yield CALLBACKS, {(): pending}
    metered: dict[Labels, float] = {}
    for each in meters:
        labels = (*tally.lane(each.queue, each.task), tally.meter(each.name))
        metered[labels] = metered.get(labels, 0.0) + each.amount
    yield METERED, metered


def _limits(tally: Tally, flows: Mapping[str, Flow]) -> Iterator[tuple[Metric, Values]]:
    named = {(tally.queue(name),): flow for name, flow in flows.items()}
    yield MAX_DEPTH, {labels: most for labels, flow in named.items() if (most := flow.limits.max_depth) is not None}
    yield PAUSED, {labels: float(any(block.kind == "paused" for block in flow.blocks())) for labels, flow in named.items()}
    yield STOPPED, {labels: float(flow.memory.open_until > 0) for labels, flow in named.items()}


def lines(families: Iterable[tuple[Metric, Values]], may_see: MaySee) -> Iterator[str]:
    """All of them, but of queues only those that somebody may see."""
    for metric, values in families:
        hides = metric.labels[:1] == ("queue",)
        yield from family(metric, {labels: value for labels, value in values.items() if not hides or may_see(labels[0])})


def _observe(histograms: dict[Labels, Histogram], lane: Labels, seconds: float) -> None:
    if lane not in histograms:
        histograms[lane] = Histogram(BOUNDS)
    histograms[lane].observe(seconds)


def _kept(known: set[Any], value: Any, most: int) -> Any:
    """The value, if there is room for it among those that are told apart."""
    if value not in known:
        if len(known) >= most:
            return None
        known.add(value)
    return value
