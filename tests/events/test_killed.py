"""The sender dies with the message delivered and nothing written down: it is sent again, by another, under the same id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import State
from tests.conformance.world import World
from tests.events.conftest import telling
from tests.events.receiver import Received, Receiver

ROOT = Path(__file__).parents[2]
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(store: World) -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []
    store.app.migrate()

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "HOLDFAST_URL": store.url, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        command = [sys.executable, "-m", "tests.events.program", *arguments]
        started.append(subprocess.Popen(command, env=environment, cwd=ROOT))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(20)


def check_delivered(world: World, receiver: Receiver) -> None:
    first, second = receiver.wait(2, 30)
    assert first.id == second.id
    assert first.body == second.body
    for each in (first, second):
        assert each.verified()["type"] == "job.succeeded"
    (told,) = telling(world)
    assert told.id == first.id
    told = world.app.wait(told, timeout=20)
    assert (told.state, told.attempt) == (State.SUCCEEDED, 2)
    assert told.parent is not None
    assert (world.state(told.parent), world.get(told.parent).callback_status) == (State.SUCCEEDED, "delivered")
    lost, delivered = world.app.deliveries(told.parent)[0].tries
    assert (lost.attempt, lost.status, lost.seconds) == (1, None, None)
    assert "stopped renewing its lease" in (lost.error or "")
    assert (delivered.attempt, delivered.status, delivered.error) == (2, 204, None)


def test_killed_while_the_receiver_has_it_and_has_not_answered(store: World, start: Start) -> None:
    victim: list[subprocess.Popen[bytes]] = []
    ready = threading.Event()

    def kill_the_sender(_: Received) -> int:
        ready.wait(20)
        victim[0].send_signal(signal.SIGKILL)
        victim[0].wait(20)
        return 204

    with Receiver(kill_the_sender, 204) as receiver:
        store.add.using(callback=receiver.url).enqueue(1)
        victim.append(start("victim"))
        ready.set()
        receiver.wait(1)
        start("heir")
        check_delivered(store, receiver)


def test_killed_between_the_answer_and_the_record(store: World, start: Start) -> None:
    with Receiver(204) as receiver:
        store.add.using(callback=receiver.url).enqueue(1)
        victim = start("victim", "dies")
        assert victim.wait(30) == -signal.SIGKILL
        assert len(receiver.received) == 1
        start("heir")
        check_delivered(store, receiver)
