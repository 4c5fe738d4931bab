"""A database becomes another one, of either kind, and nothing is lost, doubled or half there."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import LockNotAvailable

from holdfast import Conflict, Key
from holdfast.domain.states import State
from holdfast.store.op import Moment, Op
from holdfast.store.transfer import Endpoint, checksum, endpoint_of, transfer
from holdfast.store.workers import register
from tests.conformance.world import STORES, World
from tests.simulation.invariants import check

Open = Callable[[str], World]
PAIRS = [(one, other) for one in sorted(STORES) for other in sorted(STORES)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Open]:
    worlds: list[World] = []

    def open_world(kind: str) -> World:
        folder = tmp_path / str(len(worlds))
        folder.mkdir()
        worlds.append(STORES[kind](folder))
        return worlds[-1]

    yield open_world
    for each in worlds:
        each.close()


def lived_in(world: World) -> World:
    """Jobs in every state but running, with keys, tags, errors, progress, results and events of their own."""
    world.app.enqueue_many(world.add.bind(number) for number in range(2_500))
    world.add.using(key=Key("client-7", "req-1"), tags=["eu", "b"], meta={"größe": [1, None]}).enqueue(1)
    world.app.courier.resolve = lambda *_: ["93.184.215.14"]
    world.add.using(callback="https://hooks.example.com/", run_after=7200).enqueue(3)
    world.add.using(run_after=3600, id="chosen").enqueue(2)
    world.app.add_key("ci", "operate", queues=["eu"], expires=86_400)
    world.once.enqueue("no")
    world.app.fail(world.app.claim(queues=["other"]), "broken")  # type: ignore[arg-type]
    world.app.finish(world.claim(), {"é": 1}, meter={"tokens": 2.5})
    world.app.fail(world.claim(), "later")
    world.app.cancel(world.app.jobs(state=State.READY, limit=1)[0].id)
    world.clock.advance(120)  # whoever claimed by hand is no longer there
    return world


def newest(world: World) -> list[tuple[object, ...]]:
    jobs = world.app.jobs(limit=1_000)
    return [(job.id, job.state, job.arguments, job.result, job.errors, job.tags, job.meta, job.callback) for job in jobs]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_everything_is_there_afterwards_and_work_goes_on(world: Open, one: str, other: str) -> None:
    source, target = lived_in(world(one)), world(other)
    target.clock.advance(source.clock.now() / 1e6 - target.clock.now() / 1e6)
    before = newest(source)
    with endpoint_of(source.app.store) as giving, endpoint_of(target.app.store) as taking:
        moved = transfer(giving, taking)
        assert checksum(giving) == checksum(taking) == moved.checksum
    assert moved.counts["job_spec"] == 2_504
    assert newest(target) == before
    assert target.app.stats() == source.app.stats()
    assert target.app.keys() == source.app.keys() != []
    assert not target.add.using(key=Key("client-7", "req-1")).enqueue(1).created
    chosen = target.app.get("chosen")
    assert chosen is not None
    assert list(target.app.events(chosen.id)) == list(source.app.events(chosen.id))
    check(target.rows)
    new = target.add.enqueue(7)
    target.once.enqueue("more")
    assert target.rows("SELECT count(DISTINCT seq), count(*) FROM holdfast_job") == [(2_506, 2_506)]
    assert target.app.jobs(limit=2)[1].id == new.id
    target.app.finish(target.claim(), 0)
    check(target.rows)


class CutOff(Exception):
    pass


class Fragile:
    """A side whose connection breaks after so many batches."""

    def __init__(self, side: Endpoint, batches: int) -> None:
        self._side, self._left = side, batches

    def __getattr__(self, name: str) -> object:
        return getattr(self._side, name)

    def write(self, *given: object) -> None:
        self._left -= 1
        if self._left < 0:
            raise CutOff
        self._side.write(*given)  # type: ignore[arg-type]


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize("batches", [0, 3, 8])
def test_a_move_that_was_cut_off_goes_on_with_what_changed_meanwhile(world: Open, one: str, other: str, batches: int) -> None:
    source, target = lived_in(world(one)), world(other)
    with endpoint_of(source.app.store) as giving, endpoint_of(target.app.store) as taking, pytest.raises(CutOff):
        transfer(giving, Fragile(taking, batches))  # type: ignore[arg-type]
    newest = source.add.enqueue(8)
    source.app.delete(source.app.jobs(state=State.READY, limit=1, newest=False)[0].id)
    source.app.cancel(source.app.jobs(state=State.READY, limit=1, newest=False)[0].id)
    with endpoint_of(source.app.store) as giving, endpoint_of(target.app.store) as taking:
        transfer(giving, taking)
    assert target.app.stats() == source.app.stats()
    assert target.get(newest).arguments == {"a": 8}
    check(target.rows)


def test_what_would_lose_something_is_refused(world: Open) -> None:
    source, target = world("sqlite"), world("sqlite")
    source.add.enqueue(1)
    lease = source.claim()
    expected = pytest.raises(Conflict, match=r"1 job.* running; stop its workers")
    with expected, endpoint_of(source.app.store) as giving, endpoint_of(target.app.store) as taking:
        transfer(giving, taking)
    source.app.release(lease)
    target.add.enqueue(1)
    with endpoint_of(source.app.store) as giving, endpoint_of(target.app.store) as taking:
        with pytest.raises(Conflict, match=r"has 1 job.* already; a move needs an empty database"):
            transfer(giving, taking)
        with pytest.raises(Conflict, match="are the same database"):
            transfer(giving, giving)
    assert target.rows("SELECT count(*) FROM holdfast_job") == [(1,)]


def test_a_living_worker_is_named(world: Open) -> None:
    source, target = world("sqlite"), world("sqlite")
    source.app.migrate()
    source.app.store.write(_registered)
    expected = pytest.raises(Conflict, match=r"worker w1 .* stop all workers")
    with expected, endpoint_of(source.app.store) as giving, endpoint_of(target.app.store) as taking:
        transfer(giving, taking)


@pytest.mark.parametrize("kind", sorted(STORES))
def test_nobody_writes_to_the_source_meanwhile(world: Open, kind: str) -> None:
    source = world(kind)
    source.add.enqueue(1)
    with endpoint_of(source.app.store) as giving, giving.frozen(), pytest.raises((sqlite3.OperationalError, LockNotAvailable)):
        write_at_once(source.url)
    write_at_once(source.url)


def write_at_once(url: str) -> None:
    """As another program would; it does not wait."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0)) as raw:
            raw.execute("UPDATE holdfast_job_spec SET priority = 1")
        return
    with psycopg.connect(url) as connection:
        connection.execute("SET lock_timeout = 100")
        connection.execute("UPDATE holdfast.job_spec SET priority = 1")


def _registered(moment: Moment) -> Op[int]:
    return register(moment, "w1", "here", 1, 15_000_000, by_hand=False)
