"""What jobs metered can be read again: by day, queue, task and name."""

from __future__ import annotations

import asyncio
from datetime import date

import pytest

from holdfast import Context, Meter, SettingError
from tests.conformance.world import World

FIRST, SECOND = date(2030, 1, 1), date(2030, 1, 2)


@pytest.fixture
def spent(store: World) -> World:
    @store.app.task(name="answer", queue="llm")
    def answer(ctx: Context, tokens: int) -> None:
        ctx.meter(tokens=tokens, usd=0.0001)

    for tokens in (10, 20):
        answer.enqueue(tokens)
    answer.using(queue="other").enqueue(5)
    store.app.worker().run_until_empty()
    store.clock.advance(86_400)
    answer.enqueue(7)
    store.app.worker().run_until_empty()
    return store


def test_f16_meters_are_sums_by_day_queue_task_and_name(spent: World) -> None:
    found = spent.app.meters()
    assert [(each.day, each.queue, each.task, each.name) for each in found] == [
        (FIRST, "llm", "answer", "tokens"),
        (FIRST, "llm", "answer", "usd"),
        (FIRST, "other", "answer", "tokens"),
        (FIRST, "other", "answer", "usd"),
        (SECOND, "llm", "answer", "tokens"),
        (SECOND, "llm", "answer", "usd"),
    ]
    assert [each.amount for each in found if each.name == "tokens"] == [30.0, 5.0, 7.0]
    assert found[1].amount == pytest.approx(0.0002)
    assert asyncio.run(spent.app.ameters()) == found


def test_f16_they_are_chosen_by_day_queue_task_and_name(spent: World) -> None:
    assert spent.app.meters(since=SECOND, name="tokens") == [Meter(SECOND, "llm", "answer", "tokens", 7.0)]
    assert spent.app.meters(until=FIRST, queue="other", name="tokens") == [Meter(FIRST, "other", "answer", "tokens", 5.0)]
    assert spent.app.meters(task="nothing") == []
    spent.clock.advance(29 * 86_400)
    assert {each.day for each in spent.app.meters()} == {SECOND}, "thirty days"
    with pytest.raises(SettingError, match=r"since='2030-01-01' is not a day"):
        spent.app.meters(since="2030-01-01")  # type: ignore[arg-type]
