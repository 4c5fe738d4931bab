"""Many who enqueue at once: one job per key, no error for being many, nobody starved."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import State
from holdfast.torture.ledgers import read
from tests.journeys import tasks
from tests.journeys.scene import Player, Scene
from tests.until import until


@pytest.fixture
def go(tmp_path: Path) -> Path:
    return tmp_path / "go"


def _begin_together(scene: Scene, players: list[Player], go: Path) -> None:
    until(lambda: sum(line.what == "ready" for line in read(str(scene.ledgers))) == len(players), "all are ready")
    go.touch()
    for player in players:
        assert player.wait() == 0, player.log


def test_one_key_asked_for_by_64_callers_some_rolled_back(scene: Scene, go: Path) -> None:
    processes, threads = 4, 16
    players = [scene.start("keys", name=f"p{number}", go=str(go), threads=threads) for number in range(processes)]
    _begin_together(scene, players, go)
    answers = [line for line in read(str(scene.ledgers)) if line.what == "ok"]
    assert len(answers) == 64
    assert len({line.ids[0] for line in answers}) == 1
    assert [line.how for line in answers].count("created") == 1
    jobs = scene.app.jobs(limit=10)
    assert [job.id for job in jobs] == [answers[0].ids[0]]
    assert not jobs[0].arguments["call"].endswith("-rolled-back")
    assert scene.kinds(jobs[0]) == ["enqueued"]


def test_sixteen_writers_wait_for_each_other_and_for_about_as_long(scene: Scene, go: Path) -> None:
    count = 60
    players = [scene.start("write", name=f"w{number}", go=str(go), count=count) for number in range(16)]
    _begin_together(scene, players, go)
    for player in players:
        assert "locked" not in player.log
    lines = [line for line in read(str(scene.ledgers)) if line.what == "waited"]
    assert len(lines) == 16
    totals = [sum(int(wait) for wait in line.ids) / 1e9 for line in lines]
    longest = max(int(wait) / 1e9 for line in lines for wait in line.ids)
    assert max(totals) < 4 * statistics.median(totals) + 0.5, "one of them was starved"
    assert longest < 5.0
    assert scene.app.stats() == {tasks.nothing.name: {"ready": 16 * (count + 1)}}


def test_many_that_start_at_once_on_a_new_file_migrate_it_once(tmp_path: Path, go: Path) -> None:
    scene = Scene(tmp_path)
    try:
        players = [scene.start("migrate", name=f"m{number}", go=str(go)) for number in range(8)]
        _begin_together(scene, players, go)
        applied = [line.ids for line in read(str(scene.ledgers)) if line.what == "migrated"]
        assert len(applied) == 8
        assert len([ids for ids in applied if ids]) == 1
        assert scene.app.stats() == {tasks.nothing.name: {"ready": 8}}
        scene.check_integrity()
    finally:
        scene.close()


def test_a_forked_child_has_connections_of_its_own(scene: Scene) -> None:
    player = scene.start("fork", name="parent")
    assert player.wait() == 0, player.log
    answers = {line.call or "": line for line in read(str(scene.ledgers)) if line.what == "ok"}
    assert sorted(answers) == ["after", "child", "parent"]
    assert answers["after"].error == "0"
    assert {job.arguments["call"] for job in scene.app.jobs()} == {"before", "child", "parent", "after"}


def test_the_file_is_for_its_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    program = (
        "import os; os.umask(0)\n"
        "from tests.journeys.tasks import app, nothing\n"
        "nothing.enqueue(1)\n"
        "print([oct(os.stat(p).st_mode & 0o777) for p in (app.store.path, app.store.path + '-wal', app.store.path + '-shm')])"
    )
    variables = os.environ | {"HOLDFAST_URL": f"sqlite:///{path}"}
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(["0o600"] * 3)


@pytest.mark.slow
def test_memory_stays_bounded_through_many_jobs(scene: Scene) -> None:
    count = 200_000
    asked = scene.start("bulk", count=count, chunks=5)
    assert asked.wait(60) == 0, asked.log
    sizes = [line.token or 0 for line in read(str(scene.ledgers)) if line.what == "memory"]
    assert sizes[-1] - sizes[0] < 30_000, f"kilobytes after each fifth: {sizes}"
    worker = scene.worker("drainer", lease=15.0, concurrency=10, until_empty=True)
    first = until(lambda: _finished(scene) > count // 10 and _peak_kilobytes(worker.pid), "a tenth is done", seconds=60)
    last = first

    def done() -> bool:
        nonlocal last
        last = _peak_kilobytes(worker.pid) or last
        return not worker.alive

    until(done, "all is done", seconds=100)
    assert worker.wait() == 0
    assert last - first < 40_000, f"kilobytes: {first}, then {last}"
    assert scene.app.stats() == {tasks.nothing.name: {State.SUCCEEDED: count}}


def _finished(scene: Scene) -> int:
    return int(scene.query("SELECT count(*) FROM holdfast_finished")[0][0])


def _peak_kilobytes(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
