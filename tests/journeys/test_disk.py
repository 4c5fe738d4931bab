"""A full disk and a read-only file: nothing is acknowledged that is not kept, and work resumes by itself."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from holdfast import Holdfast, State, StoreUnavailable
from holdfast.torture.ledgers import read
from tests.journeys import tasks
from tests.journeys.scene import Player, Scene
from tests.until import until

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs prlimit or tmpfs")
MEGABYTE = 1024 * 1024


class Disk(Protocol):
    place: Path

    def fill(self, player: Player) -> None: ...
    def free(self, player: Player) -> None: ...


class SmallDisk:
    """A file system of a few megabytes, filled by a file of nothing: the disk is full for everybody."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._ballast = place / "ballast"

    def fill(self, player: Player) -> None:
        with self._ballast.open("wb", buffering=0) as file:
            try:
                while file.write(b"\0" * 4096) == 4096:
                    pass
            except OSError:
                pass  # no space left on device: that is the point

    def free(self, player: Player) -> None:
        self._ballast.unlink()


class Quota:
    """No file of this process may grow: what needs no rights, and hits that process alone."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def fill(self, player: Player) -> None:
        resource.prlimit(player.pid, resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))

    def free(self, player: Player) -> None:
        resource.prlimit(player.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@pytest.fixture(params=["small disk", "quota"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "disk"
    place.mkdir(mode=0o700)
    if request.param == "quota":
        yield Quota(place)
        return
    if not mounted(place):
        pytest.skip("no right to mount a small file system here; the quota stands in for it")
    try:
        yield SmallDisk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def cramped(tmp_path: Path, disk: Disk) -> Iterator[Scene]:
    scene = Scene(tmp_path, disk.place)
    scene.app.migrate()
    try:
        yield scene
        scene.check_integrity()
    finally:
        scene.close()


def mounted(place: Path) -> bool:
    if os.geteuid() != 0:
        return False
    command = ["mount", "-t", "tmpfs", "-o", "size=6m,mode=0700", "tmpfs", str(place)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@linux_only
def test_a_full_disk_acknowledges_nothing_and_goes_on_when_there_is_space(cramped: Scene, disk: Disk, tmp_path: Path) -> None:
    player = cramped.start("enqueue", name="asker")

    def count(what: str) -> int:
        return sum(line.what == what for line in read(str(cramped.ledgers)))

    until(lambda: count("ok") > 5 or not player.alive, "it enqueues")
    assert player.alive, player.log
    disk.fill(player)
    until(lambda: count("fail") > 3 or not player.alive, "it is refused")
    assert player.alive, player.log
    disk.free(player)
    enough = count("ok") + 5
    until(lambda: count("ok") > enough or not player.alive, "it goes on by itself")
    (tmp_path / "stop").touch()
    assert player.wait() == 0, player.log
    acknowledged = {line.ids[0] for line in read(str(cramped.ledgers)) if line.what == "ok"}
    assert {id for (id,) in cramped.query("SELECT id FROM holdfast_full_job")} == acknowledged
    errors = {line.error or "" for line in read(str(cramped.ledgers)) if line.what == "fail"}
    for error in errors:
        assert str(cramped.path) in error
        assert "\n" not in error


@linux_only
def test_a_worker_survives_a_full_disk(cramped: Scene, disk: Disk) -> None:
    worker = cramped.worker("patient", lease=1.0)
    jobs = [cramped.enqueue(tasks.polite, f"work-{number}", 0.5) for number in range(4)]
    for number in range(4):
        cramped.await_line("start", f"work-{number}")
    disk.fill(worker)
    until(lambda: "does not answer" in worker.log or not worker.alive, "the worker notices")
    assert worker.alive, worker.log
    disk.free(worker)
    for job in jobs:
        ended = cramped.app.wait(job.id, timeout=20)
        assert ended.state is State.SUCCEEDED
        assert ended.result == ended.token
        assert cramped.kinds(job).count("succeeded") == 1
    assert worker.alive


@linux_only
def test_a_read_only_file_is_refused_in_one_line_and_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir(mode=0o700)
    if os.geteuid() != 0:
        _check_read_only(place, lambda: os.chmod(place / "jobs.db", 0o400))
        return
    if not mounted(place):
        pytest.skip("root ignores file modes, and there is no right to mount a read-only file system here")
    try:
        _check_read_only(place, lambda: subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True))
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def _check_read_only(place: Path, make_read_only: Callable[[], object]) -> None:
    path = place / "jobs.db"
    with Holdfast(f"sqlite:///{path}") as app:
        app.enqueue(tasks.nothing.bind(1))
    make_read_only()
    before = path.read_bytes()
    with Holdfast(f"sqlite:///{path}") as app, pytest.raises(StoreUnavailable) as refused:
        app.enqueue(tasks.nothing.bind(2))
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before
