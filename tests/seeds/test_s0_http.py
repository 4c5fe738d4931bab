"""S0, benchmark jobs that a browser watches, end to end: real servers, real workers, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.until import PATIENCE, until
from tests.web.ground import STREAM, Frame, ProcessServer, Program, frames_of, free_port, numbers

TARGET = "tests.seeds.programs:app"


class Scene:
    """One database, and the programs that play on it."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.url, self.port = directory, f"sqlite:///{directory / 'jobs.db'}", free_port()
        self.gates = directory / "gates"
        self.gates.mkdir()
        self._programs: list[Program] = []

    def serve(self, *flags: str, port: int | None = None) -> ProcessServer:
        flags = (*flags, "--lease", "1s") if "--worker" in flags else flags
        log = self.directory / f"server-{len(self._programs)}.log"
        server = ProcessServer(self.url, log, *flags, port=self.port if port is None else port, target=TARGET)
        self._programs.append(server)
        return server

    def work(self, *flags: str) -> Program:
        log = self.directory / f"worker-{len(self._programs)}.log"
        worker = Program(self.url, log, "worker", TARGET, "--lease", "1s", *flags)
        worker.wait_for("works on ")
        self._programs.append(worker)
        return worker

    def close_gate(self, number: int) -> None:
        """The benchmark does not go on to this document."""
        (self.gates / f"wait-{number}").touch()

    def open_gate(self, number: int) -> None:
        (self.gates / str(number)).touch()

    def start(self, server: ProcessServer, documents: int, **options: Any) -> str:
        kwargs = {"corpus": {"name": "Žluťoučký kůň 🐎"}, "documents": documents, "gates": str(self.gates)}
        kwargs |= {name: options.pop(name) for name in ("dies",) if name in options}
        answer = server.client.post("/api/jobs", json={"task": "benchmark", "kwargs": kwargs, **options})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def close(self) -> None:
        for program in self._programs:
            program.close()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    try:
        yield made
    finally:
        made.close()


class Browser:
    """What a page does: it follows a job, comes back when it was cut off, and forgets nothing that it saw."""

    def __init__(self, scene: Scene, id: str) -> None:
        self._url = f"http://127.0.0.1:{scene.port}/api/jobs/{id}/events"
        self.seen: list[Frame] = []
        self.cuts = 0

    def watch(self) -> None:
        """Until the job has ended."""
        while not self.seen or self.seen[-1].event != "end":
            try:
                for frame in self._connection():
                    self.seen.append(frame)
            except httpx.TransportError:
                self.cuts += 1
                threading.Event().wait(0.05)

    def _connection(self) -> Iterator[Frame]:
        last = numbers(self.seen)
        headers = {**STREAM, "last-event-id": str(last[-1])} if last else STREAM
        with httpx.stream("GET", self._url, headers=headers, timeout=PATIENCE, verify=False) as answer:
            assert answer.status_code == 200, answer.read()
            yield from frames_of(answer)

    @property
    def documents(self) -> list[int]:
        return [frame.data["data"]["n"] for frame in self.seen if frame.event == "document"]


def job(server: ProcessServer, id: str) -> dict[str, Any]:
    answer = server.client.get(f"/api/jobs/{id}")
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


# Does


def test_create_with_an_id_of_ones_own_get_it_and_list_the_newest_first(scene: Scene) -> None:
    server = scene.serve()
    ids = [scene.start(server, 1, id=id) for id in ("run/2030-01", "run/2030-02", "run/2030-03")]
    assert ids == ["run/2030-01", "run/2030-02", "run/2030-03"]
    assert job(server, "run%2F2030-02")["arguments"]["corpus"] == {"name": "Žluťoučký kůň 🐎"}
    server.client.post("/api/jobs/run%2F2030-02/cancel")
    listed = [each["id"] for each in server.client.get("/api/jobs", params={"limit": 2}).json()["jobs"]]
    assert listed == ["run/2030-03", "run/2030-02"]
    ready = server.client.get("/api/jobs", params={"state": "ready"}).json()["jobs"]
    assert [each["id"] for each in ready] == ["run/2030-03", "run/2030-01"]
    again = server.client.post("/api/jobs", json={"task": "benchmark", "args": [{}, 1], "id": "run/2030-01"})
    assert again.status_code == 409


