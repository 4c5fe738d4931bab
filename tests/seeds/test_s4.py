"""S4, LLM analysis behind a web page: a bounded queue, one job at a time, a pace, and a pause after failures in a row."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from itertools import pairwise
from typing import Any

import pytest

from holdfast import Breaker, Fatal, Holdfast, QueueFull, Retry
from holdfast.testing import ManualClock, run_to_empty
from tests.seeds.elsewhere import run_there

ANALYSE = """
@app.task(name="analyse", queue="llm")
async def analyse(document: str, options: dict) -> str:
    return f"{document}: {options['model']}"
"""


@pytest.fixture
def app(holdfast_app: Holdfast) -> Holdfast:
    @holdfast_app.task(name="analyse", queue="llm")
    async def analyse(document: str, options: dict[str, Any]) -> str:
        return f"{document}: {options['model']}"

    return holdfast_app


# Does


def test_jobs_run_in_the_order_in_which_they_came(app: Holdfast) -> None:
    ran: list[int] = []

    @app.task(name="note")
    async def note(number: int) -> None:
        ran.append(number)

    async def enqueue() -> None:
        for number in range(30):
            await note.aenqueue(number)

    asyncio.run(enqueue())
    run_to_empty(app, concurrency=1)
    assert ran == list(range(30))


def test_one_worker_runs_one_job_at_a_time(app: Holdfast) -> None:
    running = most = 0

    @app.task(name="call")
    async def call() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    app.enqueue_many(call.bind() for _ in range(30))
    run_to_empty(app, concurrency=1)
    assert most == 1


def test_it_starts_with_the_web_application_in_its_own_event_loop(holdfast_url: str) -> None:
    async def lifespan() -> str:
        with Holdfast(holdfast_url) as app:
            loops: list[asyncio.AbstractEventLoop] = []

            @app.task(name="analyse")
            async def analyse(document: str) -> str:
                loops.append(asyncio.get_running_loop())
                return document.upper()

            worker = app.worker(concurrency=1)
            working = asyncio.create_task(worker.arun())
            job = await analyse.aenqueue("a.pdf")
            done = await app.await_job(job.id, timeout=30)
            worker.stop()
            await working
            assert loops == [asyncio.get_running_loop()]
            return str(done.result)

    assert asyncio.run(lifespan()) == "A.PDF"


def test_starting_twice_is_harmless(holdfast_url: str) -> None:
    async def main() -> list[int]:
        with Holdfast(holdfast_url) as app:
            ran: list[int] = []

            @app.task(name="note")
            async def note(number: int) -> None:
                ran.append(number)

            app.enqueue_many(note.bind(number) for number in range(100))
            await asyncio.gather(*(app.worker(concurrency=5).arun_until_empty() for _ in range(2)))
            return ran

    assert sorted(asyncio.run(main())) == list(range(100))


def test_processed_and_failed_are_counted_in_the_store(app: Holdfast, holdfast_url: str) -> None:
    @app.task(name="call", retry=Retry(1))
    async def call(works: bool) -> None:
        if not works:
            raise OSError("throttled")

    app.enqueue_many(call.bind(works) for works in (True, True, False))
    run_to_empty(app)
    assert app.stats() == {"call": {"succeeded": 2, "failed": 1}}
    assert run_there(holdfast_url, "answer(app.stats())") == [{"call": {"succeeded": 2, "failed": 1}}]


def declare(app: Holdfast) -> Holdfast:
    """The whole of its settings."""
    app.queue("llm", max_depth=50, concurrency=1, gap=10, breaker=Breaker(after=2, base=15, cap=300))
    return app


def starts(app: Holdfast, clock: ManualClock, works: bool = True, seconds: int = 400) -> list[int]:
    """Every second a look, a run of no time; after how many seconds jobs have started."""
    found = []
    for second in range(seconds):
        if (lease := app.claim(seconds=600)) is not None:
            found.append(second)
            app.finish(lease, "ok") if works else app.fail(lease, Fatal("throttled"))
        clock.advance(1)
    return found


def test_a_bounded_queue_of_50_is_full_with_the_seconds_to_wait(app: Holdfast) -> None:
    analyse = declare(app).task_named("analyse")
    for number in range(50):
        analyse.enqueue(f"{number}.pdf", {"model": "big"})
    with pytest.raises(QueueFull, match="queue llm is full: 50 of 50 jobs wait") as full:
        analyse.enqueue("51.pdf", {"model": "big"})
    assert full.value.retry_after >= 1
    assert app.claim() is not None
    assert analyse.enqueue("51.pdf", {"model": "big"}).created


def test_one_at_a_time_and_ten_seconds_from_an_end_to_the_next_start(app: Holdfast, holdfast_clock: ManualClock) -> None:
    analyse = declare(app).task_named("analyse")
    app.enqueue_many(analyse.bind(f"{number}.pdf", {"model": "big"}) for number in range(5))
    lease = app.claim(seconds=600)
    assert lease is not None
    holdfast_clock.advance(120)
    assert app.claim() is None
    app.finish(lease, "ok")
    assert starts(app, holdfast_clock) == [10, 20, 30, 40]


def test_it_does_not_pause_when_nothing_is_queued(app: Holdfast, holdfast_clock: ManualClock) -> None:
    analyse = declare(app).task_named("analyse")
    for _ in range(3):
        analyse.enqueue("a.pdf", {"model": "big"})
        assert starts(app, holdfast_clock, seconds=11) == [0]


def test_after_two_failures_in_a_row_it_backs_off_from_15_seconds_to_5_minutes_until_the_first_success(
    app: Holdfast, holdfast_clock: ManualClock
) -> None:
    analyse = declare(app).task_named("analyse")
    app.enqueue_many(analyse.bind(f"{number}.pdf", {"model": "big"}) for number in range(20))
    failing = starts(app, holdfast_clock, works=False, seconds=1076)
    assert [after - before for before, after in pairwise(failing)] == [10, 15, 30, 60, 120, 240, 300, 300]
    holdfast_clock.advance(300)
    assert starts(app, holdfast_clock, seconds=35) == [0, 10, 20, 30]


def test_the_pace_holds_over_several_processes(app: Holdfast, holdfast_url: str, holdfast_clock: ManualClock) -> None:
    analyse = declare(app).task_named("analyse")
    app.enqueue_many(analyse.bind(f"{number}.pdf", {"model": "big"}) for number in range(8))
    with ExitStack() as stack:
        apps = [declare(stack.enter_context(Holdfast(holdfast_url, clock=holdfast_clock))) for _ in range(4)]
        found: list[int] = []
        for second in range(60):
            for each in apps:
                if (lease := each.claim(seconds=600)) is not None:
                    found.append(second)
                    each.finish(lease, "ok")
            holdfast_clock.advance(1)
    assert found == [0, 10, 20, 30, 40, 50]


def test_its_status(app: Holdfast, holdfast_clock: ManualClock) -> None:
    analyse = declare(app).task_named("analyse")
    app.enqueue_many(analyse.bind(f"{number}.pdf", {"model": "big"}) for number in range(7))
    starts(app, holdfast_clock, seconds=15)
    (llm,) = [queue for queue in app.queues() if queue.name == "llm"]
    assert (llm.depth, llm.max_depth, llm.running) == (5, 50, 0)


def test_the_pace_and_the_backoff_survive_a_restart(app: Holdfast, holdfast_url: str, holdfast_clock: ManualClock) -> None:
    analyse = declare(app).task_named("analyse")
    app.enqueue_many(analyse.bind(f"{number}.pdf", {"model": "big"}) for number in range(9))
    assert starts(app, holdfast_clock, works=False, seconds=12) == [0, 10]
    app.close()
    with Holdfast(holdfast_url, clock=holdfast_clock) as again:
        declare(again)
        assert starts(again, holdfast_clock, seconds=25) == [13, 23]


# Gets wrong


def test_a_restart_loses_no_queued_job_and_none_of_its_arguments(holdfast_url: str) -> None:
    enqueued = run_there(holdfast_url, ANALYSE + "answer([analyse.enqueue(f'{n}.pdf', {'model': 'big'}).id for n in range(20)])")
    ran = run_there(holdfast_url, ANALYSE + "app.worker(concurrency=1).run_until_empty(); answer([app.get(id).result for id in "
                    + repr(enqueued[0]) + "])")  # fmt: skip
    assert ran == [[f"{number}.pdf: big" for number in range(20)]]


def test_a_worker_that_dies_in_the_middle_loses_nothing_and_nobody_has_to_submit_again(holdfast_url: str) -> None:
    script = (
        ANALYSE
        + """
