"""Holdfast itself, through its public face and with its defaults."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

from bench.ground import DATABASE
from bench.job import Payload, Tally, payload, payloads
from holdfast import Key

LATER_SECONDS = 86_400

Options = dict[str, Any]


def keys(number: int) -> Options:
    return {"key": Key("bench", number)}


def tags(number: int) -> Options:
    return {"tags": [f"t{number % 7}", "all"]}


def priorities(number: int) -> Options:
    return {"priority": number % 3}


def everything(number: int) -> Options:
    return {**keys(number), **tags(number), **priorities(number), "meta": {"n": number}}


SPECIAL: dict[str, Callable[[int], Options]] = {"keys": keys, "tags": tags, "priorities": priorities, "all": everything}


class HoldfastSystem:
    def __init__(self, task: str) -> None:
        self._task_name = task

    def setup(self, directory: Path) -> None:
        named = directory / DATABASE
        os.environ["HOLDFAST_URL"] = named.read_text() if named.exists() else f"sqlite:///{directory / 'jobs.db'}"
        tasks = importlib.import_module("bench.systems.holdfast_tasks")
        self._app: Any = tasks.app
        self._task: Any = getattr(tasks, self._task_name)
        self._app.migrate()  # the others' files and tables are there before they are measured, too

    def send(self, argument: Payload) -> None:
        self._task.enqueue(argument)

    def share(self) -> None:
        """Threads may call `send` as it is."""

    def send_many(self, jobs: int) -> None:
        self._app.enqueue_many(map(self._task.bind, payloads(jobs)))

    def send_later(self, jobs: int) -> None:
        later = self._task.using(run_after=LATER_SECONDS)
        self._app.enqueue_many(map(later.bind, payloads(jobs)))

    def send_special(self, kind: str, numbers: range) -> None:
        if kind == "plain":
            self._app.enqueue_many(map(self._task.bind, map(payload, numbers)))
        else:
            options = SPECIAL[kind]
            self._app.enqueue_many(self._task.using(**options(number)).bind(payload(number)) for number in numbers)

    def drain(self, tally: Tally) -> None:
        worker = self._app.worker()
        watch = Thread(target=stop_when, args=(tally.enough, worker), daemon=True)
        watch.start()
        worker.run_until_empty()
        tally.enough.set()
        watch.join()

    def serve(self, stop: Event) -> None:
        worker = self._app.worker()
        Thread(target=stop_when, args=(stop, worker), daemon=True).start()
        worker.run()

    def close(self) -> None:
        self._app.close()


def stop_when(event: Event, worker: Any) -> None:
    event.wait()
    worker.stop()


def plain() -> HoldfastSystem:
    return HoldfastSystem("noop")


def asynchronous() -> HoldfastSystem:
    return HoldfastSystem("noop_async")