def test_live_progress_across_servers_that_are_killed_and_started_again(scene: Scene) -> None:
    """The job runs in one process, its clients are at another, which dies three times in the middle of it."""
    scene.work()
    server = scene.serve()
    for number in (30, 60, 90):
        scene.close_gate(number)
    id = scene.start(server, 120, id="run/1")
    browser = Browser(scene, "run%2F1")
    watching = threading.Thread(target=browser.watch, daemon=True)
    watching.start()
    for number in (30, 60, 90):
        until(lambda last=number - 1: last in browser.documents, f"document {number - 1} is not seen")  # type: ignore[misc]
        server.kill()
        scene.open_gate(number)  # and the job goes on while nobody serves
        server = scene.serve()
    watching.join(PATIENCE)
    assert browser.cuts >= 3
    assert numbers(browser.seen) == list(range(1, len(browser.seen))), "something is missing, or came twice"
    assert browser.documents == list(range(1, 121))
    assert browser.seen[-1].data == {"job": id, "state": "succeeded"}
    done = job(server, "run%2F1")
    assert (done["state"], done["result"], done["attempt"]) == ("succeeded", "done", 1)
    assert done["progress"] == {
        "fraction": 1.0,
        "total_documents": 120,
        "engine": "tesseract",
        "processed_documents": 120,
        "output_path": "reports/été.html",
    }
    assert done["event_count"] == len(browser.seen) - 1


def test_after_a_restart_a_client_finds_its_job_in_its_true_state(scene: Scene) -> None:
    server = scene.serve("--worker")
    scene.close_gate(5)
    done, cancelled, running = scene.start(server, 2), scene.start(server, 1, run_after=3600), scene.start(server, 5)
    server.client.post(f"/api/jobs/{cancelled}/cancel", json={"reason": "no longer wanted"})
    until(lambda: job(server, done)["state"] == "succeeded", "the first does not end")
    until(lambda: job(server, running)["progress"].get("processed_documents") == 4, "the third does not run")
    server.kill()
    again = scene.serve()
    assert job(again, done)["state"] == "succeeded"
    assert (job(again, cancelled)["state"], job(again, cancelled)["error"]) == ("cancelled", "no longer wanted")
    assert job(again, running)["state"] in ("running", "ready")
    assert again.client.get("/api/jobs/never").status_code == 404
    scene.open_gate(5)
    scene.work()
    until(lambda: job(again, running)["state"] == "succeeded", "it is not taken up again")
    assert job(again, running)["attempt"] == 2


def test_a_job_whose_process_died_is_found_by_the_living_with_a_reason_that_a_person_can_read(scene: Scene) -> None:
    """Nobody is restarted: the worker inside the server was there before the other one died."""
    victim = scene.work("--name", "victim")
    server = scene.serve()
    id = scene.start(server, 3, dies=True)
    assert victim.process.wait(PATIENCE) == -9
    rescuer = scene.serve("--worker", port=0)
    until(lambda: job(server, id)["state"] == "succeeded", "nobody takes it up")
    done = job(rescuer, id)
    (error,) = done["errors"]
    assert (done["attempt"], error["kind"]) == (2, "WorkerLost")
    assert error["message"].startswith("worker victim (")
    assert "stopped renewing its lease" in error["message"]


# Gets wrong


def test_a_second_process_does_not_take_the_living_jobs_of_the_first(scene: Scene) -> None:
    scene.close_gate(2)
    server = scene.serve("--worker")
    id = scene.start(server, 3)
    until(lambda: job(server, id)["state"] == "running", "it does not run")
    second = scene.serve("--worker", port=0)
    until(lambda: len(second.client.get("/api/workers").json()["workers"]) == 2, "the second does not work")
    scene.open_gate(2)
    until(lambda: job(second, id)["state"] == "succeeded", "it does not end")
    assert (job(second, id)["attempt"], job(second, id)["errors"]) == (1, [])


def test_a_job_that_was_cancelled_stays_so_whatever_its_worker_does(scene: Scene) -> None:
    scene.close_gate(2)
    scene.work()
    server = scene.serve()
    id = scene.start(server, 3)
    until(lambda: job(server, id)["progress"].get("processed_documents") == 1, "it does not run")
    assert server.client.post(f"/api/jobs/{id}/cancel").json()["state"] == "cancelled"
    scene.open_gate(2)
    other = scene.start(server, 1)
    until(lambda: job(server, other)["state"] == "succeeded", "the worker does not go on")
    assert (job(server, id)["state"], job(server, id)["result"]) == ("cancelled", None)
    assert server.client.post(f"/api/jobs/{id}/cancel").status_code == 409