ids = [analyse.enqueue(f"{n}.pdf", {"model": "big"}).id for n in range(3)]
app.claim(seconds=0.001)
answer(ids)
os._exit(9)
"""
    )
    (ids,) = run_there(holdfast_url, script, exit_code=9)
    ran = run_there(holdfast_url, ANALYSE + "app.worker().run_until_empty(); answer(app.stats())")
    assert len(ids) == 3
    assert ran == [{"analyse": {"succeeded": 3}}]


def test_an_idle_worker_takes_a_job_at_once(holdfast_url: str) -> None:
    """Nothing was queued, so there is nothing to pause for."""
    with Holdfast(holdfast_url) as app:

        @app.task(name="analyse")
        def analyse(document: str) -> str:
            return document

        worker = app.worker(concurrency=1)
        thread = threading.Thread(target=worker.run)
        thread.start()
        app.wait(analyse.enqueue("warm.pdf").id, timeout=30)
        done = app.wait(analyse.enqueue("a.pdf").id, timeout=30)
        worker.stop()
        thread.join(30)
        assert done.started_at is not None
        assert (done.started_at - done.created_at).total_seconds() < 1


def test_what_was_done_is_still_known_after_a_restart(app: Holdfast, holdfast_clock: ManualClock) -> None:
    for number in range(3):
        app.task_named("analyse").enqueue(f"{number}.pdf", {"model": "big"})
    run_to_empty(app)
    app.close()
    assert app.stats() == {"analyse": {"succeeded": 3}}
    for job in app.jobs():
        assert job.started_at is not None
        assert job.finished_at is not None
