"""What a queue lets start: row by row, and by any sequence of starts, ends, clocks and changes against a simple model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.domain.flow import Block, End, Flow, Memory, Pause
from holdfast.domain.limits import NEVER, Breaker, Limits, Rate

SECOND = 1_000_000
NOW = 1_900_000_000 * SECOND


class Queue:
    """A queue in memory, as the store keeps one: a memory, a clock, and what runs."""

    def __init__(self, limits: Limits) -> None:
        self.limits, self.memory, self.now = limits, Memory(), NOW
        self.running: list[int] = []
        self.ended: list[End] = []
        self.pause: Pause | None = None
        self.seq = 0

    def flow(self) -> Flow:
        flow = Flow(self.limits, self.memory, self.now, len(self.running), self.pause)
        flow.end(self.ended)
        return flow

    def look(self) -> Flow:
        """As a claim does: what it has seen is kept."""
        flow = self.flow()
        self.memory, self.ended = flow.memory, []
        return flow

    def start(self, seq: int | None = None) -> int | None:
        """The number of the job that has started, if one may."""
        self.seq += 1
        seq = self.seq if seq is None else seq
        flow = self.look()
        started = flow.take(seq)
        self.memory = flow.memory
        if started:
            self.running.append(seq)
        return seq if started else None

    def end(self, seq: int | None, kind: str = "succeeded", stops: float = 0.0) -> None:
        assert seq is not None
        self.running.remove(seq)
        self.ended.append(End(seq, kind, self.now, int(stops * SECOND)))

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)

    @property
    def blocks(self) -> list[str]:
        return [block.kind for block in self.flow().blocks()]


# Row by row


def test_a_queue_without_limits_lets_everything_start() -> None:
    queue = Queue(Limits())
    assert all(queue.start() for _ in range(100))
    assert queue.flow().closed_until == 0


@pytest.mark.parametrize(
    ("limits", "pause", "memory", "running", "blocks"),
    [
        (Limits(paused=True), None, Memory(), 0, [Block("paused", NEVER)]),
        (Limits(), Pause(NEVER), Memory(), 0, [Block("paused", NEVER)]),
        (Limits(), Pause(NOW + 5), Memory(), 0, [Block("paused", NOW + 5)]),
        (Limits(), Pause(NOW), Memory(), 0, []),
        (Limits(concurrency=2), None, Memory(), 1, []),
        (Limits(concurrency=2), None, Memory(), 2, [Block("concurrency", NEVER)]),
        (Limits(concurrency=2), None, Memory(), 9, [Block("concurrency", NEVER)]),
        (Limits(gap=10), None, Memory(), 0, []),
        (Limits(gap=10), None, Memory(ended_at=NOW - 1), 0, [Block("gap", NOW - 1 + 10 * SECOND)]),
        (Limits(gap=10), None, Memory(ended_at=NOW - 10 * SECOND), 0, []),
        (Limits(rates=(Rate(1),)), None, Memory(next_at={SECOND: NOW + 1}), 0, [Block("rate", NOW + 1)]),
        (Limits(rates=(Rate(1, burst=2),)), None, Memory(next_at={SECOND: NOW + SECOND}), 0, []),
        (Limits(), None, Memory(open_until=NOW + 1, open_for=1), 0, [Block("breaker", NOW + 1)]),
        (Limits(), None, Memory(open_until=NOW), 0, []),
        (Limits(), None, Memory(open_until=NOW, probe=7), 1, [Block("probe", NEVER)]),
        (
            Limits(concurrency=1, gap=10, paused=True),
            None,
            Memory(ended_at=NOW),
            1,
            [Block("paused", NEVER), Block("concurrency", NEVER), Block("gap", NOW + 10 * SECOND)],
        ),
    ],
)
def test_every_reason_is_listed(limits: Limits, pause: Pause | None, memory: Memory, running: int, blocks: list[Block]) -> None:
    flow = Flow(limits, memory, NOW, running, pause)
    assert flow.blocks() == blocks
    assert flow.closed_until == max((block.until for block in blocks), default=0)
    assert flow.take(1) is not bool(blocks)


def test_a_batch_spends_room_as_it_goes() -> None:
    flow = Flow(Limits(concurrency=3), Memory(), NOW, 1)
    assert [flow.take(seq) for seq in range(5)] == [True, True, False, False, False]
    burst = Flow(Limits(rates=(Rate(1, burst=4),)), Memory(), NOW, 0)
    assert [burst.take(seq) for seq in range(5)] == [True, True, True, True, False]


def test_what_is_refused_spends_nothing() -> None:
    queue = Queue(Limits(concurrency=1, rates=(Rate(1, per=60, burst=3),)))
    first = queue.start()
    for _ in range(1_000):
        assert queue.start() is None
    queue.end(first)
    second = queue.start()
    assert second is not None
    queue.end(second)
    assert queue.start() is not None


def test_a_rate_keeps_its_place_when_another_one_goes() -> None:
    hourly = Rate(1, per=3600)
    queue = Queue(Limits(rates=(Rate(10), hourly)))
    assert queue.start()
    queue.limits = Limits(rates=(hourly,))
    queue.advance(60)
    assert queue.start() is None
    queue.advance(3540)
    assert queue.start()


def test_a_rate_that_is_changed_gives_no_start_away() -> None:
    queue = Queue(Limits(rates=(Rate(1, per=60),)))
    assert queue.start()
    queue.limits = Limits(rates=(Rate(2, per=60),))
    assert queue.start() is None
    queue.advance(30)
    assert queue.start()


@pytest.mark.parametrize("memory", [Memory(next_at={60 * SECOND: NEVER // 2}), Memory(next_at={60 * SECOND: 0}), Memory()])
def test_r3_whatever_a_rate_remembers_it_heals_within_one_interval(memory: Memory) -> None:
    queue = Queue(Limits(rates=(Rate(1, per=60),)))
    queue.memory = memory
    queue.start()
    queue.advance(60)
    assert queue.start()
    assert queue.start() is None


def test_r3_a_gap_and_a_breaker_heal_when_the_clock_was_set_back() -> None:
    queue = Queue(Limits(gap=10, breaker=Breaker(after=1, base=15)))
    queue.end(queue.start(), "failed")
    assert queue.start() is None
    queue.advance(-3600)
    assert queue.start() is None
    queue.advance(14)
    assert queue.blocks == ["breaker"]
    queue.advance(1)
    assert queue.start()


def test_r4_processes_whose_clocks_differ_give_no_start_away() -> None:
    """Each knows the server's clock by a measurement of its own, some milliseconds off."""
    queue, starts = Queue(Limits(rates=(Rate(100, burst=5),))), 0
    for turn in range(2_000):
        skew = 0.004 if turn % 2 else 0.0
        queue.advance(skew)
        starts += queue.start() is not None
        queue.advance(0.001 - skew)
    assert 195 <= starts <= 206


