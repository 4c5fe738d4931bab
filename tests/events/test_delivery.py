"""A message on its way: signed, tried again, refused, given up; and what is known of it afterwards."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Annotated, Any

import pytest

from holdfast import Context, Holdfast, Job, Retry, SettingError, State
from holdfast.domain.bounds import CALLBACK_BODY_BYTES_MAX
from holdfast.domain.callback import CALLBACK_QUEUE, CallbackRefused
from holdfast.domain.delivery import Delivery
from holdfast.domain.secret import Secret
from holdfast.events.webhook import endpoints
from holdfast.events.webhook.resolve import Unresolved, within
from holdfast.events.webhook.send import Limits
from holdfast.testing import run_to_empty
from tests.conformance.world import World
from tests.events.conftest import URL, telling
from tests.events.receiver import OTHER_SECRET, SECRET, Received, Receiver


def ended(world: World, url: str, **options: Any) -> Job:
    return world.app.cancel(world.add.using(callback=url, **options).enqueue(1), "no longer wanted")


def deliver(world: World, seconds: float = 0.0) -> None:
    """All that is due within so many seconds, without waiting for them."""
    run_to_empty(world.app, world.clock, until=seconds)


def the_delivery(world: World, job: Job) -> Delivery:
    (delivery,) = world.app.deliveries(job)
    return delivery


# The way of a message


def test_a_job_that_ended_is_told_signed_and_delivered(store: World, receiver: Receiver) -> None:
    job = store.add.using(callback=receiver.url, key=("client-7", "req-1"), tags=["eu"], meta={"who": "Žofie"}).enqueue(1)
    assert (store.get(job).callback, store.get(job).callback_status) == (receiver.url, "pending")
    deliver(store)
    assert (store.state(job), store.get(job).callback_status) == (State.SUCCEEDED, "delivered")
    (received,) = receiver.wait()
    finished_at = store.get(job).finished_at
    assert finished_at is not None
    assert received.verified() == {
        "type": "job.succeeded",
        "timestamp": finished_at.isoformat(),
        "data": {
            "id": job.id,
            "handle": job.handle,
            "task": "add",
            "queue": "default",
            "state": "succeeded",
            "attempt": 1,
            "created_at": job.created_at.isoformat(),
            "finished_at": finished_at.isoformat(),
            "key": ["client-7", "req-1"],
            "tags": ["eu"],
            "meta": {"who": "Žofie"},
            "result": 2,
        },
    }
    assert received.headers["content-type"] == "application/json"
    delivery = the_delivery(store, job)
    assert (delivery.message, delivery.url, delivery.status, delivery.type) == (
        received.id, receiver.url, "delivered", "job.succeeded",
    )  # fmt: skip
    assert [(each.attempt, each.status, each.error) for each in delivery.tries] == [(1, 204, None)]
    assert telling(store)[0].result["status"] == 204


def test_a_receiver_that_was_down_hears_of_it_later_under_the_same_id(store: World, receiver: Receiver) -> None:
    receiver.answers = [500, 404, 200]
    job = ended(store, receiver.url)
    deliver(store, 5)
    assert store.get(job).callback_status == "pending"
    assert the_delivery(store, job).next_at is not None
    deliver(store, 60)
    assert store.get(job).callback_status == "delivered"
    received = receiver.wait(3)
    assert len({each.id for each in received}) == 1
    assert len({each.body for each in received}) == 1
    for each in received:
        each.verified()
    delivery = the_delivery(store, job)
    assert [(each.attempt, each.status) for each in delivery.tries] == [(1, 500), (2, 404), (3, 200)]
    assert [each.error and each.error.partition(" ")[2] for each in delivery.tries] == ["answered 500", "answered 404", None]
    assert (delivery.next_at, delivery.finished_at is None) == (None, False)


def test_the_delays_are_those_of_the_schedule(world: World, receiver: Receiver) -> None:
    receiver.answers = [500]
    ended(world, receiver.url)
    for delay in (10, 20):
        deliver(world)
        (told,) = telling(world)
        assert told.run_after is not None
        wait = (told.run_after.timestamp() * 1e6 - world.clock.now()) / 1e6
        assert delay * 0.89 < wait < delay * 1.11
        world.clock.advance(wait)
    deliver(world)
    assert telling(world)[0].state is State.FAILED


def test_the_usual_schedule_goes_on_for_three_days(world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_WEBHOOK_DELAYS")
    receiver.answers = [500]
    job, began = ended(world, receiver.url), world.clock.now()
    deliver(world, 90 * 3600)
    assert len(receiver.received) == 10
    (told,) = telling(world)
    assert (told.attempt, told.attempts_max, told.state) == (10, 10, State.FAILED)
    assert told.finished_at is not None
    assert 68 * 3600 < told.finished_at.timestamp() - began / 1e6 < 84 * 3600
    assert world.get(job).callback_status == "failed"


def test_a_message_that_nobody_takes_fails_and_the_job_does_not(store: World, receiver: Receiver) -> None:
    receiver.answers = [500]
    job = store.add.using(callback=receiver.url).enqueue(1)
    deliver(store, 600)
    assert (store.state(job), store.get(job).callback_status) == (State.SUCCEEDED, "failed")
    assert len(receiver.received) == 3
    (told,) = telling(store)
    assert told.error is not None
    assert told.error.endswith("answered 500; that was the last of 3 tries")
    receiver.answers = [200]
    again = store.app.redeliver(job)
    deliver(store)
    assert store.get(job).callback_status == "delivered"
    assert store.state(again) is State.SUCCEEDED
    assert len({each.id for each in receiver.received}) == 1


def test_who_is_gone_is_not_asked_again(world: World, receiver: Receiver) -> None:
    receiver.answers = [410]
    job = ended(world, receiver.url)
    deliver(world, 600)
    assert len(receiver.received) == 1
    assert world.get(job).callback_status == "failed"
    assert "gone for good" in (telling(world)[0].error or "")


@pytest.mark.parametrize("status", [100, 199, 300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 409, 422, 500, 501])
def test_only_two_hundred_and_something_is_a_success(world: World, receiver: Receiver, status: int) -> None:
    with Receiver() as elsewhere:
        receiver.answers = [(status, {"location": elsewhere.url})]
        world.app.courier.limits = Limits(total_seconds=0.5)
        job = ended(world, receiver.url)
        deliver(world)
        assert (world.get(job).callback_status, len(receiver.received)) == ("pending", 1)
        assert elsewhere.received == []
        assert the_delivery(world, job).next_at is not None


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_all_of_two_hundred_is(world: World, receiver: Receiver, status: int) -> None:
    receiver.answers = [status]
    job = ended(world, receiver.url)
    deliver(world)
    assert world.get(job).callback_status == "delivered"


def http_date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("status", "header", "low", "high"),
    [
        (503, "120", 120, 120),
        (429, "120", 120, 120),
        (502, "120", 120, 120),
        (504, 300, 250, 300),
        (503, "3", 9, 11),  # not sooner than the schedule says
        (503, "99999999", 86_400, 86_400),
        (503, "soon", 9, 11),
        (503, "-5", 9, 11),
        (503, -300, 9, 11),
        (503, "Mon, 99 Foo 9999 99:99:99 GMT", 9, 11),
        (500, "120", 9, 11),  # only those who are busy are asked when they will not be
    ],
)
def test_who_is_busy_says_when_to_come_back(
    world: World, receiver: Receiver, status: int, header: str | int, low: float, high: float
) -> None:
    """A number stands for the date so many seconds from when the test runs, not from when it was collected."""
    said = header if isinstance(header, str) else http_date(header)
    receiver.answers = [(status, {"retry-after": said})]
    job = ended(world, receiver.url)
    deliver(world)
    next_at = the_delivery(world, job).next_at
    assert next_at is not None
    assert low <= next_at.timestamp() - world.clock.now() / 1e6 <= high


def test_a_job_that_is_deleted_meanwhile_is_told_of_all_the_same(store: World, receiver: Receiver) -> None:
    job = ended(store, receiver.url)
    store.app.delete(job)
    deliver(store)
    (received,) = receiver.wait()
    assert received.verified()["data"]["id"] == job.id


# What is told


def test_the_end_that_was_and_why(world: World, receiver: Receiver) -> None:
    ended(world, receiver.url)
    deliver(world)
    content = receiver.wait()[0].verified()
    assert (content["type"], content["data"]["error"]) == ("job.cancelled", "no longer wanted")
    assert "result" not in content["data"]


def test_secrets_are_not_told(world: World, receiver: Receiver) -> None:
    @world.app.task(name="careful", retry=Retry(1))
    def careful(pin: Annotated[str, Secret()], fails: bool) -> Annotated[dict[str, Any], Secret()]:
        if fails:
            raise ValueError(f"cannot log in with {pin!r}")
        return {"session": "canary-result"}

    @world.app.task(name="named")
    def named(password: str) -> dict[str, Any]:
        return {"password": password, "ok": True}

    url = receiver.url
    careful.using(callback=url).enqueue("canary-argument", True)
    careful.using(callback=url).enqueue("canary-argument", False)
    named.using(callback=url, meta={"api_key": "canary-meta", "who": "me"}).enqueue("canary-password")
    deliver(world)
    told = [each.verified()["data"] for each in receiver.wait(3)]
    failed, succeeded, other = sorted(told, key=lambda data: (data["task"], data["state"]))
    assert not any(b"canary" in each.body for each in receiver.received)
    assert failed["error"] == "ValueError: cannot log in with '[redacted]'"
    assert succeeded["result"] == "[redacted]"
    assert other["result"] == {"password": "[redacted]", "ok": True}
    assert other["meta"] == {"api_key": "[redacted]", "who": "me"}


@pytest.mark.parametrize(("chars", "told"), [(1_000, True), (15_000, True), (19_000, False), (500_000, False)])
def test_a_message_is_small(world: World, receiver: Receiver, chars: int, told: bool) -> None:
    @world.app.task(name="long")
    def long(chars: int) -> str:
        return "x" * chars

    tags = [f"{n}-" + "t" * 120 for n in range(30)]
    job = long.using(callback=receiver.url, id="i" * 200, meta={"m": "m" * 60_000}, tags=tags).enqueue(chars)
    deliver(world)
    assert world.get(job).callback_status == "delivered"
    (received,) = receiver.wait()
    data = received.verified()["data"]
    assert len(received.body) < CALLBACK_BODY_BYTES_MAX
    assert ("result" in data) == told
    assert data["left_out"] == (["meta"] if told else ["meta", "result"])


# Secrets


def test_a_worker_without_a_secret_says_so_and_sends_nothing(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_WEBHOOK_SECRET")
    job = ended(world, receiver.url)
    deliver(world)
    assert receiver.received == []
    assert "$HOLDFAST_WEBHOOK_SECRET is not set where this worker runs" in (the_delivery(world, job).tries[0].error or "")
    monkeypatch.setenv("HOLDFAST_WEBHOOK_SECRET", SECRET)
    deliver(world, 60)
    assert world.get(job).callback_status == "delivered"


def test_f31_the_secret_may_be_given_in_code_and_goes_before_the_environment(receiver: Receiver, tmp_path: Path) -> None:
    with Holdfast(f"sqlite:///{tmp_path / 'jobs.db'}", webhook_secret=OTHER_SECRET) as app:

        @app.task(name="nothing")
        def nothing() -> None: ...

        job = nothing.using(callback=receiver.url).enqueue()
        app.worker().run_until_empty()
        (received,) = receiver.wait()
        received.verified(OTHER_SECRET)
        done = app.get(job)
        assert done is not None
        assert done.callback_status == "delivered"
        assert OTHER_SECRET not in repr(vars(app))


def test_f31_a_wrong_secret_in_code_is_refused_at_once_and_not_shown() -> None:
    with pytest.raises(SettingError, match="webhook_secret: secret 1 does not begin with whsec_") as caught:
        Holdfast("sqlite:///jobs.db", webhook_secret="hunter2-hunter2")
    assert "hunter2" not in str(caught.value)


def test_two_secrets_while_one_is_replaced(world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_WEBHOOK_SECRET", f"{OTHER_SECRET} {SECRET}")
    ended(world, receiver.url)
    deliver(world)
    (received,) = receiver.wait()
    assert received.verified(SECRET) == received.verified(OTHER_SECRET)


def test_a_mistake_in_the_settings_is_told_and_can_be_put_right(
    world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ended(world, receiver.url)
    monkeypatch.setenv("HOLDFAST_WEBHOOK_DELAYS", "10,soon")
    deliver(world)
    (each,) = the_delivery(world, job).tries
    assert each.error == (
        "$HOLDFAST_WEBHOOK_DELAYS='10,soon' is no list of at most 99 numbers of seconds; "
        "use for example HOLDFAST_WEBHOOK_DELAYS=5,300,1800"
    )
    monkeypatch.setenv("HOLDFAST_WEBHOOK_DELAYS", "10,20")
    deliver(world, 60)
    assert world.get(job).callback_status == "delivered"


def test_what_the_receiver_said_is_in_the_log_and_not_in_the_store(
    world: World, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [(400, {}, b"\x1b[31mcanary\r\n of a network that is not theirs")]
    job = ended(world, receiver.url)
    with caplog.at_level(logging.INFO, "holdfast.webhook"):
        deliver(world)
    assert "answered 400: [31mcanary of a network" in caplog.text
    assert "canary" not in json.dumps([str(row) for rows in world.everything() for row in rows])
    assert the_delivery(world, job).tries[0].status == 400


# Whom one may call


def test_a_url_that_may_not_be_called_is_refused_when_it_is_asked_for(store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_WEBHOOK_ALLOW")
    bad = store.add.using(callback="https://169.254.169.254/latest/")
    with pytest.raises(CallbackRefused, match="link-local"):
        bad.enqueue(1)
    with pytest.raises(CallbackRefused, match="link-local"):
        asyncio.run(bad.aenqueue(1))
    with pytest.raises(CallbackRefused, match="link-local"):
        store.app.enqueue_many([bad.bind(1)])
    with pytest.raises(CallbackRefused, match="link-local"):
        asyncio.run(store.app.aenqueue_many([bad.bind(1)]))
    with pytest.raises(SettingError, match="user or a password"):
        store.add.using(callback="https://me@example.com/")
    assert store.app.jobs() == []


def test_a_name_without_an_address_is_accepted_and_judged_later(world: World, receiver: Receiver) -> None:
    def nobody_knows(host: str, port: int) -> Sequence[str]:
        raise Unresolved(f"host {host} has no address: try again")

    world.app.courier.resolve = nobody_knows
    job = ended(world, f"http://hooks.example.com:{receiver.port}/")
    deliver(world)
    assert the_delivery(world, job).tries[0].error == "host hooks.example.com has no address: try again"
    world.app.courier.resolve = lambda *_: ["127.0.0.1"]
    deliver(world, 60)
    assert world.get(job).callback_status == "delivered"


def test_a_name_that_leads_elsewhere_when_it_is_called(world: World, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebinding: public when it was asked for, our own machine when it is delivered; and once more public, then private."""
    monkeypatch.delenv("HOLDFAST_WEBHOOK_ALLOW")
    answers = iter([["93.184.215.14"], ["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["::ffff:127.0.0.1"]])
    world.app.courier.resolve = lambda *_: next(answers)
    with receiver:
        job = ended(world, "https://rebind.example.com:8443/")
        deliver(world, 600)
    assert receiver.received == []
    assert world.get(job).callback_status == "failed"
    tries = the_delivery(world, job).tries
    assert len(tries) == 3
    assert all("leads to an address that is" in (each.error or "") for each in tries)


def test_a_url_that_was_found_good_is_not_looked_up_for_every_job(world: World) -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    world.app.courier.resolve = resolve
    for n in range(3):
        world.add.using(callback="http://hooks.example.com/").enqueue(n)
    world.app.enqueue_many(world.add.using(callback="http://hooks.example.com/").bind(n) for n in range(3))
    assert asked == ["hooks.example.com"]


def test_a_slow_name_server_does_not_block_the_event_loop(world: World) -> None:
    """The loop goes on while it waits; the name server answers only when the loop has moved."""
    moved = threading.Event()

    def resolve(host: str, port: int) -> Sequence[str]:
        assert moved.wait(10), "the loop stood still"
        return ["127.0.0.1"]

    async def enqueue() -> Job:
        world.app.courier.resolve = resolve
        asking = asyncio.create_task(world.add.using(callback="http://hooks.example.com/").aenqueue(1))
        await asyncio.sleep(0)
        moved.set()
        return await asking

    assert asyncio.run(enqueue()).callback_status == "pending"


def test_a_name_server_that_does_not_answer_is_left() -> None:
    stop = threading.Event()
    began = time.monotonic()
    with pytest.raises(Unresolved, match=r"nobody said within 0\.1 s which address hooks\.example\.com has"):
        within(0.1, lambda *_: [str(stop.wait(10))])("hooks.example.com", 443)
    assert time.monotonic() - began < 5
    stop.set()


# Who delivers


def test_a_worker_for_some_queues_delivers_too(store: World, receiver: Receiver) -> None:
    job = ended(store, receiver.url)
    store.app.worker(queues=["other"]).run_until_empty()
    assert store.get(job).callback_status == "delivered"


def test_a_worker_can_be_told_not_to(store: World, receiver: Receiver) -> None:
    job = ended(store, receiver.url)
    for queues in (None, ["default"]):
        store.app.worker(queues=queues, callbacks=False).run_until_empty()
    assert (store.get(job).callback_status, receiver.received) == ("pending", [])
    store.app.worker(queues=["holdfast.callbacks"]).run_until_empty()
    assert store.get(job).callback_status == "delivered"


def test_a_slow_receiver_does_not_block_the_event_loop(world: World, receiver: Receiver) -> None:
    """The receiver answers only when a coroutine of the same worker has run meanwhile."""
    ran = threading.Event()

    @world.app.task(name="quick")
    async def quick() -> None:
        ran.set()

    def answer(_: Received) -> int:
        quick.enqueue()
        return 200 if ran.wait(10) else 500

    receiver.answers = [answer]
    job = ended(world, receiver.url)
    asyncio.run(world.app.worker().arun_until_empty())
    assert world.get(job).callback_status == "delivered"


def test_only_some_at_a_time_call_one_endpoint(world: World, receiver: Receiver) -> None:
    """Twenty messages, ten slots: never more than four at one receiver, and all of them arrive."""
    lock, now, most = threading.Lock(), 0, 0
    turned_away = threading.Event()

    def answer(_: Received) -> int:
        """Nobody is let go before others were turned away, or were not."""
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        while not turned_away.is_set() and most <= endpoints.AT_A_TIME:
            if len(world.app.jobs(queue=CALLBACK_QUEUE, state="scheduled")) >= 3:
                turned_away.set()
            turned_away.wait(0.02)
        with lock:
            now -= 1
        return 200

    receiver.answers = [answer]
    world.app.enqueue_many(world.add.using(callback=receiver.url).bind(n) for n in range(20))
    deliver(world, 3600)
    assert len(receiver.received) == 20
    assert turned_away.is_set()
    assert most <= endpoints.AT_A_TIME
    tries = [job.attempt for job in telling(world)]
    assert tries == [1] * 20, "to wait for a turn costs no attempt"


def test_an_endpoint_that_does_not_answer_is_left_alone(world: World) -> None:
    """Five calls find nobody; the others are not even made, but for the last try of each."""
    world.app.enqueue_many(world.add.using(callback=URL).bind(n) for n in range(12))
    run_to_empty(world.app, world.clock, until=600, concurrency=1)
    errors = [[each.error or "" for each in world.app.deliveries(job)[0].tries] for job in world.app.jobs(task="add")]
    assert all(len(each) == 3 for each in errors)
    assert sum("Connection refused" in each[0] for each in errors) == 5
    assert sum("left alone" in each[0] for each in errors) == 7
    assert all("Connection refused" in each[2] for each in errors)


# The endpoints by themselves


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_each_who_waits_gets_a_turn_of_its_own() -> None:
    crowd = endpoints.Endpoints(Clock())
    assert [crowd.enter("a") for _ in range(4)] == [0.0] * 4
    waits = [crowd.enter("a") for _ in range(100)]
    assert waits == sorted(waits)
    assert len(set(waits)) == 100
    assert crowd.enter("b") == 0.0
    crowd.leave("a", 1.0, answered=True)
    assert crowd.enter("a") == 0.0


def test_out_of_order_and_in_order_again() -> None:
    clock = Clock()
    calls = endpoints.Endpoints(clock)
    for _ in range(endpoints.FAILURES_MAX):
        assert calls.enter("a") == 0.0
        calls.leave("a", 1.0, answered=False)
    with pytest.raises(endpoints.Resting):
        calls.enter("a")
    assert calls.enter("a", urgent=True) == 0.0
    calls.leave("a", 1.0, answered=False)
    clock.now += endpoints.REST_SECONDS + 1
    assert calls.enter("a") == 0.0
    with pytest.raises(endpoints.Resting):  # one finds out for all
        calls.enter("a")
    calls.leave("a", 1.0, answered=True)
    assert calls.enter("a") == 0.0


def test_it_does_not_remember_all_that_it_ever_called() -> None:
    calls = endpoints.Endpoints(Clock())
    assert calls.enter("busy") == 0.0
    for n in range(3_000):
        assert calls.enter(f"endpoint-{n}") == 0.0
        calls.leave(f"endpoint-{n}", 1.0, answered=True)
    assert len(calls._known) <= 1_001
    assert calls._known["busy"].active == 1


def test_what_a_delivery_says_of_itself(world: World, receiver: Receiver) -> None:
    """The log of the job that delivers, as anybody can follow it."""

    @world.app.task(name="hello")
    def hello(ctx: Context) -> None:
        return None

    job = hello.using(callback=receiver.url).enqueue()
    deliver(world)
    (told,) = telling(world, job)
    events = list(world.app.events(told.id))
    assert [event.kind for event in events] == ["enqueued", "started", "attempted", "succeeded"]
    assert events[2].data == {"attempt": 1, "status": 204, "error": None, "seconds": events[2].data["seconds"]}
