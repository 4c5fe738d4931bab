"""Why a job waits: each reason is named, and none is named when the next claim takes the job."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from holdfast import Breaker, Explanation, Job, Lease, Rate, State
from holdfast.store import tend, workers
from holdfast.store.op import Moment, Op
from tests.conformance.world import World


def a_worker(store: World, slots: int = 2) -> None:
    """A living worker for all queues, without code."""

    def register(moment: Moment) -> Op[int]:
        return (yield from workers.register(moment, "w1", "host", 1, 10**12, by_hand=False, slots=slots))

    store.app.store.write(register)


def kinds(found: Explanation) -> list[str]:
    return [reason.kind for reason in found.reasons]


def paused(store: World) -> Job:
    store.app.pause("default", reason="deploy", actor="kim")
    return store.add.enqueue(1)


def stopped(store: World) -> Job:
    store.app.queue("default", breaker=Breaker(after=1, base=15))
    store.add.using(attempts=1).enqueue(1)
    store.app.fail(store.claim(), "broken")
    return store.add.enqueue(1)


def probed(store: World) -> Job:
    job = stopped(store)
    store.clock.advance(15)
    store.add.using(priority=1).enqueue(1)
    store.claim()
    return job


def full(store: World) -> Job:
    store.app.queue("default", concurrency=1)
    store.add.enqueue(1)
    store.claim()
    return store.add.enqueue(1)


def gapped(store: World) -> Job:
    store.app.queue("default", gap=10)
    store.add.enqueue(1)
    store.app.finish(store.claim(), 1)
    return store.add.enqueue(1)


def rated(store: World) -> Job:
    store.app.queue("default", rate=Rate(1, per=60))
    store.add.enqueue(1)
    store.claim()
    return store.add.enqueue(1)


def behind(store: World) -> Job:
    store.add.enqueue(1)
    return store.add.enqueue(2)


SCENES: dict[str, tuple[Callable[[World], Job], str, str | None]] = {
    "paused": (paused, r"queue default is paused, by kim since .*: deploy", "resume queue default"),
    "breaker": (stopped, r"queue default is stopped until .* UTC after 1 job failed in a row; then one job is tried", None),
    "probe": (probed, r"one job is being tried: \w+ on \S+ for 0 s", None),
    "concurrency": (
        full,
        r"1 of 1 job that may run at once in queue default run: \w+ on",
        "raise concurrency of queue default to 2",
    ),
    "gap": (gapped, r"queue default waits 10 s after the end of each job, until .* UTC", "lower the gap of queue default"),
    "rate": (
        rated,
        r"queue default has started as many jobs as its rate allows, until .* UTC",
        "raise the rate of queue default",
    ),
    "ahead": (behind, r"1 job of queue default come before it", None),
}


@pytest.mark.parametrize("kind", SCENES)
def test_e1_each_reason_is_named_with_its_numbers_and_its_remedy(store: World, kind: str) -> None:
    a_worker(store)
    scene, text, remedy = SCENES[kind]
    found = store.app.explain(scene(store))
    (reason,) = found.reasons
    assert reason.kind == kind
    assert re.search(text, reason.text), reason.text
    assert (found.remedy, found.runs_next) == (remedy, False)


def test_e3_that_no_worker_takes_the_queue_is_the_first_reason(store: World) -> None:
    store.app.pause("default")
    found = store.app.explain(store.add.enqueue(1))
    assert kinds(found) == ["no_worker", "paused"]
    assert found.remedy == "start a worker for queue default"


def test_all_slots_taken_is_a_reason(store: World) -> None:
    a_worker(store, slots=0)
    assert kinds(store.app.explain(store.add.enqueue(1))) == ["busy"]


def test_e4_all_reasons_are_given_and_their_remedies_start_the_job(store: World) -> None:
    a_worker(store)
    job = full(store)
    store.app.pause("default")
    assert kinds(store.app.explain(job)) == ["paused", "concurrency"]
    store.app.resume("default")
    store.app.change_queue("default", concurrency=2)
    assert store.app.explain(job).runs_next
    assert store.claim().job.id == job.id


def test_a_job_that_is_not_ready_says_so(store: World) -> None:
    later = store.add.using(run_after=60).enqueue(1)
    found = store.app.explain(later)
    assert kinds(found) == ["scheduled"]
    assert found.reasons[0].until == later.run_after
    assert kinds(store.app.explain(store.job_in(State.RUNNING))) == ["running"]
    assert store.app.explain(store.job_in(State.FAILED)).reasons[0].text == "it is failed: Error: broken"
    assert store.app.explain(store.job_in(State.SUCCEEDED)).reasons[0].text == "it has succeeded"


@pytest.mark.parametrize("seed", range(6))
def test_e2_a_job_is_said_to_run_next_exactly_when_the_next_claim_takes_it(store: World, seed: int) -> None:
    chance = random.Random(seed)
    a_worker(store, slots=100)
    store.app.queue("default", concurrency=3, gap=2, rate=Rate(1, per=4, burst=2), breaker=Breaker(after=2, base=5, cap=20))
    running: list[Lease] = []
    agreed = {True: 0, False: 0}
    for _ in range(120):
        match chance.randrange(9):
            case 0 | 1:
                store.add.using(priority=chance.choice([1, 100])).enqueue(1)
            case 2 | 7 | 8:
                store.clock.advance(chance.choice([1, 3, 6]))
                for lease in running:
                    store.app.renew(lease)
            case 3 if running:
                store.app.finish(running.pop(0), 1)
            case 4 if running:
                store.app.fail(running.pop(), "broken")
            case 5:
                store.app.pause("default", 2)
            case _:
                store.app.resume("default")
        store.app.store.write(promoted)
        said = {job.id for job in store.app.jobs(state="ready") if store.app.explain(job).runs_next}
        taken = store.app.claim()
        assert said == ({taken.job.id} if taken is not None else set())
        agreed[taken is not None] += 1
        if taken is not None:
            running.append(taken)
    assert min(agreed.values()) > 5


def promoted(moment: Moment) -> Op[None]:
    yield from tend.promote(moment)