def test_b1_one_job_that_fails_again_and_again_opens_nothing() -> None:
    queue = Queue(Limits(breaker=Breaker(after=2)))
    for _ in range(10):
        queue.end(queue.start(77), "backed_off")
    assert queue.blocks == []
    queue.end(queue.start(78), "failed")
    assert queue.blocks == ["breaker"]


@pytest.mark.parametrize("kind", ["released", "snoozed", "cancelled", "skipped", "suspended"])
def test_an_end_that_says_nothing_of_the_upstream_neither_opens_nor_closes(kind: str) -> None:
    queue = Queue(Limits(breaker=Breaker(after=2, base=15)))
    for ended in (kind, "failed", kind, "failed"):
        queue.end(queue.start(), ended)
    assert queue.blocks == ["breaker"]
    queue.advance(15)
    queue.end(queue.start(), kind)  # the job that was tried came to no verdict: the next one is tried
    probe = queue.start()
    assert queue.blocks == ["probe"]
    queue.end(probe)
    assert queue.blocks == []


def test_b4_the_pause_doubles_up_to_its_cap_and_the_first_success_ends_it() -> None:
    queue = Queue(Limits(concurrency=1, breaker=Breaker(after=2, base=15, cap=50)))
    for _ in range(2):
        queue.end(queue.start(), "failed")
    for pause in (15, 30, 50, 50):
        assert queue.flow().closed_until == queue.now + pause * SECOND
        queue.advance(pause)
        queue.end(queue.start(), "failed")
    queue.advance(50)
    queue.end(queue.start())
    queue.end(queue.start(), "failed")
    assert queue.blocks == []
    queue.end(queue.start(), "failed")
    assert queue.flow().closed_until == queue.now + 15 * SECOND


def test_b2_a_run_that_began_before_the_queue_was_stopped_does_not_open_it() -> None:
    queue = Queue(Limits())
    before, other = queue.start(), queue.start()
    queue.end(other, "snoozed", stops=30)
    queue.advance(1)
    queue.end(before)
    assert queue.blocks == ["breaker"]
    queue.advance(29)
    probe = queue.start()
    assert queue.start() is None
    queue.end(probe)
    assert queue.start()


def test_b2_of_two_stops_the_later_end_counts() -> None:
    queue = Queue(Limits())
    first, second = queue.start(), queue.start()
    queue.end(first, "snoozed", stops=60)
    queue.end(second, "snoozed", stops=5)
    assert queue.flow().closed_until == queue.now + 60 * SECOND


def test_b4_a_job_that_was_tried_and_is_gone_without_a_trace_holds_nothing_up() -> None:
    queue = Queue(Limits(breaker=Breaker(after=1, base=15)))
    queue.end(queue.start(), "failed")
    queue.advance(15)
    probe = queue.start()
    assert queue.blocks == ["probe"]
    queue.running.remove(probe or 0)
    assert queue.blocks == []


def test_a_breaker_that_is_taken_away_stops_nothing_any_more() -> None:
    queue = Queue(Limits(breaker=Breaker(after=1, base=300)))
    queue.end(queue.start(), "failed")
    assert queue.blocks == ["breaker"]
    queue.limits = Limits()
    assert queue.start()
    assert queue.start()


def test_l12_a_limit_that_is_lowered_below_what_runs_lets_nothing_start() -> None:
    queue = Queue(Limits(concurrency=5))
    running = [queue.start() for _ in range(5)]
    queue.limits = Limits(concurrency=2)
    for seq in running[:3]:
        queue.end(seq)
        assert queue.blocks == ["concurrency"]
    queue.end(running[3])
    assert queue.start()
    assert queue.start() is None


# Any sequence

RATES = [Rate(1), Rate(5, per=10, burst=3), Rate(1, per=7, burst=2), Rate(30, per=60)]
BREAKERS = [Breaker(after=1, base=3, cap=10), Breaker(after=3, base=5, cap=5)]
LONGEST_SECONDS = 16
"""No limit here holds a queue up for longer."""
KINDS = ["succeeded", "failed", "backed_off", "expired", "released", "snoozed", "cancelled"]
limits_any = st.builds(
    Limits,
    concurrency=st.sampled_from([None, 1, 2, 5]),
    gap=st.sampled_from([0.0, 0.5, 4.0]),
    rates=st.lists(st.sampled_from(RATES), max_size=2, unique=True).map(tuple),
    breaker=st.sampled_from([None, *BREAKERS]),
)
moves = st.one_of(
    st.tuples(st.just("start"), st.integers(1, 4)),
    st.tuples(st.just("end"), st.integers(0, 9), st.sampled_from(KINDS), st.sampled_from([0.0, 0.0, 0.0, 6.0])),
    st.tuples(st.just("vanish"), st.integers(0, 9)),
    st.tuples(st.just("advance"), st.sampled_from([0.0, 0.1, 0.7, 1.0, 3.0, 20.0])),
    st.tuples(st.just("jump"), st.sampled_from([-3600.0, -5.0, -0.3, 2.0])),
    st.tuples(st.just("change"), limits_any),
)


class Model:
    """What was promised, checked at every start. Its time never goes back: a jump forward counts, one backward does not."""

    def __init__(self, limits: Limits) -> None:
        self.queue, self.at, self.ended_at = Queue(limits), 0.0, float("-inf")
        self.starts: dict[Rate, list[float]] = {rate: [] for rate in limits.rates}
        self.tried: set[int] = set()
        """What has started since the queue was last stopped."""

    def start(self, times: int) -> None:
        for _ in range(times):
            free = not self.queue.flow().blocks()
            stopped = self.queue.flow().memory.open_until > 0
            seq = self.queue.start()
            assert (seq is not None) is free
            if seq is not None:
                self.tried = {each for each in self.tried if each in self.queue.running} if stopped else set()
                self.check(seq, stopped)

    def check(self, seq: int, stopped: bool) -> None:
        limits = self.queue.limits
        assert limits.concurrency is None or len(self.queue.running) <= limits.concurrency
        assert self.at - self.ended_at >= limits.gap - 1e-6
        for rate, starts in self.starts.items():
            starts.append(self.at)
            for count, start in enumerate(reversed(starts), 1):
                assert count <= rate.at_once + (self.at - start) * 1e6 / rate.interval + 1e-6
        assert not (stopped and self.tried), "only one job is tried at a time"
        if stopped:
            self.tried.add(seq)

    def end(self, index: int, kind: str, stops: float) -> None:
        if self.queue.running:
            self.queue.end(self.queue.running[index % len(self.queue.running)], kind, stops if kind == "snoozed" else 0.0)
            self.ended_at = self.at

    def vanish(self, index: int) -> None:
        """Its job was deleted: the store knows that a run has ended, and not how."""
        self.end(index, "", 0.0)

    def advance(self, seconds: float) -> None:
        self.at += seconds
        self.queue.advance(seconds)

    def jump(self, seconds: float) -> None:
        self.at += max(0.0, seconds)
        self.queue.advance(seconds)

    def change(self, limits: Limits) -> None:
        self.queue.limits = limits
        self.starts = {rate: self.starts.get(rate, []) for rate in limits.rates}

    def let_go(self) -> None:
        """Whatever happened: when all has ended, it goes on by itself, at the time that was named."""
        while self.queue.running:
            self.end(0, "released", 0.0)
        until = self.queue.look().closed_until
        assert until - self.queue.now < LONGEST_SECONDS * SECOND
        self.queue.now = max(self.queue.now, until)
        assert self.queue.look().blocks() == []


@settings(max_examples=1500, deadline=None)
@given(limits_any, st.lists(moves, max_size=60))
def test_whatever_happens_no_limit_is_exceeded_and_none_stays_shut(limits: Limits, steps: list[tuple[Any, ...]]) -> None:
    model = Model(limits)
    for name, *values in steps:
        getattr(model, name)(*values)
    model.let_go()
